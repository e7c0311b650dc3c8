/**
 * The outcomes that a worker has and Postgres has not confirmed, in a file of its own: `journals/<who>` below the state
 * folder. The name says which process it is, so the file, even while it is empty, is also by what siblings know each
 * other (sibling_monitor.ts); when the process is gone they record what is in it and remove it (journal_recovery.ts).
 *
 * An outcome is appended in the turn of the event loop in which its body has ended, together with those that end in the same
 * turn, and with no fsync. So it survives any death of the process, but not a power cut within the seconds in which the
 * kernel had not written it. As soon as nothing waits for Postgres the file is emptied.
 *
 * Without the file, or without room for an entry, recording goes on as ever; that is said once. Then a worker that dies
 * with an outcome in hand has its run run again.
 */
import { observe } from "../../platform/facts.ts";
import { ChurnMap } from "../../platform/churn_map.ts";
import { resolvePath } from "../../platform/paths.ts";
import { messageOf } from "../../platform/text.ts";
import { processStarted } from "../../platform/process_stat.ts";
import { hostIdentity } from "../../sandbox/process_table.ts";
import type { Ending } from "../../runs/finished_runs.ts";
import { attemptKey } from "../../runs/states.ts";

/** Which process a worker is: the same text in its row and in the name of its file. */
export interface Identity {
  worker_id: string;
  pid: number;
  /** The kernel's start time of the pid. */
  process_started: string;
  /** process_table.ts; empty where it cannot be told. */
  host: string;
}

/** This process, as the worker that it is now. */
export function identify(worker_id: string): Identity {
  return { worker_id, pid: Deno.pid, process_started: processStarted(Deno.pid), host: hostIdentity() };
}

/** Beyond this nothing is added: an hour without Postgres must not fill the disk. A result has a MiB at most. */
const MOST_BYTES = 64 * 1024 * 1024;
/** When the file is never quite empty it is written anew from time to time. */
const TIDY_BYTES = 1024 * 1024;
const OUTCOMES = ["SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELED"];

export class ResultJournal {
  readonly #folder: string;
  readonly #path: string;
  readonly #waiting = new ChurnMap<string, Ending>();
  /** Of those, what is not written yet. */
  #unwritten: Ending[] = [];
  #file: Deno.FsFile | undefined;
  #bytes = 0;
  #tidy_at_bytes = TIDY_BYTES;
  #told = false;

  constructor(state_dir: string, me: Identity) {
    this.#folder = journalsFolder(state_dir);
    this.#path = resolvePath(this.#folder, fileNameOf(me));
  }

