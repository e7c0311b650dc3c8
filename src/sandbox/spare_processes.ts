/**
 * Processes that are loaded and wait for a run. A spare is bound to job file, digest, permissions and memory, and never used for anything
 * else. There are at most `most` of them; the least recently used goes first, and each goes after five minutes without use. Processes that come
 * back from a run may be more than that for 15 s, while a fourth of the machine's memory is free.
 */
import { monotonicMs } from "../platform/timers.ts";
import type { Child } from "./process.ts";
import type { ProcessQueue } from "./process_queue.ts";

export interface Spare {
  key: string;
  line: ProcessQueue;
  idle_since_ms: number;
}

const LIFE_MS = 5 * 60_000;
/** Of processes that go back among the spares and are more than `most`: as many as runs went on at a time. */
const SURPLUS_LIFE_MS = 15_000;
/** A younger spare gives way to none of another kind: where many kinds come at once each would end one that nobody has used yet. */
const SETTLED_MS = 3_000;

export class SpareProcesses {
  readonly #most: number;
  #spares: Spare[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#spares.length;
  }

  add(key: string, line: ProcessQueue): void {
    this.#spares.push({ key, line, idle_since_ms: monotonicMs() });
  }

  take(key: string): Spare | undefined {
    const spare = this.#spares.findLast((one) => one.key === key && one.line.child.fit);
    if (spare) this.#remove(spare);
    return spare;
  }

  /** Whether there is room for one more, which another may have to give: beyond the first only as many as runs of it go on at a time. */
  makeRoom(key: string, wanted: number): boolean {
    const own = this.#spares.filter((one) => one.key === key).length;
    if (this.#most < 1 || own >= Math.max(1, wanted)) return false;
    if (this.#spares.length < this.#most) return true;
    const [oldest] = this.#spares as [Spare];
    if (own > 0 || monotonicMs() - oldest.idle_since_ms < SETTLED_MS) return false;
    this.#drop(oldest);
    return true;
  }

  /** It has ended. */
  forget(child: Child): void {
    this.#spares = this.#spares.filter((one) => one.line.child !== child);
  }

  dropStale(): void {
    const now_ms = monotonicMs();
    const beyond = this.#spares.length - this.#most;
    const surplus_life_ms = beyond > 0 && isMemoryShort() ? 0 : SURPLUS_LIFE_MS;
    const stale = this.#spares.filter(({ idle_since_ms }, place) =>
      now_ms - idle_since_ms > (place < beyond ? surplus_life_ms : LIFE_MS)
    );
    for (const spare of stale) this.#drop(spare);
  }

  #drop(spare: Spare): void {
    this.#remove(spare);
    spare.line.child.kill();
  }

  #remove(spare: Spare): void {
    this.#spares = this.#spares.filter((one) => one !== spare);
  }
}

/** A process of each of many kinds may idle here, at some 45 MiB each: not at the cost of what runs. */
function isMemoryShort(): boolean {
  const { available, total } = Deno.systemMemoryInfo();
  return available < total / 4;
}
