/** The child side of the talk between a worker and a body's process: orders in on stdin, frames out on stdout. */
import { type BodyError, type FromBody, joined, RECORD_BYTES, records, type ToBody } from "../frames.ts";
import type { ToStepBody } from "../frames/step_frames.ts";
import { describeError } from "./thrown.ts";

export type BodyFrameOrder = Extract<ToBody, { kind: "order" }>;

const KINDS = ["read", "write", "net", "env", "sys", "run", "ffi", "import"];
const stdin = Deno.stdin;
const decoder = new TextDecoder();
const writeOut = Deno.stdout.writeSync.bind(Deno.stdout);
const writeError = Deno.stderr.writeSync.bind(Deno.stderr);
const exit: (code: number) => never = Deno.exit;

/** Both directions of talk with the worker. Opening it reads the hello and refuses to go on with more rights than were granted. */
export class BodyChannel {
  readonly #nonce: Uint8Array;
  readonly #started: Uint8Array;
  readonly #idle: Uint8Array;
  readonly #room = new Uint8Array(64 * 1024);
  #unread = new Uint8Array();
  /** Said, and to be written with what is said next. */
  #unwritten: Uint8Array | undefined;
  /** Orders are dropped until the worker, which was told so, says that it knows. */
  #recalled = false;
  /** What comes is not the worker's. */
  #over = false;
  /** Read while a run was served. */
  #orders: BodyFrameOrder[] = [];
  /** The only one at a time. False: the worker is gone. */
  #reading: Promise<boolean> | undefined;
  /** How much was said, as a sign of life. */
  said = 0;
  /** What it would say is made and not said. */
  silent = false;

  constructor() {
    const hello = this.#parse(this.#lineSync());
    if (hello?.kind !== "hello") exit(0); // the worker is gone
    this.#nonce = new TextEncoder().encode(hello.nonce);
    [this.#started, this.#idle] = [this.#recordsOf({ kind: "started" }), this.#recordsOf({ kind: "idle" })].map(
      joined,
    ) as [Uint8Array, Uint8Array];
    closeStores();
    const excess = KINDS.filter((name) =>
      !hello.granted.includes(name) &&
      Deno.permissions.querySync({ name } as unknown as Deno.PermissionDescriptor).state === "granted"
    );
    if (excess.length === 0) return;
    const message = `This process holds more than it was granted: all of ${excess.join(", ")}`;
    this.fail({ ...describeError(new Error(message)), phase: "grants", name: "PermissionExcess", retry: "never" });
  }

  send(frame: FromBody): void {
    this.said++;
    for (const record of frame.kind === "started" ? [this.#started] : this.#recordsOf(frame)) this.#write(record);
  }

  /**
   * The verdict of a run after which the next order is at hand: it is written with the word that this one has started, before
   * anything of it is called, so that the worker wakes up once for both.
   */
  sendWithNext(verdict: FromBody): void {
    const [record, ...more] = this.#recordsOf(verdict) as [Uint8Array];
    if (more.length > 0) this.send(verdict);
    else this.#unwritten = record;
  }

  /** Nothing that was said waits any more. */
  flush(): void {
    const waiting = this.#unwritten;
    this.#unwritten = undefined;
    if (waiting) this.#put(writeOut, waiting);
  }

  /** After the verdict of a process that goes on, or with it. */
  sendIdle(): void {
    this.#put(writeError, this.#idle);
  }

  /** What fits into one write stays in one piece. */
  #write(record: Uint8Array): void {
    if (this.silent) return;
    const waiting = this.#unwritten;
    if (waiting && waiting.length + record.length <= RECORD_BYTES) {
      this.#unwritten = undefined;
      return this.#put(writeOut, joined([waiting, record]));
    }
    this.flush();
    this.#put(writeOut, record);
  }

  /** A body that has closed what it is heard by ends: what comes of it could not be told, and would be waited for. */
  #put(write: typeof writeOut, bytes: Uint8Array): void {
    try {
      return writeAll(write, bytes);
    } catch {
      if (write === writeError) this.flush();
      this.silent = true;
      exit(1);
    }
  }

