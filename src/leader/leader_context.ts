/** What every step of the leader's tick is given: the term first of all, without which none of them can be called. */
import type { Archive } from "../archive/archive.ts";
import type { Wakeup } from "../platform/timers.ts";
import type { Peers } from "../rpc/peers.ts";
import type { RedisConnection } from "../redis/connection.ts";
import type { Sql } from "../postgres/connection.ts";
import type { Term } from "../nodes/leadership.ts";
import type { Settings } from "../settings/settings.ts";
import type { DispatchSnapshot } from "../dispatch/dispatch_queues.ts";
import type { Wakeups } from "./wakeups.ts";
import type { WorkerMonitor } from "./worker_monitor.ts";

export interface LeaderContext {
  readonly sql: Sql;
  readonly redis: RedisConnection;
  readonly peers: Peers;
  readonly monitor: WorkerMonitor;
  readonly wakeup: Wakeup;
  /** What has rung it from Postgres. */
  readonly calls: Wakeups;
  readonly node_id: string;
  /** For old log lines; undefined: none is configured here. */
  readonly archive?: Archive;
  /** Replaced by each renewal; a step reads it anew and stops when it is no longer trusted. */
  term: Term;
  settings: Settings;
  /** The slots that were created have been compared with the runs of their jobs that go on. */
  overlaps_settled?: boolean;
  /** Who is there and what waits, as the renewal read it along; undefined once something has changed what may start. */
  snapshot?: DispatchSnapshot;
  /** An assignment of an earlier tick may yet be carried out, so what was read along with a renewal may miss it. */
  unclear?: boolean;
  /** At least as much waits that may start as there was room for, and more than is read along with a look. */
  crowded?: boolean;
  /** Until the rate of some job allows its next start. */
  rate_wait_ms?: number;
  /** There may be slots that are to be skipped, and would start if this tick gave what is due. */
  late_left?: boolean;
  /** Some transaction kept a bulk's row at the last look. */
  bulks_locked?: boolean;
  /** When one last kept the row of a run that was to be assigned, or let go in its line. */
  runs_locked_ms?: number;
  /** Runs that this tick gave to workers. */
  given?: number;
  /** Why run queues are closed, as it was last written. */
  told?: { at_ms: number; text: string };
  /** Looking for workers to detach is under way. */
  looking?: boolean;
  /** When it last read which workers have other code than was synced. */
  code_read_ms?: number;
  /** Nodes that are being checked. */
  readonly checking: Set<string>;
  /** When Redis was last asked to prolong the lock. */
  lock_asked_ms?: number;
  /** Another worker is there that may lead. */
  others?: boolean;
  /** Why the term is over, when something other than Postgres says so. */
  lost?: string;
}
