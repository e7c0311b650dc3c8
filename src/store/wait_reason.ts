/**
 * Why a run, a bulk or a lane waits, for programs: a code and what the sentence is about. The sentence itself stands beside
 * it as `text`, in English, for the log, the command line and whoever does not know a code. Codes of runs are given by
 * `why_waiting` (schema.sql), of bulks by bulk_view.ts, of lanes by the leader (roles/leader/gates.ts).
 */
import type { CheckPart } from "./check_part.ts";

/** Why a node is not available: what failed in its check, if that is known; `checked` false: there was none yet. */
export interface Found {
  node: string;
  failed?: CheckPart;
  checked: boolean;
}

/** Why nothing of a lane starts. `node` is what it names: "" (any), a node, or labels such as "gpu=a100". */
export type LaneWait =
  | { code: "dispatch_paused" }
  | { code: "job_removed"; job_name: string }
  | { code: "job_paused"; job_name: string; by: string; reason: string | null }
  | { code: "job_limit"; job_name: string; running: number; limit: number }
  | { code: "rate"; job_name: string; count: number; seconds: number }
  | { code: "resource_unknown"; resource: string }
  | { code: "resource_short"; resource: string; needed: number; free: number; capacity: number }
  | { code: "nobody_there"; node: string }
  | { code: "maintenance"; nodes: string[]; by: string | null; reason: string | null }
  | { code: "unavailable"; nodes: string[]; problem: string; found?: Found[] }
  | { code: "busy"; nodes: string[]; problem: string; found?: Found[] }
  | { code: "none_takes_work"; node: string }
  | { code: "node_full"; node: string; load: number; limit: number }
  | { code: "no_slot"; node: string }
  | { code: "no_code"; job_name: string; digest: string };

/** Times are ISO 8601. */
export type Wait =
  | LaneWait
  | { code: "canceling"; by: string }
  | { code: "retry_at"; at: string }
  | { code: "due_at"; at: string }
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

/** As it is read: a leader of another version may give a code that is not known here, or none. */
export type Waits = { text: string } & (Wait | { code?: undefined });
