/**
 * What can be observed of this system, stated once: log lines, metrics, the page and the tests all listen here.
 * A fact is flat and made of primitives, so it is a log line, a label set and an assertion as it stands.
 * The interface below is the table of contents of the system's behaviour.
 */
import { messageOf } from "./text.ts";

export interface Facts {
  "process.started": { role: string; pid: number };
  "failpoint.set": { failpoint: string; hit: number; action: string };
  "failpoint.hit": { failpoint: string; hit: number; action: string };
  "worker.ready": { worker_id: string; node_id: string; grpc_address: string; slots: number };
  "worker.draining": { worker_id: string; reason: string };
  "worker.stopped": { worker_id: string };
  "worker.unable": { worker_id: string; node_id: string; lack: string; seconds: number };
  "worker.lost": { worker_id: string; reason: string };
  "worker.detached": { worker_id: string; by: string; reason: string };
  "worker.certified": { worker_id: string; by: string };
  "worker.uncertified": { worker_id: string; by: string; left: string };
  "worker.orphans_killed": { worker_id: string; by: string; groups: number };
  "worker.buried": { worker_id: string; epoch: number };
  "node.status": { node_id: string; status: string; was: string; problem: string };
  "leader.elected": { worker_id: string; epoch: number };
  "leader.ended": { worker_id: string; epoch: number; reason: string };
  "leader.silent": { worker_id: string; epoch: number; error: string };
  "leader.deposed": { worker_id: string; epoch: number; by: string };
  "leader.hint_ignored": { worker_id: string; epoch: number; hint: number };
  "subleader.seated": { worker_id: string; node_id: string };
  "leader.ticks": {
    worker_id: string;
    epoch: number;
    ticks: number;
    p50_ms: number;
    p99_ms: number;
    max_ms: number;
  };
  "leader.tick_slow": { worker_id: string; epoch: number; tick_ms: number };
  "peer.refused": { reason: string; theirs: string; ours: string };
  "peer.failed": { worker_id: string; call: string; error: string };
  "rpc.failed": { call: string; caller: string; error: string };
  "redis.away": { server: string; error: string };
  "redis.back": { server: string; away_ms: number };
  "tls.kept": { fingerprint: string; problem: string };
  "tls.reloaded": { fingerprint: string; pins: number; authorities: number };
  "mesh.used": { grpc_host: string; exposed: boolean; meaning: string };
  "run.born": { job_run_id: number; job_name: string; source: string };
  "run.assigned": { job_run_id: number; attempt: number; worker_id: string; epoch: number };
  "run.refused": { job_run_id: number; attempt: number; worker_id: string; result: string; message: string };
  "run.started": {
    job_run_id: number;
    attempt: number;
    job_name: string;
    worker_id: string;
    epoch: number;
    fence: number;
  };
  "run.start_lost": { job_run_id: number; attempt: number; worker_id: string };
  "run.finished": {
    job_run_id: number;
    attempt: number;
    job_name: string;
    worker_id: string;
    outcome: string;
    state: string;
    duration_ms: number;
  };
  "run.suspended": {
    job_run_id: number;
    attempt: number;
    job_name: string;
    worker_id: string;
    duration_ms: number;
  };
  "run.steps_refused": { job_run_id: number; attempt: number; worker_id: string };
  "run.late_result": { job_run_id: number; attempt: number; worker_id: string; outcome: string };
  "outcomes.replayed": { worker_id: string; by: string; found: number; recorded: number };
  "spool.failed": { file: string; error: string };
  "run.skipped": { job_run_id: number; reason: string };
  /** Something has come for which it was suspended. */
  "run.woken": { job_run_id: number };
  "run.quarantined": { job_run_id: number; attempt: number };
  "run.canceled": { job_run_id: number; by: string };
  "run.deadline_passed": { job_run_id: number; attempt: number };
  "run.orphaned": { job_run_id: number; attempt: number; worker_id: string; cause: string };
  "run.continuation": {
    job_run_id: number;
    attempt: number;
    worker_id: string;
    asked: string;
    decision: string;
    message: string;
  };
  "events.taken": { events: number; runs: number; absorbed: number };
  "bulk.fed": { bulk_id: number; job_name: string; runs: number };
  "bulk.paused": { bulk_id: number; reason: string };
  "bulk.canceled": { bulk_id: number; runs: number };
  "bulk.throttled": { bulk_id: number; parallel: number; running_limit: number; error_rate: number };
  "history.deleted": { runs: number; bulks: number; events: number };
  "logs.archived": { runs: number; lines: number; bytes: number; object: string };
  "logs.deleted": { runs: number; lines: number };
  "logs.kept": { worker_id: string; epoch: number; runs: number; meaning: string };
  "metrics.ready": { address: string };
  "alert.opened": { kind: string; subject: string; message: string };
  "alert.closed": { kind: string; subject: string; message: string };
  "alert.delivered": { delivery: number; what: string; attempts: number };
  "alert.undelivered": { delivery: number; what: string; attempts: number; error: string; given_up: boolean };
  "bulk.finished": { bulk_id: number; state: string; succeeded: number; failed: number; not_done: number };

  "body.spawned": { job_name: string; pid: number; spare: boolean; spawn_ms: number };
  "body.killed": { job_run_id: number; pid: number; signal: string; reason: string };
  "sync.applied": { added: number; changed: number; removed: number };
  "certificate.expiring": { what: string; fingerprint: string; days_left: number };
  "settings.problem": { problem: string };
  /** `times`: in a line, how often the same came since it was last printed. */
  "loop.failed": { loop: string; error: string; times?: number };
  "admin.ready": { url: string };
  "admin.exposed": { host: string; meaning: string };
  "admin.proxied": { header: string; meaning: string };
  "admin.not_ready": { problem: string };
  "admin.failed": { id: string; request: string; error: string };
  "admin.login": { user: string; address: string; result: string };
  "dev.service": { service: string; state: string; detail: string };
  "dev.ready": { workers: number; database_url: string; redis_url: string };
}

export type FactName = keyof Facts;
type Listener = <K extends FactName>(name: K, fact: Facts[K]) => void;

const listeners = new Set<Listener>();

/** States a fact. Listeners run at once and in turn; one that throws is a bug and ends the process through `unhandledrejection`. */
export function observe<K extends FactName>(name: K, fact: Facts[K]): void {
  for (const listener of listeners) listener(name, fact);
}

/** Something that is done again and again failed this time, and is tried again. */
export function loopFailed(loop: string, error: unknown): void {
  observe("loop.failed", { loop, error: messageOf(error) });
}

/** Hears every fact from now on; the returned function stops it. */
export function hear(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** One JSON object per line: `{"fact":"run.started","at":"…", …}`. What workers print, and what tests and log collectors read. */
export function factLine<K extends FactName>(name: K, fact: Facts[K], at: Date): string {
  const told = JSON.stringify(fact);
  return `{"fact":"${name}","at":"${isoOf(at)}"${told === "{}" ? "}" : `,${told.slice(1)}`}`;
}

/** Many lines are of the same millisecond. */
function isoOf(at: Date): string {
  const ms = at.getTime();
  if (ms !== latest.ms) latest = { ms, text: at.toISOString() };
  return latest.text;
}

let latest = { ms: NaN, text: "" };
