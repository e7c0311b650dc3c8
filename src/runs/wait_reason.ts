/**
 * Why a run, a bulk or a run queue waits, for programs: a code and what the sentence is about. The sentence itself stands beside
 * it as `text`, in English, for the log, the command line and whoever does not know a code. Codes of runs are given by
 * `wait_reason_parts` (schema.sql), of bulks by bulk_view.ts, of run queues by the leader (leader/admission.ts).
 */
import type { CheckPart } from "../nodes/check_part.ts";
import type { OtherCode } from "../nodes/other_code.ts";

/** Why a node is not available: what failed in its check, if that is known; `checked` false: there was none yet. */
export interface NodeProblem {
  node: string;
  failed?: CheckPart;
  checked: boolean;
}

/** Why nothing of a run queue starts. `node` is what it names: "" (any), a node, or labels such as "gpu=a100". */
export type QueueBlock =
  | { code: "dispatch_paused" }
  | { code: "job_removed"; job_name: string }
  | { code: "job_paused"; job_name: string; by: string; reason: string | null }
  | { code: "job_limit"; job_name: string; running: number; limit: number }
  | { code: "rate"; job_name: string; count: number; seconds: number }
  | { code: "resource_unknown"; resource: string }
  | { code: "resource_short"; resource: string; needed: number; free: number; capacity: number }
  | { code: "nobody_there"; node: string }
  | { code: "maintenance"; nodes: string[]; by: string | null; reason: string | null }
  | { code: "unavailable"; nodes: string[]; problem: string; found?: NodeProblem[] }
  | { code: "busy"; nodes: string[]; problem: string; found?: NodeProblem[] }
  | { code: "none_takes_work"; node: string }
  | { code: "node_full"; node: string; load: number; limit: number }
  | { code: "no_slot"; node: string }
  | NoCode;

/** None of those who may be given runs has the version that was synced, or none of the few that have it is free. */
export interface NoCode {
  code: "no_code";
  job_name: string;
  /** What was synced. */
  digest: string;
  node?: string;
  /** How many have it. */
  having?: number;
  /** The leader's worker has it, and the setting leader_runs_jobs keeps it from running jobs. */
  only_leader?: boolean;
  others?: OtherVersion[];
}

/** So many workers have this version instead; null: none that they can read. */
export interface OtherVersion {
  digest: string | null;
  workers: number;
}

/** Times are ISO 8601. */
export type Wait =
  | QueueBlock
  | { code: "canceling"; by: string }
  | { code: "retry_at"; at: string }
  | { code: "due_at"; at: string }
  | { code: "suspended"; waits: RunWait[]; number: number }
  | { code: "no_worker" }
  | { code: "no_leader" }
  | { code: "key_stopped"; serial_key: string; by: string; reason: string | null }
  | { code: "behind_run"; run_id: number; serial_key: string }
  | { code: "key_limit"; key: string; running: number; limit: number }
  | { code: "bulk_paused"; bulk_id: number; by: string | null; reason: string | null }
  | { code: "bulk_canceled"; bulk_id: number }
  | { code: "bulk_full"; bulk_id: number; running: number; limit: number }
  | { code: "other_node"; node: string }
  | { code: "next" }
  | { code: "bulk_ending" }
  | { code: "behind_bulk"; bulk_id: number; serial_key: string }
  | { code: "interval"; at: string };

/** What a body waits for. A `retry` is of a step. Without `until` it waits as long as it takes. */
export interface RunWait {
  kind: "sleep" | "message" | "event" | "call" | "bulk" | "retry";
  name: string;
  until: string | null;
}

/** As it is read: a leader of another version may give a code that is not known here, or none. */
export type Waits = { text: string } & (Wait | { code?: undefined });

/** A version as people compare it: as short as a commit. */
export function versionOf(digest: string): string {
  return digest.slice(0, 7);
}

/** " (2 have e17994f, 1 has none)" */
export function othersText(others: OtherVersion[] = []): string {
  if (others.length === 0) return "";
  const each = others.map(({ digest, workers }) => {
    return `${workers} ${workers === 1 ? "has" : "have"} ${digest === null ? "none" : versionOf(digest)}`;
  });
  return ` (${each.join(", ")})`;
}

/** "hello has e17994f, synced is 06edc18" */
export function otherCodeText({ job_name, digest, found, problem }: OtherCode): string {
  const synced = `synced is ${versionOf(digest)}`;
  return found === null
    ? `${job_name} has none: ${problem}, ${synced}`
    : `${job_name} has ${versionOf(found)}, ${synced}`;
}

export function noCodeText({ job_name, digest, node = "", having = 0, only_leader = false, others }: NoCode): string {
  const what = `${versionOf(digest)} of ${job_name}`;
  const where = whereOf(node);
  if (having > 0) {
    return `no free slot on the ${having} worker${having === 1 ? "" : "s"}${where} with version ${what}${
      othersText(others)
    }`;
  }
  const leader = only_leader ? ", but the leader has it: set leader_runs_jobs=alone, or" : ";";
  return `no worker${where} has version ${what}${
    othersText(others)
  }${leader} bring its files there, or sync again where the right ones are`;
}

/** " on node "gpu-1"", " with labels gpu=a100"; empty: anywhere. */
export function whereOf(selector: string): string {
  return selector === "" ? "" : selector.includes("=") ? ` with labels ${selector}` : ` on node "${selector}"`;
}
