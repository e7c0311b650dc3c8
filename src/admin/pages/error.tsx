/** What went wrong, in words, and what to do now. Details are in the log, under the id that is shown. */
import { link, type Page, type RequestContext } from "../request_context.ts";
import { type Lang, t } from "../../locale/locale.ts";

/** Why somebody may not, and who can help. */
export function needsRole(lang: Lang, { needed, has }: { needed: string; has: string }): string {
  return t({ lang }, "error.needs_role", { needed, has });
}

/** `sent_from`: the page of the form that was sent; undefined: a page was asked for, which may be asked for again. */
export function errorPage(
  on: RequestContext,
  { status, text, sent_from }: { status: number; text: string; sent_from?: string },
): Page {
  const known: Record<number, [title: string, about: string]> = {
    400: [t(on, "error.bad"), text || t(on, "error.bad_text")],
    403: [t(on, "error.forbidden"), text || t(on, "error.forbidden_text")],
    404: [t(on, "error.missing"), text || t(on, "error.missing_text")],
    408: [t(on, "error.too_slow"), text || t(on, "error.too_slow_text")],
    413: [t(on, "error.too_large"), text || t(on, "error.too_large_text")],
    429: [t(on, "error.too_many"), text || t(on, "error.too_many_text")],
    503: [t(on, "error.away"), sent_from === undefined ? t(on, "error.away_text") : t(on, "error.away_sent")],
  };
  const [title, about] = known[status] ?? [t(on, "error.failed"), t(on, "error.failed_text", { id: text })];
  return {
    title,
    refresh_seconds: status === 503 && sent_from === undefined ? 3 : undefined,
    body: (
      <div class="narrow">
        <p class="code-of-error">{status}</p>
        <h1>{title}</h1>
        <p>{about}</p>
        <p>
          {sent_from === undefined
            ? <a class="button" href={link(on, "/")}>{t(on, "error.home")}</a>
            : <a class="button" href={on.base + sent_from}>{t(on, "error.back")}</a>}
        </p>
      </div>
    ),
  };
}
