/** Runs that ended long ago with lines, a leader's part that moves them, and archives to move them to. */
import assert from "node:assert/strict";
import type { Archive } from "../../src/archive/archive.ts";
import { openArchive } from "../../src/archive/open_archive.ts";
import type { ArchivePlace } from "../../src/platform/config.ts";
import { moveOldLogs } from "../../src/leader/retention/log_retention.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import { acquire, type Term } from "../../src/nodes/leadership.ts";
import { DEFAULT_SETTINGS, type Settings } from "../../src/settings/settings.ts";
import { aDefinition, aRun } from "./factories.ts";
import { type FakeS3, KEY_ID, SECRET } from "./fake_s3.ts";

export const DAY_MS = 86_400_000;
export const EVIL = `\u001b[31m<script>alert(1)</script>\u0000"`;

/** Ended so many days ago, with these lines; in the order of the calls, as runs are created. */
export async function anEndedRun(
  sql: Sql,
  { days, lines, ...columns }: { days: number; lines: readonly string[]; job_definition_id?: number; bulk_id?: number },
): Promise<number> {
  const job_definition_id = columns.job_definition_id ?? (await aDefinition(sql)).id;
  const at = new Date(Date.now() - days * DAY_MS);
  const { id } = await aRun(sql, {
    ...columns,
    job_definition_id,
    state: "SUCCEEDED",
    created_at: at,
    scheduled_for: at,
    finished_at: at,
  });
  await say(sql, id, lines);
  return id;
}

/** More lines of a run. */
export async function say(sql: Sql, job_run_id: number, lines: readonly string[]): Promise<void> {
  await sql`
    insert into job_run_log (job_run_id, attempt, at, level, message, fields)
    select ${job_run_id}, 1, '2026-01-02 03:04:05.678901Z', 'info', replace(line, chr(1), ''), '{"n": 12345678901234567890}'
      from unnest(${[...lines]}::text[]) line`;
}

export async function leads(sql: Sql): Promise<Term> {
  const term = await acquire(sql, { worker_id: "leader", lease_ms: 600_000, epoch_hint: 0 });
  assert(term);
  return term;
}

/** Piece by piece, until nothing is left to move. Gives how many old runs stay for want of an archive. */
export async function moveAll(
  on: { sql: Sql; term: Term; archive?: Archive },
  settings: Partial<Settings> = {},
): Promise<number> {
  for (let after = 0;;) {
    const { went_to, kept } = await moveOldLogs({ ...on, settings: { ...DEFAULT_SETTINGS, ...settings } }, after);
    if (went_to === null) return kept;
    after = went_to;
  }
}

export function bucketOf(s3: FakeS3): ArchivePlace {
  const { endpoint, region } = s3;
  const keys = { key_id: KEY_ID, secret: SECRET, session_token: undefined };
  return { kind: "bucket", bucket: "logs", prefix: "dandori/old", endpoint, region, ...keys };
}

export function archiveAt(place: ArchivePlace): Archive {
  return openArchive(place) as Archive;
}

/** Every object of a folder, by its name; a draft (`.new`) is none yet, and may be gone when it is read. */
export async function objectsIn(dir: string): Promise<Map<string, Uint8Array<ArrayBuffer>>> {
  const found = new Map<string, Uint8Array<ArrayBuffer>>();
  for await (const day of Deno.readDir(dir)) {
    for await (const { name } of Deno.readDir(`${dir}/${day.name}`)) {
      if (!name.endsWith(".new")) found.set(`${day.name}/${name}`, await Deno.readFile(`${dir}/${day.name}/${name}`));
    }
  }
  return found;
}

export async function linesInPostgres(sql: Sql): Promise<number> {
  const [row] = await sql<{ n: number }[]>`select count(*)::int as n from job_run_log`;
  return row?.n ?? -1;
}
