/**
 * The leader's picture of its workers: who answers, by a Watch stream to each. Liveness travels the path that work
 * travels, so a worker with a live heartbeat and a dead port gets none.
 *
 *   unknown -> watched <-> suspect
 *
 * A worker is fit while its stream is open and it is not suspect. Suspicion after a failed call lasts
 * `suspect_seconds`, doubled with each further failure. Nothing here is remembered beyond the term, and none of it is
 * needed for safety: load is counted from rows, and rows decide.
 */
import { monotonicMs, type Wakeup } from "../platform/timers.ts";
import type { Peers } from "../rpc/peers.ts";
import type { WorkerStatus } from "../rpc/messages.ts";
import type { WorkerRow } from "../nodes/workers.ts";
import { EndRate, type PackAllowance, Packing, QUICK_MS, SlotBacklog } from "./prefetch.ts";

interface Member {
  worker: WorkerRow;
  /** Ends the Watch stream. */
  unwatch: (() => void) | undefined;
  status: WorkerStatus | undefined;
  /** Since when no status came: the stream broke, or never opened. */
  unheard_since_ms: number | undefined;
  /** Since when, besides, Redis has no heartbeat of it. */
  silent_since_ms: number | undefined;
  failures: number;
  suspect_until_ms: number;
  retry_at_ms: number;
  /** It refused an order: nothing for it until then, or the two would go round and round. */
  busy_until_ms: number;
  /** What it was told last of draining, where it does not do as its row says; undefined: it does. */
  drain_told: boolean | undefined;
  /** How fast bodies end there. */
  pace: EndRate;
  line: SlotBacklog;
}

const NOBODY: ReadonlyMap<string, string | null> = new Map();
const BUSY_MS = 1_000;
const MOST_CODES = 10_000;
const TIMES_MS = 3_000;
/** Streams being opened at a time. All of a large group of workers at once would leave a new leader no time to renew its term. */
const OPENED_AT_ONCE = 16;

export class WorkerMonitor {
  readonly #peers: Peers;
  readonly #wakeup: Wakeup;
  readonly #epoch: number;
  readonly #members = new Map<string, Member>();
  /** By digest: workers that have other code, and what they have; null: none that can be read. */
  #other_code = new Map<string, Map<string, string | null>>();
  /** What of that was heard since the rows were last asked for, which may not say it yet. */
  #refused: { worker_id: string; digest: string; found: string | null }[] = [];
  /** By digest: what a run takes. */
  readonly #body_ms = new Map<string, { ms: number; since_ms: number }>();
  readonly #packing = new Packing();
  #newest_epoch: number;
  readonly #bodyMsOf = (digest: string) => this.bodyMs(digest);

  constructor(parts: { peers: Peers; wakeup: Wakeup; epoch: number }) {
    this.#peers = parts.peers;
    this.#wakeup = parts.wakeup;
    this.#epoch = parts.epoch;
    this.#newest_epoch = parts.epoch;
  }

  /** The newest epoch that any of them says it has seen: above the leader's own, they obey it no more. */
  get newestEpoch(): number {
    return this.#newest_epoch;
  }

