/**
 * What a worker process knows of itself, shared by its roles: who it is, whether it takes work, how long its lease
 * lets bodies run, and the newest epoch it has seen. Written by the worker's own loop; read by everyone.
 */
import { monotonicMs, Wakeup } from "../platform/timers.ts";
import type { StartJobResponse, StartResultCode } from "../rpc/messages.ts";
import type { WorkerAddress } from "../nodes/workers.ts";
import type { Settings } from "../settings/settings.ts";

/** Long enough not to go round and round, short enough for what passes by itself. */
export const UNABLE_MS = 5_000;

export class LocalWorkerState {
  readonly worker_id: string;
  readonly node_id: string;
  settings: Settings;
  role: "leader" | "subleader" | "worker" = "worker";
  draining = false;
  /** The process ends: it drains, and nobody can call that off. */
  stopping = false;
  detached = false;
  /** By whom and why, once it is. */
  detached_why = "";
  /** Leader and subleaders, as Postgres last named them: whom to ask when the lease cannot be renewed from here. */
  answerers: WorkerAddress[] = [];
  /** Monotonic: when the last renewal of its own lease was asked for that was granted. */
  renewed_ms = 0;
  /** Monotonic: when Postgres was last asked, with that, and somebody led; -Infinity when nobody did. */
  led_ms = -Infinity;
  /** How often in succession it stepped down since its ticks failed, with none between that succeeded. */
  failed_terms = 0;
  /** It looks for the leader lock, as whoever neither leads nor ends does. */
  wants_to_lead = false;
  /** Whether it has its node's subleader lock, as its last heartbeat was told; undefined: not yet. */
  seated: boolean | undefined;
  /** Monotonic: until then the leader lock is somebody else's, as its last heartbeat was told, unless it is given up; 0: not known. */
  lock_held_until_ms = 0;
  /** Rings when the leader lock may be free, the subleader has won a term, or the node's subleader lock was taken or lost. */
  readonly election_wakeup = new Wakeup();
  /** Wakes the loop that renews, and the one that asks in its stead. */
  readonly lease_wakeup = new Wakeup();
  readonly continuation_wakeup = new Wakeup();
  /** How far this machine's clock was ahead of the database's at the last renewal; null: not known yet. */
  clock_skew_ms: number | null = null;
  /** When Redis last took a heartbeat, by this machine's wall clock; 0: never. For display. */
  last_heartbeat_unix_ms = 0;
  /** Ring whenever what a Watch stream tells has changed. */
  readonly watchers = new Set<Wakeup>();
  /** Monotonic: bodies may run until then. */
  may_run_until_ms = 0;
  /** Of the environment; it goes before the live setting. */
  readonly #own_slots: number | undefined;
  #epoch = 0;
  #unable_until_ms = 0;
  #lack = "";

  constructor(who: { worker_id: string; node_id: string; slots: number | undefined; settings: Settings }) {
    this.worker_id = who.worker_id;
    this.node_id = who.node_id;
    this.#own_slots = who.slots;
    this.settings = who.settings;
  }

  /** Bodies that this worker runs at once, now. */
  get slots(): number {
    return this.#own_slots ?? this.settings.max_jobs_per_worker;
  }

  /** What this machine lacks for bodies to begin, in the system's words; empty: nothing that is known. */
  get lack(): string {
    return monotonicMs() < this.#unable_until_ms ? this.#lack : "";
  }

  /** A body could not begin here for want of that: the next ones need not try for a while. True: that is news. */
  lacks(what: string): boolean {
    const news = this.lack === "";
    this.#lack = what;
    this.#unable_until_ms = monotonicMs() + UNABLE_MS;
    return news;
  }

  /** Why it starts nothing just now, whatever the run; undefined: it does. */
  refusal(run: string): Pick<StartJobResponse, "result" | "message"> | undefined {
    const no = (result: StartResultCode, why: string) => ({ result, message: `Cannot start ${run}: ${why}` });
    if (this.detached) return no("REJECTED_DETACHED", "this worker is detached");
    if (this.draining) return no("REJECTED_DRAINING", "this worker is draining");
    if (!this.mayRun) return no("REJECTED_DETACHED", "this worker's lease is over");
    if (this.lack) return no("REJECTED_FULL", `this machine lacks what it needs: ${this.lack}`);
  }

  /** Tells those who watch this worker that something changed. */
  tell(): void {
    for (const wakeup of this.watchers) wakeup.signal();
  }

  /** The newest epoch that Postgres, Redis or an accepted call has shown. It never falls. */
  get epoch(): number {
    return this.#epoch;
  }

  sawEpoch(epoch: number): void {
    if (epoch > this.#epoch) this.#epoch = epoch;
  }

  /** Whether its heartbeats ask for the lock. */
  get standsBy(): boolean {
    return this.wants_to_lead && !this.draining && !this.detached;
  }

  heardOfSeats({ seated, lock_free_in_ms }: { seated: boolean; lock_free_in_ms: number }): void {
    const news = seated !== this.seated;
    this.seated = seated;
    this.lock_held_until_ms = lock_free_in_ms > 0 ? monotonicMs() + lock_free_in_ms : 0;
    if (news) this.election_wakeup.signal();
  }

  /** The lease was granted until then, by this process' clock; bodies end a margin before. */
  holdsUntil(lease_until_ms: number): void {
    this.may_run_until_ms = lease_until_ms - this.settings.worker_margin_seconds * 1000;
  }

  /** Somebody else renewed it for us. An answer that is overtaken by a better one takes nothing away. */
  confirmedUntil(lease_until_ms: number): void {
    const until_ms = lease_until_ms - this.settings.worker_margin_seconds * 1000;
    this.may_run_until_ms = Math.max(this.may_run_until_ms, until_ms);
  }

  /** Whether the worker's lease still covers its bodies, on the local clock alone. */
  get mayRun(): boolean {
    return monotonicMs() < this.may_run_until_ms;
  }
}
