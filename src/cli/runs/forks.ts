/** `runs fork`, `runs wake` and `runs tree`. */
import { fork, wake } from "../../actions/workflow_actions.ts";
import { existingRun } from "../../actions/run_actions.ts";
import { CommandError, EXIT, printJson, say } from "../../app/output.ts";
import { readTree, type TreeRun } from "../../steps/run_tree.ts";
import { act, type JsonOption, type Reasoned, withDb } from "../operator.ts";
import { idFrom, parseJson } from "../inputs.ts";
import { harmless } from "../../platform/text.ts";

export async function forkCommand(
  id: string,
  options: Reasoned & { from?: string; set?: string[]; args?: string },
): Promise<void> {
  const made = await act(fork, {
    id: idFrom(id),
    from: options.from,
    set: options.set && Object.fromEntries(options.set.map(resultFrom)),
    args: options.args === undefined ? undefined : parseJson("--args", options.args),
  }, options);
  if (options.json) return printJson({ id: made.id, rerun_of: idFrom(id), steps: made.steps });
  say(`run ${made.id} created, with ${made.steps} steps of run ${id}`);
}

/** `fraud check={"ok":true}`: a step's name has no `=` but within its key's value, so the first one that JSON follows parts them. */
function resultFrom(text: string): [string, unknown] {
  const at = text.indexOf("=");
  if (at > 0) return [text.slice(0, at), parseJson(`--set ${text.slice(0, at)}`, text.slice(at + 1))];
  throw new CommandError(`Cannot read --set "${text}": give STEP=JSON, such as --set 'charge={"id":7}'`, EXIT.usage);
}

export async function wakeCommand(id: string, options: Reasoned & { step: string }): Promise<void> {
  const { key } = await act(wake, { id: idFrom(id), step: options.step }, options);
  if (options.json) return printJson({ id: idFrom(id), step: key });
  say(`run ${id} waits for ${key} no longer`);
}

export async function treeCommand(id: string, options: JsonOption): Promise<void> {
  await withDb(async (sql) => {
    const run = await existingRun(sql, idFrom(id));
    const tree = await readTree(sql, run.id);
    if (options.json || !tree) return printJson(tree ?? null);
    const root = tree.runs.find((one) => one.id === tree.root_id);
    if (root) { for (const line of below(root, tree.runs, 0)) say(line); }
    if (tree.group.length > 0) {
      say(`group of run ${tree.group[0]?.group_id}`);
      for (const one of tree.group) {
        say(`  ${lineOf(one)}${one.after_jobs.length > 0 ? `  after ${one.after_jobs.join(", ")}` : ""}`);
      }
    }
    if (tree.more) say("and more: --json lists as many as are shown here");
  });
}

function* below(run: TreeRun, runs: TreeRun[], level: number): Generator<string> {
  yield `${"  ".repeat(level)}${lineOf(run)}${level > 0 ? `  ${run.parent_key ?? "started, not awaited"}` : ""}`;
  for (const child of runs) if (child.parent_run_id === run.id) yield* below(child, runs, level + 1);
}

function lineOf({ id, job_name, state, error_name, error_summary }: TreeRun): string {
  const why = error_name === null ? "" : `  ${error_name}: ${error_summary ?? ""}`;
  return harmless(`run ${id} of ${job_name}  ${state}${why}`).replace(/\n/g, " ");
}