  /** Makes the file, once the worker is registered. Where that fails, outcomes live in memory alone. */
  open(): void {
    this.#attempt(() => {
      Deno.mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      Deno.chmodSync(this.#folder, 0o700);
      this.#file = open(this.#path);
    });
  }

  /** Never throws. Keeping the same one again changes nothing. */
  keep(ending: Ending): void {
    const key = attemptKey(ending);
    if (this.#waiting.has(key)) return;
    this.#waiting.set(key, ending);
    this.#unwritten.push(ending);
    if (this.#unwritten.length === 1) queueMicrotask(() => this.#flush());
  }

  /** Postgres has answered: it is recorded, or came too late, and need not be kept any more. */
  drop(ending: Ending): void {
    if (!this.#waiting.delete(attemptKey(ending))) return;
    this.#flush();
    if (this.#waiting.size > 0 && this.#bytes <= this.#tidy_at_bytes) return;
    this.#attempt(() => {
      if (this.#waiting.size === 0) this.#empty();
      else if (this.#bytes > this.#tidy_at_bytes) this.#tidy();
    });
  }

  /** How many outcomes wait for Postgres. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Without `done` the file stays for the heirs: outcomes wait in it, or the worker's end is not in its row yet. */
  close(done: boolean): void {
    this.#flush();
    this.#attempt(() => {
      this.#file?.close();
      if (this.#file && done) Deno.removeSync(this.#path);
    });
    this.#file = undefined;
  }

  /** What does not fit together is tried one by one: a large result must not keep out small ones. */
  #flush(): void {
    const endings = this.#unwritten;
    this.#unwritten = [];
    if (endings.length === 0) return;
    const together = entriesOf(endings);
    const pieces = this.#bytes + together.length <= MOST_BYTES ? [together] : endings.map((one) => entriesOf([one]));
    for (const piece of pieces) this.#attempt(() => this.#write(piece));
  }

  #write(entries: Uint8Array): void {
    if (!this.#file) return;
    if (this.#bytes + entries.length > MOST_BYTES) throw new Error(`it holds ${this.#bytes} bytes already`);
    const written = this.#file.writeSync(entries);
    this.#bytes += written;
    if (written < entries.length) throw new Error(`only ${written} of ${entries.length} bytes could be written`);
  }

  #empty(): void {
    if (this.#bytes > 0) this.#file?.truncateSync(0);
    this.#bytes = 0;
    this.#tidy_at_bytes = TIDY_BYTES;
  }

  /** Whole or not at all: a death in between leaves the old file. */
  #tidy(): void {
    if (!this.#file) return;
    this.#tidy_at_bytes = 2 * this.#bytes; // also when it fails, or it would be tried at every end
    const draft = draftOf(this.#path);
    Deno.writeFileSync(draft, entriesOf(fitting(this.#waiting.values())), { mode: 0o600 });
    const file = open(draft);
    Deno.renameSync(draft, this.#path);
    this.#file.close();
    this.#file = file;
    this.#bytes = file.statSync().size;
    this.#tidy_at_bytes = Math.max(TIDY_BYTES, 2 * this.#bytes);
  }

  #attempt(act: () => void): void {
    try {
      act();
    } catch (error) {
      if (!this.#told) observe("spool.failed", { file: this.#path, error: messageOf(error) });
      this.#told = true;
    }
  }
}

function open(path: string): Deno.FsFile {
  return Deno.openSync(path, { append: true, create: true, mode: 0o600 });
}

/** Lines that begin with their line end: one that was torn before them spoils nothing. */
function entriesOf(endings: Iterable<Ending>): Uint8Array {
  let text = "";
  for (const ending of endings) text += `\n${JSON.stringify(ending)}`;
  return encoder.encode(text);
}

/** Those that are found room for one after the other: a recovering worker reads no file that is larger. */
function* fitting(endings: Iterable<Ending>): Iterable<Ending> {
  let bytes = 0;
  for (const ending of endings) {
    const length = entriesOf([ending]).length;
    if (bytes + length > MOST_BYTES) continue;
    bytes += length;
    yield ending;
  }
}

const encoder = new TextEncoder();

/** What a file is called while it is being written anew. */
export function draftOf(path: string): string {
  return `${path}.new`;
}

export function journalsFolder(state_dir: string): string {
  return resolvePath(state_dir, "estates");
}

const NAME = /^(w\d+-[0-9a-f]{8})_(\d+)_(\d*)_([0-9a-f-]+\.\d+)?$/;

export function fileNameOf({ worker_id, pid, process_started, host }: Identity): string {
  return `${worker_id}_${pid}_${process_started}_${host}`;
}

/** Undefined: it is not the file of a worker. */
export function identityIn(file_name: string): Identity | undefined {
  const [, worker_id, pid, process_started, host = ""] = NAME.exec(file_name) ?? [];
  if (worker_id === undefined) return undefined;
  return { worker_id, pid: Number(pid), process_started: process_started as string, host };
}

/** The outcomes in a worker's file; what is torn or foreign is left out. @throws where it cannot be read. */
export async function readJournal(path: string): Promise<Ending[]> {
  const { size } = await Deno.stat(path);
  if (size === 0) return [];
  if (size > MOST_BYTES) throw new Error(`it has ${size} bytes, more than any worker writes`);
  const endings = new Map<string, Ending>();
  for (const line of (await Deno.readTextFile(path)).split("\n")) {
    const ending = endingIn(line);
    if (ending) endings.set(attemptKey(ending), ending);
  }
  return [...endings.values()];
}

function endingIn(line: string): Ending | undefined {
  try {
    const ending = JSON.parse(line) as Partial<Ending> | null;
    const sound = Number.isSafeInteger(ending?.job_run_id) && Number.isSafeInteger(ending?.attempt) &&
      typeof ending?.start_token === "string" && OUTCOMES.includes(ending.outcome as string);
    return sound ? ending as Ending : undefined;
  } catch {
    return undefined;
  }
}
