/** Runs a job now: a form drawn from the schema of its args, checked by that schema here and once more by the worker. */
import { ArgsFields, type ArgsState } from "../../args/form.tsx";
import { argsFrom, changedForm, freshArgs } from "../../args/sent.ts";
import type { Enqueued } from "../../../actions/enqueue.ts";
import { enqueue } from "../../../actions/run_actions.ts";
import { type Json, PRIORITIES, priorityNumber } from "../../../job.ts";
import { databaseNow, readDefinition, type StoredDefinition } from "../../../definitions/definition_rows.ts";
import { type NodeRow, readLabels } from "../../../nodes/workers.ts";
import { Foot } from "../../parts/dialog.tsx";
import { Problem } from "../../parts/notes.tsx";
import { orForm, wishOf } from "../../form_actions.ts";
import {
  type ActionContext,
  type Done,
  field,
  link,
  type Page,
  PageError,
  type RequestContext,
} from "../../request_context.ts";
import { readJob } from "./acts.ts";
import { JobBadges } from "./list.tsx";
import { t } from "../../../locale/locale.ts";

const UNITS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const;
const LONGEST_DELAY_S = 366 * 86_400;

/** What was typed beside the args, and what is wrong with it. */
interface Wish {
  wish: string;
  priority: string;
  delay: string;
  unit: string;
  node: string;
  wrong: { priority?: string; delay?: string };
}

const NO_WISH = { priority: "", delay: "", unit: "s", node: "", wrong: {} };

export async function showRunForm(on: RequestContext): Promise<Page> {
  const definition = await readDefinitionOf(on);
  const args = freshArgs(definition.args_schema, on.zone);
  return await runPage(on, definition, { args, wish: { ...NO_WISH, wish: crypto.randomUUID() } });
}

async function readDefinitionOf(on: RequestContext): Promise<StoredDefinition> {
  const definition = await readDefinition(on.sql, on.params.name ?? "");
  if (!definition || definition.removed_at) throw new PageError(404);
  return definition;
}

/** Starts it; or gives the form back: changed by one of its own buttons, or with what is wrong. */
export async function runJob(on: ActionContext): Promise<Done | Page> {
  const definition = await readDefinitionOf(on);
  const sent = argsFrom(on, definition.args_schema, { text: "the args", called: "args" });
  const wish = wishFrom(on);
  const changed = changedForm(on, sent);
  if (changed) return await runPage(on, definition, { args: changed, wish });
  const { value, args } = sent;
  if (args.problems.size > 0 || Object.keys(wish.wrong).length > 0) {
    return { ...await runPage(on, definition, { args, wish }), status: 400 };
  }
  return await orForm(on, (wrong) => runPage(on, definition, { args, wish, wrong }), async () => {
    const { id, isNew } = await enqueueFrom(on, definition, { args: value, wish });
    return { to: `/runs/${id}`, text: isNew ? t(on, "jobs.run_done", { id }) : t(on, "jobs.run_again", { id }) };
  });
}

function wishFrom(on: ActionContext): Wish {
  const text = (name: string) => field(on.form, name);
  const [priority, delay, unit] = [text("priority"), text("delay"), text("unit")];
  const wrong: Wish["wrong"] = {};
  try {
    if (priority !== "") priorityNumber(priorityOf(priority));
  } catch {
    wrong.priority = t(on, "jobs.priority_wrong");
  }
  const seconds = Number(delay) * unitOf(unit);
  if (!(seconds >= 0 && seconds <= LONGEST_DELAY_S)) wrong.delay = t(on, "jobs.delay_wrong");
  return { wish: wishOf(on), priority, delay, unit, node: text("node"), wrong };
}

function priorityOf(text: string): Parameters<typeof priorityNumber>[0] {
  return /^\d+$/.test(text) ? Number(text) : text as keyof typeof PRIORITIES;
}

function unitOf(unit: string): number {
  return Object.hasOwn(UNITS, unit) ? UNITS[unit as keyof typeof UNITS] : 1;
}

