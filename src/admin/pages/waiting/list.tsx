/** Waiting for you: what runs ask people. First what the viewer may answer, the oldest first. */
import { mayAnswer, userOf } from "../../../actions/messages.ts";
import { listPrompts, type OpenPrompt } from "../../../steps/open_prompts.ts";
import { drawableOf } from "../../args/sent.ts";
import { Csrf, ReasonField } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, Empty, KeyValues } from "../../parts/notes.tsx";
import { Time } from "../../parts/time.tsx";
import { link, may, type Page, type RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";
import { DecisionButtons, decisionOf, isWhole } from "./decision.tsx";

/** Of so many the viewer's are looked for, and so many are shown. */
const MOST_LOOKED_AT = 500;
const MOST_SHOWN = 50;

export async function showWaiting(on: RequestContext): Promise<Page> {
  const all = await listPrompts(on.sql, MOST_LOOKED_AT);
  const mine = all.filter((one) => answers(on, one));
  const others = all.filter((one) => !answers(on, one));
  const shown = [...mine, ...others].slice(0, MOST_SHOWN);
  const of_me = shown.slice(0, mine.length);
  const of_others = shown.slice(mine.length);
  return {
    title: t(on, "waiting.title"),
    body: (
      <>
        <h1>{t(on, "waiting.title")}</h1>
        <Live on={on} id="waiting" topics={["waiting"]}>
          {all.length === 0 && <Empty text={t(on, "waiting.empty")} />}
          {all.length > 0 && mine.length === 0 && <p>{t(on, "waiting.none_of_yours")}</p>}
          {of_me.map((prompt) => <Card on={on} prompt={prompt} />)}
          {of_others.length > 0 && <h2>{t(on, "waiting.others")}</h2>}
          {of_others.map((prompt) => <Card on={on} prompt={prompt} />)}
          {all.length > shown.length && <p>{t(on, "waiting.more", { n: shown.length })}</p>}
        </Live>
      </>
    ),
  };
}

/** Whether the viewer is one of those who are asked, and may act at all. */
export function answers(on: RequestContext, { who, not_by }: Pick<OpenPrompt, "who" | "not_by">): boolean {
  if (!on.user || !may(on, "operator")) return false;
  return mayAnswer({ who, ...not_by !== null && { notBy: not_by } }, on.user);
}

function Card({ on, prompt }: { on: RequestContext; prompt: OpenPrompt }) {
  const path = messagePath(prompt.job_run_id, prompt.name);
  const form = drawableOf(prompt.schema);
  const decision = decisionOf(form);
  const mine = answers(on, prompt);
  return (
    <section id={`prompt-${prompt.job_run_id}-${encodeURIComponent(prompt.key)}`} class="prompt">
      <Question on={on} prompt={prompt} />
      {mine && (
        <form class="buttons" method="post" action={link(on, path)}>
          <input type="hidden" name="mode" value="fields" />
          <input type="hidden" name="wish" value={crypto.randomUUID()} />
          <input type="hidden" name="to" value="/waiting" />
          <Csrf on={on} />
          {form && decision && isWhole(form, decision) && (
            <>
              <ReasonField on={on} />
              <DecisionButtons on={on} decision={decision} />
            </>
          )}
          <a class="button" href={link(on, path)}>{t(on, "waiting.open")}</a>
        </form>
      )}
    </section>
  );
}

/** All of it is what the run's body wrote: text, and nothing else. */
export function Question({ on, prompt }: { on: RequestContext; prompt: OpenPrompt }) {
  const { job_run_id, job_name, name, ask, show, show_bytes, who, not_by, since, until } = prompt;
  const cut = show !== null && show_bytes > new TextEncoder().encode(show).byteLength;
  return (
    <>
      <h2>
        <bdi>{ask || t(on, "waiting.unasked", { name })}</bdi>
      </h2>
      {not_by !== null && userOf(not_by) === on.user?.name && (
        <p class="now">
          <strong>{t(on, "waiting.four_eyes")}</strong> {t(on, "waiting.not_you")}
        </p>
      )}
      {show !== null && <Code value={cut ? `${show}…` : indented(show)} />}
      <KeyValues
        pairs={[
          [t(on, "waiting.run"), <a href={link(on, `/runs/${job_run_id}`)}>{job_run_id}</a>],
          [t(on, "waiting.job"), <a href={link(on, `/jobs/${job_name}`)}>{job_name}</a>],
          [t(on, "waiting.message"), <code>{name}</code>],
          [t(on, "waiting.since"), <Time on={on} at={since} />],
          [t(on, "waiting.until"), until && <Time on={on} at={until} />],
          [t(on, "waiting.who"), <bdi>{who.length > 0 ? who.join(", ") : t(on, "waiting.operators")}</bdi>],
          [t(on, "waiting.not_by"), not_by !== null && <bdi>{userOf(not_by)}</bdi>],
        ]}
      />
    </>
  );
}

export function messagePath(job_run_id: number, name: string): string {
  return `/runs/${job_run_id}/messages/${encodeURIComponent(name)}`;
}

function indented(show: string): string {
  const value: unknown = JSON.parse(show);
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