  /** Watches those who are new and forgets those who are gone. */
  follow(workers: WorkerRow[]): void {
    const now_ms = monotonicMs();
    const present = new Set(workers.map((worker) => worker.worker_id));
    for (const [worker_id, member] of this.#members) {
      if (present.has(worker_id)) continue;
      member.unwatch?.();
      this.#members.delete(worker_id);
    }
    this.#peers.retain(present);
    let opening = this.#members.values().reduce(
      (sum, { unwatch, status }) => sum + Number(unwatch !== undefined && status === undefined),
      0,
    );
    for (const worker of workers) {
      const member = this.#members.get(worker.worker_id) ?? this.#welcome(worker);
      member.worker = worker;
      member.pace.seen(worker.load, now_ms);
      if (member.unwatch || now_ms < member.retry_at_ms || opening >= OPENED_AT_ONCE) continue;
      this.#watch(member);
      if (!member.status) opening++;
    }
  }

  #welcome(worker: WorkerRow): Member {
    const member: Member = {
      worker,
      unwatch: undefined,
      status: undefined,
      unheard_since_ms: monotonicMs(),
      silent_since_ms: undefined,
      failures: 0,
      suspect_until_ms: 0,
      retry_at_ms: 0,
      busy_until_ms: 0,
      drain_told: undefined,
      pace: new EndRate(),
      line: new SlotBacklog(),
    };
    this.#members.set(worker.worker_id, member);
    return member;
  }

  #watch(member: Member): void {
    member.unwatch = this.#peers.to(member.worker).watch({ caller_role: "leader", leader_epoch: this.#epoch }, {
      onStatus: (status) => {
        const { released = -1, lack = "" } = member.status ?? {};
        const freed = status.released > released || (lack !== "" && status.lack === "");
        for (const { digest, body_us } of status.code_times) this.#noteTime(digest, body_us / 1000);
        if (!member.status) member.failures = 0;
        member.status = status;
        member.unheard_since_ms = undefined;
        member.silent_since_ms = undefined;
        const newer = status.observed_leader_epoch > this.#newest_epoch;
        if (newer) this.#newest_epoch = status.observed_leader_epoch;
        if (freed || newer) this.#wakeup.signal();
      },
      onEnd: () => {
        member.unwatch = undefined;
        member.status = undefined;
        member.unheard_since_ms ??= monotonicMs();
        member.retry_at_ms = monotonicMs() + Math.min(100 * 2 ** member.failures++, 5_000);
        this.#wakeup.signal();
      },
    });
  }

  /** Whether a worker may be given work. */
  fit(worker_id: string): boolean {
    const member = this.#members.get(worker_id);
    if (!member?.status || member.status.draining || member.status.detached || member.status.lack) return false;
    const now_ms = monotonicMs();
    return now_ms >= member.suspect_until_ms && now_ms >= member.busy_until_ms;
  }

  /** Workers that have other code than this digest, until they say otherwise, and what they have instead. */
  lacking(digest: string): ReadonlyMap<string, string | null> {
    return this.#other_code.get(digest) ?? NOBODY;
  }

  /** What workers say of their files, in place of what was known before. `read` is asked now. */
  async learnCode(
    read: () => Promise<{ worker_id: string; digest: string; found: string | null }[]>,
  ): Promise<void> {
    this.#refused = [];
    const said = await read();
    this.#other_code = new Map();
    for (const one of [...said, ...this.#refused]) this.#noteCode(one);
  }

  /** It refused to start this code: before that it has written so, but maybe after the rows were read. */
  hasOtherCode(worker_id: string, digest: string, found: string | null): void {
    this.#refused.push({ worker_id, digest, found });
    this.#noteCode({ worker_id, digest, found });
  }

  #noteCode({ worker_id, digest, found }: { worker_id: string; digest: string; found: string | null }): void {
    const workers = this.#other_code.get(digest) ?? new Map<string, string | null>();
    this.#other_code.set(digest, workers.set(worker_id, found));
  }

  /** A call to it failed: no new work for a while, whatever its heartbeat says. */
  suspect(worker_id: string, suspect_seconds: number): void {
    const member = this.#members.get(worker_id);
    if (!member) return;
    member.suspect_until_ms = monotonicMs() + suspect_seconds * 1000 * 2 ** Math.min(member.failures++, 6);
  }

  trust(worker_id: string): void {
    const member = this.#members.get(worker_id);
    if (member) member.failures = 0;
  }

  /** The least that anybody has said within a while: others are slow because they have much else to do. */
  #noteTime(digest: string, ms: number): void {
    const now_ms = monotonicMs();
    const known = this.#body_ms.get(digest);
    const same = known && now_ms - known.since_ms < TIMES_MS;
    this.#body_ms.delete(digest); // and put last: what nobody has said for long goes first
    this.#body_ms.set(
      digest,
      same ? { ms: Math.min(known.ms, ms), since_ms: known.since_ms } : { ms, since_ms: now_ms },
    );
    if (this.#body_ms.size > MOST_CODES) {
      for (const [oldest] of this.#body_ms) return void this.#body_ms.delete(oldest);
    }
  }

  /** What a run of this code takes, in milliseconds; Infinity: nobody has said. */
  bodyMs(digest: string): number {
    return this.#body_ms.get(digest)?.ms ?? Infinity;
  }

  /** Whether a run of this code takes so little that to wake a worker for it costs more; prefetch.ts. */
  isQuick(digest: string): boolean {
    return this.bodyMs(digest) <= QUICK_MS;
  }

  /** How many quick runs may be sent now in packs, when so many are in hand. */
  packs(in_hand: number): PackAllowance {
    const ends_per_ms = this.#members.values().reduce((sum, { pace }) => sum + pace.endsPerMs, 0);
    return this.#packing.packs({ ends_per_ms, in_hand });
  }

  /** How many runs it can be sent beyond its free slots: as many as end before another order could come. */
  prefetch({ worker_id, slots }: Pick<WorkerRow, "worker_id" | "slots">): number {
    const member = this.#members.get(worker_id);
    return !member || member.status?.late ? 0 : member.pace.beyond(slots);
  }

  /** The time of its slots that may be sent to wait there. */
  lineLeft(worker: Pick<WorkerRow, "worker_id" | "slots" | "load">): number {
    return this.#members.get(worker.worker_id)?.line.left(worker, this.#bodyMsOf) ?? 0;
  }

  /** It was given a run of this code. */
  gave(worker_id: string, digest: string): void {
    const member = this.#members.get(worker_id);
    member?.pace.gave(1);
    member?.line.gave(digest, this.#bodyMsOf);
  }

  /** It has no room, drains, or its lease is over, and rows or streams do not show it yet. */
  hasRefused(worker_id: string): void {
    const member = this.#members.get(worker_id);
    if (member) member.busy_until_ms = monotonicMs() + BUSY_MS;
  }

  /** Workers that do not know yet what their rows say of draining; each is named once for each change. */
  unawareOfDrain(): (WorkerRow & { draining: boolean })[] {
    const unaware: (WorkerRow & { draining: boolean })[] = [];
    for (const member of this.#members.values()) {
      const { worker, status } = member;
      if (!status || (worker.state !== "ACTIVE" && worker.state !== "DRAINING")) continue;
      const draining = worker.state === "DRAINING";
      if (status.draining === draining) member.drain_told = undefined;
      else if (member.drain_told !== draining) unaware.push({ ...worker, draining: member.drain_told = draining });
    }
    return unaware;
  }

  /** Workers that take part and whose stream has been gone for so long. */
  unheardFor(ms: number): WorkerRow[] {
    const before_ms = monotonicMs() - ms;
    return [...this.#members.values()].filter(({ worker, unheard_since_ms }) =>
      (worker.state === "ACTIVE" || worker.state === "DRAINING") && unheard_since_ms !== undefined &&
      unheard_since_ms <= before_ms
    ).map(({ worker }) => worker);
  }

  /** Whether Redis has a heartbeat of it; gives for how long it has had none, as far as was looked. */
  notePulse(worker_id: string, has_pulse: boolean): number {
    const member = this.#members.get(worker_id);
    if (!member || has_pulse || member.unheard_since_ms === undefined) {
      if (member) member.silent_since_ms = undefined;
      return 0;
    }
    return monotonicMs() - (member.silent_since_ms ??= monotonicMs());
  }

  get(worker_id: string): WorkerRow | undefined {
    return this.#members.get(worker_id)?.worker;
  }

  disband(): void {
    for (const member of this.#members.values()) member.unwatch?.();
    this.#members.clear();
  }
}
