/** A run in the hands of an executor, from its order until its end is recorded. */
import type { Digest } from "../sync/module_graph.ts";
import type { StartJobResponse } from "../rpc/messages.ts";
import type { Body, Outcome } from "../sandbox/process_pool.ts";
import type { AttemptRef } from "../runs/states.ts";
import type { StartedRun } from "../runs/started_runs.ts";

/** What a leader may say about a run; everything else is read from Postgres. */
export interface RunOrder extends AttemptRef {
  command_name: string;
  digest: string;
  /** Monotonic: when it is due, as the worker reckons. What its row says of that goes before. */
  due_ms?: number;
  /** It may not be assigned yet. */
  assigning?: boolean;
}

export type Acceptance = Pick<StartJobResponse, "result" | "message" | "other_code">;

export interface InflightRun extends RunOrder {
  /** Of its start, by which a lost reply is read back. */
  token: string;
  stage: "starting" | "running" | "recording";
  body: Body | undefined;
  accepted: Promise<Acceptance>;
  answer: (answer: Acceptance) => void;
  cancel_reason: string | undefined;
  /** Taken from us before its body began. */
  abandoned_why: string | undefined;
  /** Its body is gone without an outcome: there is nothing that another worker would repeat in vain. */
  lost: boolean;
  /** What its files are, if nothing may begin before that is known; undefined: they have been looked at. */
  look: Promise<Digest> | undefined;
  /** How often its row was not, or not yet, assigned to us. */
  lost_starts: number;
  /** It was ordered again, by then as one that is assigned: the start under way may have been asked for before. */
  assigned_since: boolean;
}

export function refOf({ job_run_id, attempt }: AttemptRef): AttemptRef {
  return { job_run_id, attempt };
}

/** One whose body is gone. */
export interface FinishedBody {
  inflight: InflightRun;
  run: StartedRun;
  outcome: Outcome;
  duration_ms: number;
}

export function newInflightRun(order: RunOrder): InflightRun {
  const { promise: accepted, resolve: answer } = Promise.withResolvers<Acceptance>();
  const { job_run_id, attempt, command_name, digest, due_ms = Infinity, assigning = false } = order;
  return {
    job_run_id,
    attempt,
    command_name,
    digest,
    due_ms,
    assigning,
    token: crypto.randomUUID(),
    stage: "starting",
    body: undefined,
    accepted,
    answer,
    cancel_reason: undefined,
    abandoned_why: undefined,
    lost: false,
    look: undefined,
    lost_starts: 0,
    assigned_since: false,
  };
}

/**
 * How long after a start that came before its assignment the next ones come. The statement that assigns it was sent before the order was,
 * so mostly it is carried out by the time the first is answered.
 */
const AGAIN_AFTER_MS = [0, 1];

/** After how long a start that was lost is asked for once more; undefined: it is not. */
export function againAfter(inflight: InflightRun): number | undefined {
  if (!inflight.assigned_since) return inflight.assigning ? AGAIN_AFTER_MS[inflight.lost_starts++] : undefined;
  inflight.assigned_since = inflight.assigning = false;
  return 0;
}

/** Of a run that cannot be run with the files that are here; undefined: they are those that were synced. */
export function codeRefusal({ job_run_id, command_name, digest }: RunOrder, mine: Digest): Acceptance | undefined {
  if ("digest" in mine && mine.digest === digest) return undefined;
  const [other, found] = "digest" in mine
    ? [mine.digest, `this worker has ${mine.digest.slice(0, 12)}`]
    : ["", mine.problem];
  const message = `Code mismatch for run "${job_run_id}": ${command_name} was synced as ${
    digest.slice(0, 12)
  }, ${found}`;
  return { result: "REJECTED_INVALID", message, other_code: { digest: other } };
}
