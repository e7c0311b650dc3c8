/**
 * Moves the log lines of runs that ended long ago out of Postgres, into an archive (setting log_retention_days_db; runs/retention/log_retention.ts).
 *
 *   find runs -> read their lines -> pack, a gzip member for each run -> write one object, durably
 *     -> under the term: say in log_ref where each run's lines are, and delete exactly those, in one statement
 *
 * No line is ever lost, and none is there twice for a reader, wherever this stops. Before the object is written whole, nothing has changed. After
 * it is written, and until a statement commits, the lines are in Postgres alone for all who read, and the object is one that nobody
 * refers to: at most that is left behind. Its name is made of chance, so the next leader writes another one. The statement does both things or
 * neither, and only to lines that are still as they were read. A leader whose term is over, and that goes on because it was frozen, writes
 * its object and is refused by the fence; should it have been in time, the new leader finds the lines gone, or its own statement does.
 *
 * Beside the tick, which does not wait for it; each statement moves few lines (milliseconds), for which at most an election waits. What takes
 * turns with it, and how long it rests: retention.ts. Which runs were looked at is not stored: who leads next begins with the oldest again.
 */
import type { Archive } from "../../archive/archive.ts";
import { type LogPart, objectName, withDeleted, withPart } from "../../archive/log_ref.ts";
import { packLines } from "../../archive/members.ts";
import { observe } from "../../platform/facts.ts";
import { failpoint } from "../../platform/failpoint.ts";
import {
  findOldLogs,
  MOST_LINES,
  type MovedLines,
  moveLines,
  type OldLine,
  type OldRun,
  readOldLines,
} from "../../runs/retention/log_retention.ts";
import type { LeaderContext } from "../leader_context.ts";

/** Of a piece: where it is full it is written, so that an object has a few MiB and memory is not filled. */
const MOST_OBJECT_BYTES = 4 * 1024 * 1024;
const MOST_OBJECT_LINES = 20_000;
/** Of one statement. */
const MOST_RUNS = 200;

type Moving = Pick<LeaderContext, "sql" | "term" | "settings" | "archive">;

/** One piece: lines of some runs after run `after`. It goes on after `went_to`; null: that was all. `kept`: old runs for which there is no archive. */
export async function moveOldLogs(me: Moving, after: number): Promise<{ went_to: number | null; kept: number }> {
  const { log_retention_days_db: days, old_logs } = me.settings;
  if (days === 0) return { went_to: null, kept: 0 };
  const { runs, looked_to, day } = await findOldLogs(me.sql, { after, days });
  if (runs.length > 0 && old_logs === "archive" && !me.archive) return { went_to: null, kept: runs.length };
  return { went_to: await new Mover(me, day).move(runs) ?? looked_to, kept: 0 };
}

/** A run's lines, packed. */
interface Packed extends Omit<MovedLines, "log_ref" | "was"> {
  bytes: Uint8Array;
}

/** One piece of work: lines of some runs, into one object or away. */
class Mover {
  readonly #me: Moving;
  readonly #archive: Archive | undefined;
  readonly #day: string;
  #packed: Packed[] = [];
  #bytes = 0;
  #lines = 0;

  constructor(me: Moving, day: string) {
    this.#me = me;
    this.#archive = me.settings.old_logs === "delete" ? undefined : me.archive;
    this.#day = day;
  }

  /** As many as one object holds; the run after which it goes on, or undefined when it moved them all. */
  async move(runs: OldRun[]): Promise<number | undefined> {
    const refs = new Map(runs.map(({ job_run_id, log_ref }) => [job_run_id, log_ref]));
    for (const group of groupsOf(runs)) {
      const whole = await this.#pack(group);
      if (whole && !this.#full) continue;
      await this.#flush(refs);
      const last = group.at(-1)?.job_run_id ?? 0;
      return whole ? last : last - 1; // the rest of a long run in the next piece
    }
    await this.#flush(refs);
  }

  get #full(): boolean {
    return this.#bytes >= MOST_OBJECT_BYTES || this.#lines >= MOST_OBJECT_LINES || !this.#me.term.trusted;
  }