/** One run for each time that the form was opened; a delay counts by the database's clock. */
async function enqueueFrom(
  on: ActionContext,
  { name }: StoredDefinition,
  { args, wish }: { args: Json | undefined; wish: Wish },
): Promise<Enqueued> {
  const seconds = Number(wish.delay) * unitOf(wish.unit);
  const now = seconds > 0 ? await databaseNow(on.sql) : undefined;
  const options = {
    idempotency_key: wish.wish,
    priority: wish.priority === "" ? undefined : priorityOf(wish.priority),
    run_at: now && new Date(now.epochMilliseconds + seconds * 1_000),
    node: wish.node === "" ? undefined : wish.node,
  };
  return await on.perform(enqueue, { job_name: name, args, ...options });
}

async function runPage(
  on: RequestContext,
  definition: StoredDefinition,
  { args, wish, wrong }: { args: ArgsState; wish: Wish; wrong?: string },
): Promise<Page> {
  const [job, nodes] = await Promise.all([readJob(on), readLabels(on.sql)]);
  const path = `/jobs/${job.name}/run`;
  const marked = args.problems.size > 0 || Object.keys(wish.wrong).length > 0;
  return {
    title: t(on, "jobs.run_title", { name: job.name }),
    body: (
      <form class="form" method="post" action={link(on, path)}>
        {/* What the Enter key presses. */}
        <button type="submit" class="first" tabindex={-1} aria-hidden="true">{t(on, "jobs.run_now")}</button>
        <h1>
          {t(on, "jobs.run_title", { name: job.name })} <JobBadges on={on} job={job} />
        </h1>
        {job.description && <p class="lead">{job.description}</p>}
        {job.paused_at && <p class="now">{t(on, "jobs.run_paused")}</p>}
        {marked && <Problem title={t(on, "jobs.run_wrong")} />}
        {wrong && <Problem title={t(on, "jobs.run_refused")} text={wrong} />}
        <ArgsFields on={on} args={args} action={path} />
        <WishFields on={on} definition={definition} wish={wish} nodes={nodes} />
        <input type="hidden" name="wish" value={wish.wish} />
        <Foot on={on} back={link(on, `/jobs/${job.name}`)} verb={t(on, "jobs.run_now")} />
      </form>
    ),
  };
}

interface WishShown {
  on: RequestContext;
  definition: StoredDefinition;
  wish: Wish;
  nodes: Pick<NodeRow, "node_id" | "labels">[];
}

function WishFields({ on, definition, wish, nodes }: WishShown) {
  const labels = nodes.flatMap((one) => Object.entries(one.labels).map(([name, value]) => `${name}=${value}`));
  return (
    <fieldset class="args">
      <legend>{t(on, "jobs.run_options")}</legend>
      <div class="fields">
        <div class="field">
          <label for="priority">{t(on, "jobs.priority")}</label>
          <input id="priority" name="priority" value={wish.priority} list="priorities" autocomplete="off" />
          <datalist id="priorities">{Object.keys(PRIORITIES).map((one) => <option value={one} />)}</datalist>
          <small class="hint">{t(on, "jobs.priority_hint", { standard: definition.priority })}</small>
          {wish.wrong.priority && <span class="wrong" role="alert">{wish.wrong.priority}</span>}
        </div>
        <div class="field">
          <label for="delay">{t(on, "jobs.delay")}</label>
          <span class="with-unit">
            <input type="number" id="delay" name="delay" min={0} step="any" value={wish.delay} />
            <select name="unit" aria-label={t(on, "jobs.unit")}>
              {(Object.keys(UNITS) as (keyof typeof UNITS)[]).map((one) => (
                <option value={one} selected={one === wish.unit}>{t(on, `jobs.unit.${one}`)}</option>
              ))}
            </select>
          </span>
          <small class="hint">{t(on, "jobs.delay_hint")}</small>
          {wish.wrong.delay && <span class="wrong" role="alert">{wish.wrong.delay}</span>}
        </div>
        <div class="field">
          <label for="node">{t(on, "jobs.node")}</label>
          <input id="node" name="node" value={wish.node} list="nodes" autocomplete="off" maxlength={500} />
          <datalist id="nodes">
            {[...nodes.map((one) => one.node_id), ...new Set(labels)].map((one) => <option value={one} />)}
          </datalist>
          <small class="hint">{t(on, "jobs.node_hint", { standard: definition.node })}</small>
        </div>
      </div>
    </fieldset>
  );
}
