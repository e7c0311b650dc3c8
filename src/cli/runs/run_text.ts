/** Runs in words: why one waits or failed, how long it took, and all there is to know of it. */
import { agoText } from "../../admin/assets/ago.js";
import type { AttemptView, RunView } from "../../runs/run_view.ts";
import { pairsText } from "../../app/output.ts";
import { betweenText, localTimes, timeText } from "../times.ts";
import { english } from "../../locale/english.ts";
import { firstLine } from "../../platform/text.ts";

/** A row of `runs ls`, below these columns. */
export const RUN_COLUMNS = ["id", "job", "state", "started", "took", "age", "source", "reason"];

export function runRow(run: RunView, now: Date): unknown[] {
  return [
    run.id,
    run.job_name,
    run.state,
    run.started_at,
    betweenText(run.started_at, run.finished_at ?? now),
    agoText(Math.max(0, now.getTime() - run.created_at.getTime()), "en").replace(" ago", ""),
    run.source,
    reasonText(run),
  ];
}

/** Why it waits or why it failed, in one line; null: neither. */
function reasonText(run: RunView): string | null {
  const [wait, error] = [waitText(run), errorLine(run)];
  return [wait, error].filter((text) => text !== null).join("; ") || null;
}

/** Why it has not started; null once it has. */
function waitText(run: Pick<RunView, "wait_reason">): string | null {
  return run.wait_reason === null ? null : localTimes(run.wait_reason);
}

/** The first line of its error, with the name by which such runs are found. */
export function errorLine({ error_name, error_summary }: Pick<RunView, "error_name" | "error_summary">): string | null {
  const line = firstLine(english(error_summary ?? ""));
  if (error_name === null || line.includes(error_name)) return line || null;
  return line === "" ? error_name : `${error_name}: ${line}`;
}

/** What became of it so far, for a sentence. */
export function whyText(run: RunView): string {
  const wait = waitText(run);
  const error = errorLine(run);
  if (wait) return error ? `${wait}, after ${error}` : wait;
  if (run.state === "ASSIGNED") return `assigned to ${run.assigned_worker_id}, not started yet`;
  if (run.state === "RUNNING") return `running on ${run.assigned_worker_id} since ${timeText(run.started_at as Date)}`;
  const end = `ended at ${timeText(run.finished_at as Date)}`;
  const why = error ? `${end}: ${error}` : end;
  return run.state === "SKIPPED" ? `${why}; to run it anyway: deno task runs retry ${run.id}` : why;
}

export function describeRun(run: RunView): string {
  return pairsText([
    ["run", `${run.id} of ${run.job_name} (${run.source})`],
    ["state", run.state + (run.cancel_requested_at && !run.finished_at ? ", cancel requested" : "")],
    [
      "confirming",
      run.continuation_state === "CONFIRMING" && run.continuation_check_deadline_at
        ? `its worker waits for confirmation; not reassigned before ${timeText(run.continuation_check_deadline_at)}`
        : null,
    ],
    ["next attempt at", run.state === "RETRYING" ? timeText(run.due_at) : null],
    ["why waiting", run.waits?.code === "retry_at" ? null : waitText(run)],
    ["attempt", `${run.attempt} (failures ${run.failures}, interruptions ${run.interruptions})`],
    ["priority", run.priority],
    ["serial key", run.serial_key],
    ["node", run.node],
    ["args", JSON.stringify(run.args)],
    ["progress", run.progress === null ? null : `${Math.round(run.progress * 100)} % ${run.progress_message ?? ""}`],
    ["scheduled for", timeText(run.scheduled_for)],
    ["due", timeText(run.due_at)],
    [
      "started",
      run.started_at &&
      `${timeText(run.started_at)} on ${run.assigned_worker_id}${
        run.ran_on ? ` of ${run.ran_on}` : ""
      }, epoch ${run.leader_epoch}, fence ${run.fence}`,
    ],
    ["finished", run.finished_at && timeText(run.finished_at)],
    ["took", betweenText(run.started_at, run.finished_at)],
    ["exit code", run.exit_code],
    ["result", run.result === null ? null : JSON.stringify(run.result)],
    ["error name", run.error_name],
    ["error", run.error_summary],
    ["retry of run", run.rerun_of],
    ["of bulk", run.bulk_id],
    ["of event", run.event_id],
    ["log", run.log_ref?.replaceAll(" ", "\n")],
  ]);
}

export function attemptText({ attempt, outcome, worker_id, started_at, ended_at, error_summary }: AttemptView): string {
  const when = `${started_at ? timeText(started_at) : "not started"} to ${timeText(ended_at)}`;
  return pairsText([[
    String(attempt),
    `${outcome} on ${worker_id ?? "no worker"}, ${when}\n${english(error_summary ?? "")}`,
  ]]);
}