  /** False: the object is full, and the run, of more lines than are read at once, has more. */
  async #pack(group: OldRun[]): Promise<boolean> {
    const job_run_ids = group.map(({ job_run_id }) => job_run_id);
    for (let after = 0;;) {
      const lines = await readOldLines(this.#me.sql, { job_run_ids, after });
      for (const of_run of Map.groupBy(lines, ({ job_run_id }) => job_run_id).values()) await this.#add(of_run);
      const long = group.length === 1 && lines.length === MOST_LINES;
      if (!long) return true;
      if (this.#full) return false;
      after = lines.at(-1)?.id as number;
    }
  }

  async #add(lines: OldLine[]): Promise<void> {
    const [first, last] = [lines[0] as OldLine, lines.at(-1) as OldLine];
    const bytes = this.#archive ? await packLines(lines.map(({ text }) => text)) : new Uint8Array();
    this.#packed.push({
      job_run_id: first.job_run_id,
      first_id: first.id,
      last_id: last.id,
      lines: lines.length,
      bytes,
    });
    this.#bytes += bytes.length;
    this.#lines += lines.length;
  }

  async #flush(refs: Map<number, string | null>): Promise<void> {
    const [first] = this.#packed;
    if (!first || !this.#me.term.trusted) return;
    const name = objectName(this.#day, first.job_run_id);
    const archive = this.#archive;
    if (archive) {
      await failpoint("before-archive-write");
      await archive.put(name, joined(this.#packed.map(({ bytes }) => bytes)));
      await failpoint("after-archive-write");
    }
    const moved = movedFrom(
      this.#packed,
      refs,
      (was, part) =>
        archive ? withPart(was, { ...part, object: `${archive.place}/${name}` }) : withDeleted(was, this.#day),
    );
    const done = { runs: 0, lines: 0 };
    for (const statement of statementsOf(moved)) {
      if (!this.#me.term.trusted) break; // the next leader finds them where they are
      const { runs, lines } = await moveLines(this.#me.sql, this.#me.term, statement);
      done.runs += runs;
      done.lines += lines;
    }
    if (archive) observe("logs.archived", { ...done, bytes: this.#bytes, object: `${archive.place}/${name}` });
    else observe("logs.deleted", done);
  }
}

/** Runs whose lines are read together: of so many lines at most, or one run that has more. */
function groupsOf(runs: OldRun[]): OldRun[][] {
  const groups: OldRun[][] = [];
  let room = 0;
  for (const run of runs) {
    if (run.lines > room || !groups.at(-1)) {
      groups.push([]);
      room = MOST_LINES;
    }
    groups.at(-1)?.push(run);
    room -= run.lines;
  }
  return groups;
}

function movedFrom(
  packed: Packed[],
  refs: Map<number, string | null>,
  refOf: (was: string | null, part: Omit<LogPart, "object">) => string,
): MovedLines[] {
  let from = 0;
  return packed.map(({ bytes, ...lines }) => {
    const was = refs.get(lines.job_run_id) ?? null;
    const { first_id, last_id } = lines;
    const log_ref = refOf(was, { first_byte: from, last_byte: from + bytes.length - 1, first_id, last_id });
    refs.set(lines.job_run_id, log_ref);
    from += bytes.length;
    return { ...lines, was, log_ref };
  });
}

/** Each with few lines, and no run twice. */
function statementsOf(moved: MovedLines[]): MovedLines[][] {
  const statements: MovedLines[][] = [];
  let lines = Infinity;
  for (const one of moved) {
    const open = statements.at(-1);
    lines += one.lines;
    if (open && lines <= MOST_LINES && open.length < MOST_RUNS && open.at(-1)?.job_run_id !== one.job_run_id) {
      open.push(one);
      continue;
    }
    statements.push([one]);
    lines = one.lines;
  }
  return statements;
}

function joined(pieces: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let from = 0;
  for (const piece of pieces) {
    whole.set(piece, from);
    from += piece.length;
  }
  return whole;
}
