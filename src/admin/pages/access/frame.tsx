/** What the pages of users, tokens and hooks share: the way between them, and a secret that is shown once. */
import type { Child } from "hono/jsx";
import { Code } from "../../parts/notes.tsx";
import { type ActionContext, type Done, link, type Page, type RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

const AREAS = ["users", "tokens", "hooks"] as const;
export type Area = typeof AREAS[number];

export function Frame({ on, area, children }: { on: RequestContext; area: Area; children?: Child }) {
  return (
    <>
      <div class="heading">
        <h1>{t(on, `access.area.${area}`)}</h1>
        <nav class="buttons" aria-label={t(on, "access.areas")}>
          {AREAS.map((one) => (
            <a class="button" href={link(on, `/access/${one}`)} aria-current={one === area ? "page" : undefined}>
              {t(on, `access.area.${one}`)}
            </a>
          ))}
        </nav>
      </div>
      {children}
    </>
  );
}

/** The answer to the act that made it, never a page with an address: nobody comes back to it. */
export function secretPage(on: RequestContext, of: { title: string; secret: string; area: Area }): Page {
  return {
    title: of.title,
    body: (
      <section class="narrow secret">
        <h1>
          {of.title} <small>{t(on, "access.once")}</small>
        </h1>
        <Code value={of.secret} />
        <p>{t(on, "access.copy")}</p>
        <a class="button" href={link(on, `/access/${of.area}`)}>{t(on, "access.go_on")}</a>
      </section>
    ),
  };
}

export function refused(area: Area, text: string): Done {
  return { to: `/access/${area}`, tone: "bad", text };
}

/** The `:name` of a path. */
export function nameParam(on: ActionContext): string {
  return on.params.name ?? "";
}

/** As an id within the page: names hold what an id must not. */
export function idOf(prefix: string, name: string): string {
  return `${prefix}-${encodeURIComponent(name)}`;
}
