/** The child side of the talk between a worker and a body's process: orders in on stdin, frames out on stdout. */
import { type BodyError, type FromBody, records, type ToBody } from "./frames.ts";
import { describeError } from "./thrown.ts";

export type Order = Extract<ToBody, { kind: "order" }>;

const KINDS = ["read", "write", "net", "env", "sys", "run", "ffi", "import"];
const stdin = Deno.stdin;
const decoder = new TextDecoder();
const writeOut = Deno.stdout.writeSync.bind(Deno.stdout);
const writeError = Deno.stderr.writeSync.bind(Deno.stderr);
const exit: (code: number) => never = Deno.exit;

/** Both directions of talk with the worker. Opening it reads the hello and refuses to go on with more rights than were granted. */
export class Channel {
  readonly #nonce: Uint8Array;
  #unread = new Uint8Array();
  /** Orders are dropped until the worker, which was told so, says that it knows. */
  #recalled = false;

  constructor() {
    const hello = this.#parse(this.#lineSync());
    if (hello?.kind !== "hello") exit(0); // the worker is gone
    this.#nonce = new TextEncoder().encode(hello.nonce);
    closeStores();
    const excess = KINDS.filter((name) =>
      !hello.granted.includes(name) &&
      Deno.permissions.querySync({ name } as unknown as Deno.PermissionDescriptor).state === "granted"
    );
    if (excess.length === 0) return;
    const message = `This process holds more than it was granted: all of ${excess.join(", ")}`;
    this.fail({ ...describeError(new Error(message)), phase: "grants", name: "PermissionExcess", retry: "never" });
  }

  send(frame: FromBody, write = writeOut): void {
    for (const record of records(frame, this.#nonce)) {
      for (let at = 0; at < record.length;) at += tryWrite(write, record.subarray(at));
    }
  }

  /** After the verdict of a process that goes on. */
  sendIdle(): void {
    this.send({ kind: "idle" }, writeError);
  }

  /** Ends this process; an error is the last thing it says. */
  fail(error: BodyError): never {
    this.send({ kind: "error", error });
    exit(1);
  }

  leave(code: number): never {
    exit(code);
  }

  /** The next order that is to be served. Orders wait in the input while one is. */
  async nextOrder(): Promise<Order | undefined> {
    for (;;) {
      const said = await this.#next();
      if (said?.kind === "resume") this.#recalled = false;
      else if (said?.kind !== "order") return undefined;
      else if (!this.#recalled) return said;
    }
  }

  /** Nothing is begun any more but what is in hand, until the worker has heard so. */
  recall(job_run_id: number): void {
    this.#recalled = true;
    this.send({ kind: "recalled", job_run_id });
  }

  async #next(): Promise<ToBody | undefined> {
    let line: string | undefined;
    while ((line = this.#takeLine()) === undefined) {
      const bytes = new Uint8Array(64 * 1024);
      const count = await stdin.read(bytes);
      if (count === null) return undefined;
      this.#keep(bytes.subarray(0, count));
    }
    return this.#parse(line);
  }

  #lineSync(): string {
    let line: string | undefined;
    while ((line = this.#takeLine()) === undefined) {
      const bytes = new Uint8Array(64 * 1024);
      const count = stdin.readSync(bytes);
      if (count === null) return "";
      this.#keep(bytes.subarray(0, count));
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
