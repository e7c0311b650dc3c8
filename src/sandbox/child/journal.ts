/**
 * The replay of a run: what its body requests is answered from the run's rows, in their order, and only then does anything new begin.
 *
 *   requested -> has a row: delivered when it is its turn, one a turn of the event loop, all microtasks in between
 *             -> none:      deferred until the last row was delivered, then begun, in order of request
 *             -> ended:     its row is sent, with the next place in the order; delivered once that is committed
 *
 * A request is known by scope, kind, name and how often that was requested before. As deliveries are the only thing that moves
 * a body on, the same deliveries in the same order make it request the same again. A row that is not requested although nothing else can
 * come shows that it did not: a row of the same code means that the body has diverged, one of other code is skipped, and kept for later.
 *
 * A turn is one of setImmediate. A message of a MessageChannel will not do: Deno takes one that is there already a few microtasks after
 * the last, so that the second of two deliveries overtakes what follows from the first once that is five awaits long.
 * The test kit replays with this too, in its own process.
 */
import type { JournalRow, OpenRow, RunJournal, StepFrame, StepKind } from "../frames/step_frames.ts";
import { divergenceText, problemWithKey, problemWithName } from "./step_names.ts";

/** What the body has asked for. Each is answered by one of `deliver` and `refuse`. */
export interface StepRequest {
  readonly key: string;
  readonly kind: StepKind;
  /** An undo: is begun although the run is to end. */
  readonly always?: boolean;
  /** There is no row with an end. `open`: what was recorded of it so far. */
  begin(open: OpenRow | undefined): void;
  deliver(row: JournalRow): void;
  refuse(error: Error): void;
}

export type RowWrite = Omit<StepFrame, "kind" | "n" | "seq">;
/** What is delivered with a row and not sent with it, since it is stored elsewhere. */
type Local = Partial<Pick<JournalRow, "result" | "child_run_id" | "child_bulk_id">>;

export interface JournalListener {
  send(frame: StepFrame): void;
  /** The last row was delivered. What was deferred begins after this. */
  onReplayed(): void;
  /** Of two with one name it depends on who is faster which is which. */
  onAmbiguous(name: string): void;
  onNearlyFull(message: string): void;
  onDiverged(message: string): void;
}

interface Due {
  row: JournalRow;
  request: StepRequest;
}

interface Unacknowledged extends Partial<Due> {
  n: number;
  then?: () => void;
}

export interface JournalSubject {
  job_run_id: number;
  job_name: string;
  started_unix_ms: number;
  max_steps: number;
  max_journal_mb: number;
}

/** To take it makes Deno load a part of Node's. That is done here, so that a process that waits loaded has it before its run comes. */
const immediates = Object.getOwnPropertyDescriptor(globalThis, "setImmediate") as PropertyDescriptor;
const afterThisTurn: (act: () => void) => void = immediates.get?.call(globalThis) ?? immediates.value;

/** Its owner is told when so much of it is full. */
const NEARLY_FULL = 0.8;

export class Journal {
  /** Of the row that was delivered last. */
  now_ms: number;
  /** Rows that were sent in this execution, delivered or not. */
  sent = 0;
  readonly #subject: JournalSubject;
  readonly #listener: JournalListener;
  readonly #digest: string;
  /** In their order, without those of undoing. */
  readonly #rows: JournalRow[];
  /** By key, those of undoing as well. */
  readonly #row_of = new Map<string, JournalRow>();
  readonly #open = new Map<string, OpenRow>();
  /** Keys that are recorded and were not requested in this execution. */
  readonly #unrequested = new Set<string>();
  readonly #keys = new Set<string>();
  readonly #requested = new Map<string, StepRequest>();
  readonly #counts = new Map<string, number>();
  /** Requests of a name that are not delivered: how many, and the turn of the first. */
  readonly #undelivered = new Map<string, { turn: number; count: number }>();
  readonly #name_of = new Map<string, string>();
  readonly #warned = new Set<string>();
  #place = 0;
  #replaying: boolean;
  #deferred: StepRequest[] = [];
  #due: Due[] = [];
  #unacknowledged: Unacknowledged[] = [];
  #closed: Error | undefined;
  #n = 0;
  #seq: number;
  #turn = 0;
  #posted = false;
  /** Of all results, once that is asked. */
  #chars: number | undefined;

