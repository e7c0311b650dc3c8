/** `runs steps`: what a run's body did, and what it waits for. */
import { existingRun } from "../../actions/run_actions.ts";
import { durationText } from "../../admin/assets/ago.js";
import { listSteps, readStep, type StepRow, stepsNamed } from "../../steps/run_steps.ts";
import { CommandError, EXIT, printJson, say } from "../../app/output.ts";
import { type JsonOption, withDb } from "../operator.ts";
import { idFrom } from "../inputs.ts";
import { printTable } from "../table.ts";
import { timeText } from "../times.ts";

const COLUMNS = ["#", "step", "state", "tries", "started", "took", "result"];

export async function stepsCommand(id: string, options: JsonOption & { step?: string }): Promise<void> {
  await withDb(async (sql) => {
    const run = await existingRun(sql, idFrom(id));
    const steps = await listSteps(sql, run.id);
    if (options.step !== undefined) {
      const { key } = stepNamed(run.id, steps, options.step);
      const step = await readStep(sql, run.id, key) as StepRow;
      return printJson(stepJson(step));
    }
    if (options.json) return printJson(steps.map(stepJson));
    printTable(COLUMNS, steps.map(stepCells), `run ${run.id} of ${run.job_name} has no steps`);
    if (steps.some(({ orphaned }) => orphaned)) say("orphaned: the code does not ask for it any more");
  });
}

/** The step of this key, or the first of this name. @throws CommandError naming those there are */
function stepNamed(job_run_id: number, steps: StepRow[], name: string): StepRow {
  const [found] = stepsNamed(steps, name);
  if (found) return found;
  const known = steps.map(({ key }) => key);
  const those = known.length === 0
    ? "it has no steps"
    : `it has ${known.slice(0, 20).join(", ")}${known.length > 20 ? ` and ${known.length - 20} more` : ""}`;
  throw new CommandError(`Cannot find step "${name}" of run ${job_run_id}: ${those}`, EXIT.usage);
}

/** What programs rely on, and after it what else there is to know. */
function stepJson(step: StepRow) {
  return {
    key: step.key,
    kind: step.kind,
    state: step.state,
    position: step.seq,
    tries: step.tries,
    started_at: step.began_at,
    finished_at: step.ended_at,
    until: step.until,
    result: step.result,
    result_bytes: step.result_bytes,
    error_name: step.error_name,
    error_summary: step.error_summary,
    child_run_id: step.child_run_id,
    child_bulk_id: step.child_bulk_id,
    child_state: step.child_state,
    sent_by: step.sent_by,
    execution: step.attempt,
    code_digest: step.code_digest,
    orphaned: step.orphaned,
    has_undo: step.has_undo,
  };
}

function stepCells(step: StepRow): unknown[] {
  const took = step.ended_at && durationText(Math.max(0, step.ended_at.getTime() - step.began_at.getTime()));
  const state = step.orphaned ? `${step.state}, orphaned` : step.state;
  return [step.seq, step.key, state, step.tries, step.began_at, took, outcomeText(step)];
}

function outcomeText(step: StepRow): string | null {
  if (step.error_name !== null) return `${step.error_name}: ${step.error_summary ?? ""}`;
  if (step.state === "BEGUN") return "begun, no result";
  if (step.state === "WAITING") return waitText(step);
  const child = childText(step);
  const result = step.result === null && step.result_bytes > 4
    ? `${step.result_bytes} bytes, see --step`
    : step.result === null
    ? null
    : JSON.stringify(step.result);
  return [child, result].filter(Boolean).join(" ") || null;
}

function waitText(step: StepRow): string {
  const until = step.until === null ? "" : ` until ${timeText(step.until)}`;
  return `waits${until}${step.child_state === null ? "" : `: ${childText(step)}`}`;
}

function childText({ child_run_id, child_bulk_id, child_state }: StepRow): string | null {
  const which = child_run_id !== null ? `run ${child_run_id}` : child_bulk_id !== null ? `bulk ${child_bulk_id}` : null;
  return which && `${which} is ${child_state ?? "gone"}`;
}
