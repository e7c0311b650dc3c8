/** The jobs folder of `dev`: synced at the start and after each change. A broken file is told of, and stops nothing. */
import { relative } from "node:path";
import { every, rest } from "../platform/timers.ts";
import { messageOf } from "../platform/text.ts";
import { reportText } from "../sync/plan_text.ts";
import { sync, type SyncParts, type SyncReport } from "../sync/sync.ts";
import { typeWarnings } from "../sync/type_check.ts";
import { isUnreachable } from "../postgres/connection.ts";

export interface JobsOptions {
  stop: AbortSignal;
  say(text: string): void;
}

/** What is known from one sync to the next. */
export interface SyncMemory {
  /** Nobody else uses it: whatever the folder says holds. */
  own_database: boolean;
  /** The last sync that left what this folder says. */
  synced_id?: number | null;
}

interface SyncJobsOptions extends JobsOptions {
  memory: SyncMemory;
  always?: boolean;
}

/** Editors write in several steps; a sync waits until nothing has changed from one look to the next. */
const LOOK_GAP_MS = 200;
const LOOK_AGAIN_MS = 1_000;

/** Syncs once and says what changed. Nothing is said when nothing did, unless `always`. Postgres is waited for. */
export async function syncJobs(parts: SyncParts, on: SyncJobsOptions): Promise<void> {
  try {
    await syncOnce(parts, on);
  } catch (error) {
    on.say(`cannot sync: ${messageOf(error)}`);
    if (!isUnreachable(error) || on.stop.aborted) return;
    await rest(LOOK_AGAIN_MS, on.stop);
    if (!on.stop.aborted) await syncJobs(parts, on);
  }
}

/**
 * Who edits here removes files and undoes changes, and is not asked. But in a database that others use as well the files may be those of an
 * old checkout: there it is so only as long as the last sync of all is one of this folder.
 */
async function syncOnce(parts: SyncParts, on: SyncJobsOptions): Promise<void> {
  const { memory } = on;
  const confirm = ({ last_sync }: SyncReport) =>
    Promise.resolve(memory.own_database || (last_sync !== null && last_sync.id === memory.synced_id));
  const report = await sync(parts, { mode: "apply", confirm });
  if (report.problems.length === 0 && (report.applied || !report.drift)) memory.synced_id = report.sync_id;
  const silent = report.problems.length === 0 && !report.drift && !on.always;
  if (!silent) on.say(reportText(report, { color: false, folder: relative(parts.project_dir, parts.jobs_dir) }));
  if (report.plan && !on.stop.aborted) {
    for (const warning of await typeWarnings({ ...parts, stop: on.stop }, report.plan)) on.say(`! ${warning}`);
  }
}

/**
 * Calls `changed` after each change below the jobs folder or of deno.json, whose packages jobs import, one call at a time, until
 * `stop`. It looks by itself: Deno.watchFs opens each new file, and a pipe among them stops that, and whoever closes the watcher, for good.
 */
export async function watchJobs(
  { jobs_dir, project_dir }: Pick<SyncParts, "jobs_dir" | "project_dir">,
  on: JobsOptions & { changed(): Promise<void> },
): Promise<void> {
  const look = () => {
    const below = stateOf(jobs_dir);
    return below === undefined ? undefined : below + lineOf(`${project_dir}/deno.json`);
  };
  let known = look();
  let settled = true;
  await every(LOOK_GAP_MS, async () => {
    const now = look();
    if (now === undefined && known !== undefined) on.say(`there is no folder ${jobs_dir}; it is looked for`);
    if (now !== known) settled = false;
    else if (!settled && now !== undefined) {
      settled = true;
      await on.changed();
    }
    known = now;
  }, { name: "watching the jobs folder", stop: on.stop });
}

/** The names of all that is below a folder, each with its times and size. Undefined: it is not there. At once: awaited, it takes ten times the CPU. */
function stateOf(folder: string): string | undefined {
  const lines: string[] = [];
  try {
    for (const { name, isDirectory } of Deno.readDirSync(folder)) {
      if (name === "node_modules" || name === ".git") continue;
      const path = `${folder}/${name}`;
      lines.push(lineOf(path) + (isDirectory ? stateOf(path) : ""));
    }
  } catch (error) {
    return error instanceof Deno.errors.NotFound ? undefined : messageOf(error);
  }
  return lines.sort().join();
}

/** What is not there, or was removed meanwhile, has no times: the next look sees that. */
function lineOf(path: string): string {
  try {
    const { mtime, ctime, size, ino } = Deno.lstatSync(path);
    return JSON.stringify([path, mtime, ctime, size, ino]);
  } catch {
    return JSON.stringify([path]);
  }
}