  constructor(journal: RunJournal | undefined, subject: JournalSubject, listener: JournalListener) {
    this.#subject = subject;
    this.#listener = listener;
    this.now_ms = subject.started_unix_ms;
    this.#digest = journal?.code_digest ?? "";
    const { rows = [], open = [] } = journal ?? {};
    this.#rows = rows.filter(({ kind }) => kind !== "undo");
    this.#seq = rows.at(-1)?.seq ?? 0;
    for (const row of rows) this.#row_of.set(row.key, row);
    for (const row of open) this.#open.set(row.key, row);
    for (const { key, kind } of [...rows, ...open]) {
      this.#keys.add(key);
      if (kind !== "undo") this.#unrequested.add(key);
    }
    this.#replaying = journal !== undefined;
    if (this.#replaying) this.#nextTurn();
  }

  get replaying(): boolean {
    return this.#replaying;
  }

  /** Something was sent and is not committed. */
  get waits(): boolean {
    return this.#unacknowledged.length > 0;
  }

  /** Rows of which this execution has not requested anything. */
  get hasUnrequested(): boolean {
    return this.#unrequested.size > 0;
  }

  /** The row of a key that has ended, or that is open. */
  recorded(key: string): JournalRow | OpenRow | undefined {
    return this.#row_of.get(key) ?? this.#open.get(key);
  }

  /** Open rows that were not requested; none while it may still come to that. */
  unrequestedOpen(): OpenRow[] {
    return this.#replaying ? [] : [...this.#open.values()].filter(({ key }) => this.#unrequested.has(key));
  }

  /** Steps that may have begun and have an undo. */
  toUndo(): string[] {
    return [...this.#row_of.values(), ...this.#open.values()].filter((row) => row.kind === "step" && row.has_undo)
      .map(({ key }) => key);
  }

  /** The key of the next request of this name. @throws TypeError when the name is none */
  keyFor(scope: string, kind: StepKind, name: string): string {
    const problem = kind !== "sleep" && name === "" ? "is empty: say what it does" : problemWithName(name);
    if (problem) throw new TypeError(`Cannot request a ${kind}: its name ${problem}`);
    const base = `${scope}${kind}:${name}`;
    let count = (this.#counts.get(base) ?? 0) + 1;
    const numbered = () => count === 1 ? base : `${base}#${count}`;
    while (this.#name_of.has(numbered())) count++; // a name may look like another with its number
    const key = numbered();
    const why = problemWithKey(key);
    if (why) throw new TypeError(why);
    this.#counts.set(base, count);
    this.#name_of.set(key, base);
    const before = this.#undelivered.get(base);
    if (before && before.turn !== this.#turn && !this.#warned.has(base)) {
      this.#warned.add(base);
      this.#listener.onAmbiguous(base);
    }
    if (before) before.count++;
    else this.#undelivered.set(base, { turn: this.#turn, count: 1 });
    return key;
  }

  request(request: StepRequest): void {
    const { key } = request;
    const row = this.#row_of.get(key);
    this.#unrequested.delete(key);
    if (row) this.#requested.set(key, request);
    if (row && (!this.#replaying || this.#isPassed(row))) this.#due.push({ row, request });
    else if (!row && this.#replaying) this.#deferred.push(request);
    else if (!row) this.#begin(request);
    this.#nextTurn();
  }

  /** An open row that is not requested: closes it. Nobody is told, so it has no place in the order. */
  drop(frame: RowWrite): void {
    this.#unrequested.delete(frame.key);
    this.write(frame);
  }

  /** Sends a row that has no end yet. `then`: once it is committed. */
  write(frame: RowWrite, then?: () => void): void {
    this.#open.delete(frame.key);
    const n = this.#send(frame);
    this.#unacknowledged.push({ n, then });
  }

  /** Sends the end of a request. It is delivered once that is committed. */
  end(request: StepRequest, frame: RowWrite, local: Local = {}): void {
    const seq = ++this.#seq;
    const n = this.#send(frame, seq);
    const row: JournalRow = {
      key: frame.key,
      kind: frame.request,
      state: frame.state as JournalRow["state"],
      seq,
      tries: frame.tries,
      result: frame.result ?? null,
      error_name: frame.error_name ?? null,
      error_summary: frame.error_summary ?? null,
      ended_unix_ms: 0,
      code_digest: this.#digest,
      has_undo: frame.has_undo ?? false,
      ...local,
    };
    this.#unacknowledged.push({ n, row, request });
  }

  /** The row of a key that was sent and is not committed yet. */
  sentRow(key: string): JournalRow | undefined {
    return this.#unacknowledged.find(({ row }) => row?.key === key)?.row;
  }

  committed(upto: number, ended_unix_ms: number): void {
    while ((this.#unacknowledged[0]?.n ?? Infinity) <= upto) {
      const { row, request, then } = this.#unacknowledged.shift() as Unacknowledged;
      if (row && request) this.#due.push({ row: Object.assign(row, { ended_unix_ms }), request });
      then?.();
    }
    if (this.#due.length > 0) this.#nextTurn();
  }

  /** Nothing new is begun from here on; in a replay from its end. */
  close(error: Error): void {
    this.#closed ??= error;
  }

  /** Nothing can come any more: is that since the body has not requested the next row? Then something becomes of that. */
  stuck(): boolean {
    if (!this.#replaying || this.#posted) return false;
    const row = this.#rows[this.#place];
    if (row && !this.#isFromHere(row)) this.#place++;
    else if (row) this.#listener.onDiverged(divergenceText(row, { ...this.#subject, instead: this.#deferred[0]?.key }));
    this.#nextTurn();
    return true;
  }

  /** The body has returned. Why that cannot be, if it has not requested all that it did the last time. */
  whyNotOver(): string | undefined {
    const missed = this.#replaying
      ? this.#rows.slice(this.#place).find((row) => this.#unrequested.has(row.key) && this.#isFromHere(row))
      : undefined;
    return missed && divergenceText(missed, { ...this.#subject, instead: undefined });
  }

  /** Why a result of so many characters is too much; else it is counted. */
  whyNoRoom(chars: number): string | undefined {
    const { max_journal_mb } = this.#subject;
    const before = this.#chars ??= this.#rows.reduce(
      (sum, { result }) => sum + JSON.stringify(result ?? null).length,
      0,
    );
    const [after, most] = [before + chars, max_journal_mb * 1024 * 1024];
    const advice = "keep large results elsewhere and return where, or go on in a new run (again)";
    if (after > most) return `the results of the run's steps are more than ${max_journal_mb} MiB: ${advice}`;
    this.#chars = after;
    if (before <= most * NEARLY_FULL && after > most * NEARLY_FULL) {
      this.#listener.onNearlyFull(`the results of the run's steps fill 80 % of ${max_journal_mb} MiB: ${advice}`);
    }
    return undefined;
  }

  #send(frame: RowWrite, seq?: number): number {
    this.sent++;
    const n = ++this.#n;
    this.#listener.send({ kind: "step", n, ...(seq === undefined ? {} : { seq }), ...frame });
    return n;
  }

  #begin(request: StepRequest): void {
    const { key, always } = request;
    if (this.#closed && !always) return this.refuse(request, this.#closed);
    const { max_steps } = this.#subject;
    if (this.#keys.size >= max_steps && !this.#keys.has(key)) {
      return this.refuse(
        request,
        new RangeError(
          `Cannot request "${key}": the run has ${max_steps} rows already: let other jobs do a part of it (callMany), ` +
            "go on in a new run (again), or raise max_steps",
        ),
      );
    }
    this.#keys.add(key);
    request.begin(this.#open.get(key));
  }

  /** What was recorded with the code that runs now. */
  #isFromHere({ code_digest }: JournalRow): boolean {
    return code_digest === this.#digest;
  }

  /** Its turn has come and gone without a request. */
  #isPassed(row: JournalRow): boolean {
    const next = this.#rows[this.#place];
    return next === undefined || row.seq < next.seq;
  }

  /** A turn that is to come keeps the process alive. */
  #nextTurn(): void {
    if (this.#posted) return;
    this.#posted = true;
    afterThisTurn(() => this.#takeTurn());
  }

  /** All that followed from the last delivery has run. */
  #takeTurn(): void {
    this.#posted = false;
    this.#turn++;
    const due = this.#takeDue();
    if (!due) return;
    this.#deliver(due);
    this.#nextTurn();
  }

  #takeDue(): Due | undefined {
    const due = this.#due.shift();
    if (due || !this.#replaying) return due;
    const row = this.#rows[this.#place];
    if (!row) return this.#endReplay();
    const request = this.#requested.get(row.key);
    if (!request) return undefined;
    this.#place++;
    return { row, request };
  }

  #endReplay(): Due | undefined {
    this.#replaying = false;
    this.#listener.onReplayed();
    for (const request of this.#deferred.splice(0)) this.#begin(request);
    return this.#due.shift();
  }

  #deliver({ row, request }: Due): void {
    this.#requested.delete(row.key);
    this.answered(row.key);
    this.now_ms = Math.max(this.now_ms, row.ended_unix_ms);
    request.deliver(row);
  }

  /** Instead of a delivery. */
  refuse(request: StepRequest, error: Error): void {
    this.answered(request.key);
    request.refuse(error);
  }

  /** A request of this key was delivered, refused, or answered without a row. */
  answered(key: string): void {
    const name = this.#name_of.get(key) as string;
    const left = this.#undelivered.get(name);
    if (left && --left.count === 0) this.#undelivered.delete(name);
  }
}
