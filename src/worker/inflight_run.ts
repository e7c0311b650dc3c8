/**
 * A run in the hands of an executor, from its order until its end is recorded.
 *
 *   received --its files may be right--> starting --its row is RUNNING, and it is due--> running --its body is gone--> recording --> done
 *   running --its row is SUSPENDED--> suspended --its body is gone--> done
 *   received, starting --refused, not ours, or Postgres gave no answer--> done
 */
import { messageOf } from "../platform/text.ts";
import { isUnreachable } from "../postgres/connection.ts";
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

export type Stage =
  /** Its files are looked at. */
  | { at: "received" }
  /** Its start is asked for, or has come back and waits for its files or its time. */
  | { at: "starting" }
  | { at: "running"; body: Body }
  /** Its row is SUSPENDED, its body on its way out: another execution of it may begin. */
  | { at: "suspended" }
  /** `lost`: its body is gone without an outcome, so there is nothing that another worker would repeat in vain. */
  | { at: "recording"; lost: boolean }
  | { at: "done" };

const MOVES: Record<Stage["at"], readonly Stage["at"][]> = {
  received: ["starting", "done"],
  starting: ["running", "done"],
  running: ["suspended", "recording"],
  suspended: ["done"],
  recording: ["done"],
  done: [],
};

/** @throws Error for a move that is not in the table: a fault of ours. */
export function move(inflight: InflightRun, to: Stage): void {
  const { job_run_id, stage } = inflight;
  if (!MOVES[stage.at].includes(to.at)) {
    throw new Error(`Cannot move run "${job_run_id}" in flight from ${stage.at} to ${to.at}`);
  }
  (inflight as { stage: Stage }).stage = to;
}

/** Its body, while it has one. */
export function bodyOf({ stage }: InflightRun): Body | undefined {
  return stage.at === "running" ? stage.body : undefined;
}

/** One whose body waits behind another in its process holds none, nor does one whose body is gone. */
export function holdsSlot(inflight: InflightRun): boolean {
  const { at } = inflight.stage;
  return at !== "recording" && at !== "suspended" && !bodyOf(inflight)?.waits;
}

/** RUNNING as far as we know, and worth keeping. */
export function isHeld({ stage }: InflightRun): boolean {
  return stage.at === "running" || (stage.at === "recording" && !stage.lost);
}

export interface InflightRun extends RunOrder {
  /** Of its start, by which a lost reply is read back. */
  token: string;
  /** Changed by `move` alone. */
  readonly stage: Stage;
  accepted: Promise<Acceptance>;
  answer: (answer: Acceptance) => void;
  cancel_reason: string | undefined;
  /** Taken from us before its body began. */
  abandoned_why: string | undefined;
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

/** No end of its own: the body was ended before it had one. */
export type Lost = Extract<Outcome, { kind: "LOST" }>;

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
    stage: { at: "received" },
    accepted,
    answer,
    cancel_reason: undefined,
    abandoned_why: undefined,
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

export function notAssigned({ job_run_id, attempt }: AttemptRef): Acceptance {
  const why = "since it was assigned it was taken back or canceled, or its job, its node or all dispatch was stopped";
  return { result: "REJECTED_INVALID", message: `Cannot start run "${job_run_id}" as attempt ${attempt}: ${why}` };
}

/** Without Postgres it says nothing of the run nor of the code: another order will do. */
export function startFailure({ job_run_id }: AttemptRef, error: unknown): Acceptance {
  const message = `Cannot start run "${job_run_id}": ${messageOf(error)}`;
  return { result: isUnreachable(error) ? "REJECTED_DETACHED" : "REJECTED_INVALID", message };
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
