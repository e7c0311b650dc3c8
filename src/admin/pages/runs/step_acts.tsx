/** What an operator does to the steps of a run: another run that goes on from one of them, the end of a wait, and messages. */
import { fork, wake } from "../../../actions/workflow_actions.ts";
import { readDefinition } from "../../../definitions/definition_rows.ts";
import { TERMINAL } from "../../../runs/run_states.ts";
import { readRun, type RunView } from "../../../runs/run_view.ts";
import { readStep, type StepRow } from "../../../steps/run_steps.ts";
import { jsonField, orForm } from "../../form_actions.ts";
import { Foot } from "../../parts/dialog.tsx";
import { Problem } from "../../parts/notes.tsx";
import {
  type ActionContext,
  type Done,
  field,
  idParam,
  link,
  may,
  type Page,
  PageError,
  type RequestContext,
  typedIn,
} from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";
import { messagePath } from "../waiting/list.tsx";

/** Of an ended run's step the fork, of an open wait its end and its answer; nothing for who may not act. */
export function StepActs({ on, run, step }: { on: RequestContext; run: RunView; step: StepRow }) {
  if (!may(on, "operator")) return null;
  const { key, kind, state, waits_for } = step;
  if (TERMINAL.includes(run.state)) {
    return <a class="button small" href={link(on, `/runs/${run.id}/fork`, { from: key })}>{t(on, "steps.fork")}</a>;
  }
  if (state !== "WAITING") return null;
  return (
    <span class="buttons">
      {kind === "message" && waits_for !== null && (
        <a class="button small" href={link(on, messagePath(run.id, waits_for))}>{t(on, "steps.answer")}</a>
      )}
      {["sleep", "message", "event"].includes(kind) && (
        <a class="button small" href={link(on, `/runs/${run.id}/wake`, { step: key })}>{t(on, "steps.wake")}</a>
      )}
    </span>
  );
}

/** The messages that the run's job takes. */
export async function messageNames(on: RequestContext, run: RunView): Promise<string[]> {
  if (TERMINAL.includes(run.state) || !may(on, "operator")) return [];
  return Object.keys((await readDefinition(on.sql, run.job_name))?.messages ?? {}).slice(0, 50);
}

export function SendButtons({ on, run, names }: { on: RequestContext; run: RunView; names: string[] }) {
  if (names.length === 0) return null;
  return (
    <p class="buttons">
      {t(on, "steps.send")}
      {names.map((name) => <a class="button small" href={link(on, messagePath(run.id, name))}>{name}</a>)}
    </p>
  );
}

export async function showWake(on: RequestContext): Promise<Page> {
  return await wakePage(on);
}

async function wakePage(on: RequestContext, wrong?: string): Promise<Page> {
  const [id, key] = [idParam(on), on.query.get("step") ?? ""];
  if (!await readStep(on.sql, id, key)) throw new PageError(404);
  const title = t(on, "steps.wake_title", { id });
  return {
    title,
    body: (
      <form class="start narrow-form" method="post" action={link(on, `/runs/${id}/wake`, { step: key })}>
        <h1>{title}</h1>
        {wrong && <Problem title={t(on, "steps.wake_refused")} text={wrong} />}
        <p>
          <code>
            <bdi>{key}</bdi>
          </code>{" "}
          {t(on, "steps.wake_text")}
        </p>
        <Foot on={on} back={link(on, `/runs/${id}`)} verb={t(on, "steps.wake")} danger />
      </form>
    ),
  };
}

export async function wakeRun(on: ActionContext): Promise<Done | Page> {
  const [id, step] = [idParam(on), on.query.get("step") ?? ""];
  return await orForm(on, (wrong) => wakePage(on, wrong), async () => {
    const { key } = await on.perform(wake, { id, step });
    return { to: `/runs/${id}`, text: t(on, "steps.wake_done", { key }) };
  });
}

export async function showFork(on: RequestContext): Promise<Page> {
  return await forkPage(on);
}

async function forkPage(on: RequestContext, wrong?: string): Promise<Page> {
  const [id, from] = [idParam(on), on.query.get("from") ?? undefined];
  const run = await readRun(on.sql, id);
  if (!run) throw new PageError(404);
  const title = t(on, "steps.fork_title", { id });
  const args = typedIn(on, "args") ?? JSON.stringify(run.args, null, 2);
  return {
    title,
    body: (
      <form class="start" method="post" action={link(on, `/runs/${id}/fork`, { from })}>
        <h1>
          {title} <small>{t(on, "runs.of_job")} {run.job_name}</small>
        </h1>
        {wrong && <Problem title={t(on, "steps.fork_refused")} text={wrong} />}
        <p>
          {from !== undefined && (
            <code>
              <bdi>{from}</bdi>
            </code>
          )} {t(on, "steps.fork_text")}
        </p>
        <label>
          {t(on, "runs.args")}
          <textarea name="args" rows={Math.min(16, args.split("\n").length + 2)} spellcheck={false}>
            {`\n${args}`}
          </textarea>
        </label>
        <label>
          {t(on, "steps.fork_set")}
          <textarea name="set" rows={4} spellcheck={false}>{`\n${typedIn(on, "set") ?? "{}"}`}</textarea>
        </label>
        <Foot on={on} back={link(on, `/runs/${id}`)} verb={t(on, "steps.fork")} />
      </form>
    ),
  };
}

/** Args that stand there as they came are the run's own. */
export async function forkRun(on: ActionContext): Promise<Done | Page> {
  const id = idParam(on);
  return await orForm(on, (wrong) => forkPage(on, wrong), async () => {
    const set = jsonField(on, "set", t(on, "steps.fork_set")) as Record<string, unknown>;
    const args = field(on.form, "args") === "" ? undefined : jsonField(on, "args", t(on, "runs.args"));
    const made = await on.perform(fork, { id, from: on.query.get("from") ?? undefined, set, args });
    return { to: `/runs/${made.id}`, text: t(on, "steps.fork_done", { id: made.id, of: id, n: made.steps }) };
  });
}
