/**
 * What a run said, wherever its lines are: in Postgres, or in the archive to which its `log_ref` leads (archive/log_ref.ts). For the page, the
 * API and the command line, which see no difference.
 *
 * Lines may move between two questions. They and the log_ref change in one transaction, so whoever read lines and then finds the log_ref as it
 * was has missed none; else the reading begins anew.
 */
import { type Archive, ArchiveError } from "../archive/archive.ts";
import { type LogPart, nameWithin, parseLogRef } from "../archive/log_ref.ts";
import { MOST_PACKED_BYTES, unpackLines } from "../archive/members.ts";
import type { Db } from "../postgres/connection.ts";
import { readLogRef } from "../runs/retention/log_retention.ts";
import { type LogLineView, readLogs, readLogTail } from "../runs/run_logs.ts";

/** Lines are there, and could not be read: which run's, where they are, why, and what to do. */
export class LogUnreadable extends Error {
  override name = "LogUnreadable";

  constructor(readonly job_run_id: number, why: string, readonly fix: string) {
    super(`Cannot read the log of run ${job_run_id}: ${why}`);
  }
}

/** So often lines may move away while they are read; the last answer is then given as it is. */
const MOST_TRIES = 5;

export class RunLog {
  readonly #sql: Db;
  readonly #archive: Archive | undefined;
  readonly #id: number;
  #log_ref: string | null;
  /** The part that was read last: a reader of pages comes by it several times. */
  #latest: { part: string; lines: LogLineView[] } | undefined;

  constructor(on: { sql: Db; archive: Archive | undefined }, run: { id: number; log_ref: string | null }) {
    this.#sql = on.sql;
    this.#archive = on.archive;
    this.#id = run.id;
    this.#log_ref = run.log_ref;
  }

  /** The day on which lines of it were deleted for good, "2026-11-22"; undefined: none were. */
  get deleted_on(): string | undefined {
    return parseLogRef(this.#log_ref).deleted_on;
  }

  /** The lines after line `after` (0: from the first), oldest first. @throws LogUnreadable */
  async read(page: { after: number; most: number }): Promise<LogLineView[]> {
    return await this.#steady(async (parts) => {
      const lines: LogLineView[] = [];
      for (const part of parts) {
        if (part.last_id <= page.after || lines.length >= page.most) continue;
        lines.push(...(await this.#linesOf(part)).filter(({ id }) => id > page.after));
      }
      const most = page.most - lines.length;
      const after = lines.at(-1)?.id ?? page.after;
      return most > 0 ? [...lines, ...await readLogs(this.#sql, this.#id, { after, most })] : lines.slice(0, page.most);
    });
  }

  /** The last lines, oldest first. @throws LogUnreadable */
  async readTail(most: number): Promise<LogLineView[]> {
    return await this.#steady(async (parts) => {
      let lines = await readLogTail(this.#sql, this.#id, most);
      for (const part of parts.toReversed()) {
        if (lines.length >= most) break;
        lines = [...await this.#linesOf(part), ...lines];
      }
      return lines.slice(-most);
    });
  }

  async #steady(read: (parts: LogPart[]) => Promise<LogLineView[]>): Promise<LogLineView[]> {
    for (let tries = 1;; tries++) {
      const lines = await read(parseLogRef(this.#log_ref).parts);
      const log_ref = await readLogRef(this.#sql, this.#id);
      if (log_ref === this.#log_ref || tries === MOST_TRIES) return lines;
      this.#log_ref = log_ref;
    }
  }

  async #linesOf(part: LogPart): Promise<LogLineView[]> {
    const key = JSON.stringify(part);
    if (this.#latest?.part !== key) this.#latest = { part: key, lines: await this.#fetch(part) };
    return this.#latest.lines;
  }

  async #fetch(part: LogPart): Promise<LogLineView[]> {
    const { object, first_byte: first, last_byte: last } = part;
    const name = this.#archive && nameWithin(this.#archive.place, part);
    if (!this.#archive || !name) throw this.#elsewhere(object);
    if (last < first || last - first >= MOST_PACKED_BYTES) {
      throw new LogUnreadable(
        this.#id,
        `its log_ref names bytes ${first} to ${last} of ${object}`,
        "that is no part that was written: correct job_run.log_ref",
      );
    }
    try {
      return await unpackLines(await this.#archive.read(name, { first, last }), this.#id);
    } catch (error) {
      const { message, fix } = error as Error & { fix?: string };
      if (error instanceof ArchiveError) throw new LogUnreadable(this.#id, lowered(message), fix ?? "");
      throw new LogUnreadable(
        this.#id,
        `bytes ${first} to ${last} of ${object}: ${message}`,
        "put the object back as it was, from a copy",
      );
    }
  }

  #elsewhere(object: string): LogUnreadable {
    const where = `its lines are in ${object}`;
    if (!this.#archive) {
      return new LogUnreadable(
        this.#id,
        `${where}, and no archive is configured here`,
        "set SCHEDULER_ARCHIVE as for the workers",
      );
    }
    return new LogUnreadable(
      this.#id,
      `${where}, and the archive of this process is ${this.#archive.place}`,
      "set SCHEDULER_ARCHIVE as for the workers, or move the objects and correct job_run.log_ref (docs/retention.md)",
    );
  }
}

function lowered(message: string): string {
  return message.charAt(0).toLowerCase() + message.slice(1);
}
