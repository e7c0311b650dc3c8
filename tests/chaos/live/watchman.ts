/**
 * Watches bodies that have left no mark of their end: as long as the kernel has their process they are alive. So a body
 * that was killed is known to have lived until it was last seen, which is less than a tenth of a second too early.
 */
import { every } from "../../../src/platform/timers.ts";
import { bodyOf, type Mark } from "./marks.ts";

const LOOK_EVERY_MS = 100;

export class Watchman {
  /** When each body was last seen alive, on the clock of the marks. */
  readonly seen = new Map<string, number>();
  readonly #file: string;
  readonly #open = new Map<string, { pid: number; started: string }>();
  readonly #stop = new AbortController();
  readonly #watching: Promise<void>;
  #read_to = 0;
  #begun = "";

  constructor(marks_file: string) {
    this.#file = marks_file;
    this.#watching = every(LOOK_EVERY_MS, () => Promise.resolve(this.#look()), {
      name: "watchman",
      stop: this.#stop.signal,
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#watching;
  }

  #look(): void {
    for (const mark of this.#newMarks()) {
      const started = startOf(mark.pid);
      if (mark.mark === "end") this.#open.delete(bodyOf(mark));
      else if (started) this.#open.set(bodyOf(mark), { pid: mark.pid, started });
    }
    for (const [body, { pid, started }] of this.#open) {
      const now_ms = Date.now();
      if (startOf(pid) === started) this.seen.set(body, now_ms);
      else this.#open.delete(body);
    }
  }

  #newMarks(): Mark[] {
    const bytes = readFrom(this.#file, this.#read_to);
    this.#read_to += bytes.length;
    const lines = (this.#begun + new TextDecoder().decode(bytes)).split("\n"); // marks are plain ASCII
    this.#begun = lines.pop() as string;
    return lines.map((line) => JSON.parse(line) as Mark);
  }
}

function readFrom(path: string, from: number): Uint8Array {
  try {
    using file = Deno.openSync(path);
    const bytes = new Uint8Array(Math.max(0, file.statSync().size - from));
    file.seekSync(from, Deno.SeekMode.Start);
    return bytes.subarray(0, file.readSync(bytes) ?? 0);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return new Uint8Array(); // no body yet
    throw error;
  }
}

/** When the kernel started a process; empty when it is gone or no more than a zombie. */
function startOf(pid: number): string {
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return /[ZX]/.test(fields[0] as string) ? "" : fields[19] as string;
  } catch {
    return "";
  }
}
