/**
 * What happens to a run whose body is gone, until Postgres knows its end: an outcome is kept in the journal and recorded, a run without one is given
 * back. It leaves the worker's hands only then.
 */
import { loopFailed, observe } from "../../platform/facts.ts";
import { failpoint } from "../../platform/failpoint.ts";
import { chance } from "../../platform/timers.ts";
import type { Sql } from "../../postgres/connection.ts";
import { checkSoon } from "../../nodes/workers.ts";
import { endingOf } from "../../runs/retry_policy.ts";
import { giveBack } from "../../runs/lost_runs.ts";
import { type FinishedBody, type Lost, move, refOf } from "../inflight_run.ts";
import type { InflightRuns } from "../inflight_runs.ts";
import type { LogWriter } from "../log_writer.ts";
import { untilHeard } from "../retry_until_available.ts";
import { type LocalWorkerState, UNABLE_MS } from "../worker_state.ts";
import { type BodyResult, Records } from "./result_batcher.ts";
import type { ResultJournal } from "./result_journal.ts";

export interface OutcomeRecorderParts {
  sql: Sql;
  local: LocalWorkerState;
  inflight: InflightRuns;
  log_writer: LogWriter;
  journal: ResultJournal | undefined;
  /** Fires when outcomes are no longer waited for. */
  over: AbortSignal;
}

export class OutcomeRecorder {
  readonly #parts: OutcomeRecorderParts;
  readonly #records: Records<BodyResult & FinishedBody>;

  constructor(parts: OutcomeRecorderParts) {
    this.#parts = parts;
    this.#records = new Records({
      sql: parts.sql,
      worker_id: parts.local.worker_id,
      untilHeard: (ask) => untilHeard(ask, parts.over),
      over: parts.over,
      onRecorded: (ended, state) => this.#recorded(ended, state),
      onFailed: (ended, error) => this.#unrecorded(ended, error),
    });
  }

  add(gone: FinishedBody): void {
    const { local, journal, log_writer } = this.#parts;
    const { inflight, run, outcome } = gone;
    move(inflight, { at: "recording", lost: outcome.kind === "LOST" });
    if (outcome.kind === "LOST" && outcome.lack) this.#lacks(outcome.lack);
    const ended = outcome.kind === "LOST" || outcome.kind === "SUSPENDED"
      ? undefined
      : { inflight, run, outcome, duration_ms: gone.duration_ms, ending: endingOf(run, outcome, chance()) };
    if (ended) journal?.keep(ended.ending); // before anything that waits for Postgres
    local.tell();
    const record = () => ended ? this.#records.add(ended) : this.#giveBack(gone, outcome as Lost);
    const said = log_writer.settled(run);
    if (said) said.then(record);
    else record();
  }

  #giveBack(gone: FinishedBody, { unbegun, error_summary }: Lost): void {
    const { sql, local, over } = this.#parts;
    const how = local.draining || unbegun ? "GIVEN_BACK" as const : "LOST" as const;
    const back = { ...refOf(gone.run), from: "RUNNING" as const, outcome: how, cause: error_summary };
    const given = async () => {
      await failpoint("before-give-back");
      return await untilHeard(() => giveBack(sql, local.worker_id, [back]), over);
    };
    given().then(
      ({ length }) => this.#recorded(gone, length > 0 ? "ORPHANED" : undefined),
      (error) => this.#unrecorded(gone, error),
    );
  }

  #recorded(gone: FinishedBody & Partial<BodyResult>, state: string | undefined): void {
    const { journal, inflight } = this.#parts;
    if (gone.ending) journal?.drop(gone.ending);
    inflight.ended(gone.run);
    this.#leave(gone, state ?? "not ours any more");
  }

  /** Its row is given up at the next look at what is mine. */
  #unrecorded(gone: FinishedBody, error: unknown): void {
    loopFailed(`recording run ${gone.run.job_run_id}`, error);
    this.#leave(gone, "not recorded");
  }

  #leave({ inflight, run, outcome, duration_ms }: FinishedBody, state: string): void {
    const { local } = this.#parts;
    move(inflight, { at: "done" });
    this.#parts.inflight.remove(inflight);
    observe("run.finished", {
      job_run_id: run.job_run_id,
      attempt: run.attempt,
      job_name: run.job_name,
      worker_id: local.worker_id,
      outcome: outcome.kind,
      state,
      duration_ms: Math.round(duration_ms),
    });
    local.tell();
  }

  /** One that is suspended has no end to record. */
  leave({ inflight, run, duration_ms }: FinishedBody): void {
    const { local, log_writer } = this.#parts;
    log_writer.settled(run);
    this.#parts.inflight.ended(run);
    move(inflight, { at: "done" });
    this.#parts.inflight.remove(inflight);
    const { job_run_id, attempt, job_name } = run;
    const { worker_id } = local;
    observe("run.suspended", { job_run_id, attempt, job_name, worker_id, duration_ms: Math.round(duration_ms) });
    local.tell();
  }

  /** Nothing more for a while, or each run would come back at once; and the node's check tells whoever looks after it. */
  #lacks(what: string): void {
    const { sql, local } = this.#parts;
    const { worker_id, node_id } = local;
    if (!local.lacks(what)) return;
    observe("worker.unable", { worker_id, node_id, lack: what, seconds: UNABLE_MS / 1000 });
    checkSoon(sql, node_id).catch((error) => loopFailed("asking for a check of the node", error));
  }
}