  #recordsOf(frame: FromBody): Uint8Array[] {
    return [...records(frame, this.#nonce)];
  }

  /** Ends this process; an error is the last thing it says. */
  fail(error: BodyError): never {
    this.silent = false;
    this.send({ kind: "error", error });
    exit(1);
  }

  leave(code: number): never {
    exit(code);
  }

  /** The next order that is to be served. Orders wait in the input while one is. */
  async nextOrder(): Promise<BodyFrameOrder | undefined> {
    for (;;) {
      const order = this.orderAtHand();
      if (order || this.#over || !await this.#read()) return order;
    }
  }

  /** The next one, if it has been read already. */
  orderAtHand(): BodyFrameOrder | undefined {
    while (this.#orders.length === 0 && this.#hear() !== undefined);
    return this.#orders.shift();
  }

  /** What the worker says to the run in hand. Undefined: it is gone. */
  async nextWords(): Promise<ToStepBody | undefined> {
    for (;;) {
      const words = this.#wordsAtHand();
      if (words || this.#over || !await this.#read()) return words;
    }
  }

  /** As above, and nothing else happens in this process meanwhile. */
  nextWordsSync(): ToStepBody | undefined {
    for (;;) {
      const words = this.#wordsAtHand();
      if (words || this.#over || !this.#readSync()) return words;
    }
  }

  #wordsAtHand(): ToStepBody | undefined {
    for (;;) {
      const heard = this.#hear();
      if (heard !== "order") return heard;
    }
  }

  /** The next line that was read. Orders are kept for later; what is said to a run is given, in vain where that has ended. */
  #hear(): ToStepBody | "order" | undefined {
    const line = this.#over ? undefined : this.#takeLine();
    if (line === undefined) return undefined;
    const said = this.#parse(line);
    switch (said?.kind) {
      case "order":
        if (!this.#recalled) this.#orders.push(said);
        return "order";
      case "resume":
        this.#recalled = false;
        return "order";
      case undefined:
      case "hello":
        this.#over = true;
        return undefined;
      default:
        return said;
    }
  }

  #read(): Promise<boolean> {
    return this.#reading ??= stdin.read(this.#room).then((count) => {
      this.#reading = undefined;
      return this.#keepRead(count);
    });
  }

  #readSync(): boolean {
    return this.#keepRead(stdin.readSync(this.#room));
  }

  #keepRead(count: number | null): boolean {
    if (count !== null) this.#keep(this.#room.subarray(0, count));
    return count !== null;
  }

  /** Nothing is begun any more but what is in hand, until the worker has heard so. */
  recall(job_run_id: number): void {
    this.#recalled = true;
    this.#orders = [];
    this.send({ kind: "recalled", job_run_id });
  }

  #lineSync(): string {
    let line: string | undefined;
    while ((line = this.#takeLine()) === undefined) {
      if (!this.#readSync()) return "";
    }
    return line;
  }

  #keep(bytes: Uint8Array): void {
    const all = new Uint8Array(this.#unread.length + bytes.length);
    all.set(this.#unread);
    all.set(bytes, this.#unread.length);
    this.#unread = all;
  }

  #takeLine(): string | undefined {
    const end = this.#unread.indexOf(0x0a);
    if (end === -1) return undefined;
    const line = decoder.decode(this.#unread.subarray(0, end));
    this.#unread = this.#unread.subarray(end + 1);
    return line;
  }

  #parse(line: string): ToBody | undefined {
    return line === "" ? undefined : JSON.parse(line) as ToBody;
  }
}

/** What Deno lets any program keep on disk without asking, and shares among all that have the same entry, as bodies have. */
function closeStores(): void {
  for (const name of ["localStorage", "caches"]) delete (globalThis as Record<string, unknown>)[name];
}

function writeAll(write: (bytes: Uint8Array) => number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += tryWrite(write, bytes.subarray(at));
}

/** A grandchild on the same pipe can have made it one that does not wait (Node does that); then the waiting is done here. */
function tryWrite(write: (bytes: Uint8Array) => number, bytes: Uint8Array): number {
  for (;;) {
    try {
      return write(bytes);
    } catch (error) {
      if (!(error instanceof Deno.errors.WouldBlock)) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}
