/** The jobs folder of `dev`: synced at the start and after each change. A broken file is told of, and stops nothing. */
import { relative } from "node:path";
import { Bell, rest } from "../base/loop.ts";
import { messageOf } from "../base/text.ts";
import { reportText } from "../catalog/plan_text.ts";
import { sync, type SyncParts } from "../catalog/sync.ts";
import { isUnreachable } from "../store/db.ts";

export interface JobsOptions {
  stop: AbortSignal;
  say(text: string): void;
}

/** Editors write in several steps; a sync waits until this long after the last of them. */
const SETTLE_MS = 150;
const LOOK_AGAIN_MS = 1_000;
const NO_CHANGE_MS = 3_600_000;

/** Syncs once and says what changed. Nothing is said when nothing did, unless `always`. Postgres is waited for. */
export async function syncJobs(parts: SyncParts, on: JobsOptions & { always?: boolean }): Promise<void> {
  try {
    await syncOnce(parts, on);
  } catch (error) {
    on.say(`cannot sync: ${messageOf(error)}`);
    if (!isUnreachable(error) || on.stop.aborted) return;
    await rest(LOOK_AGAIN_MS, on.stop);
    if (!on.stop.aborted) await syncJobs(parts, on);
  }
}

async function syncOnce(parts: SyncParts, on: JobsOptions & { always?: boolean }): Promise<void> {
  const report = await sync(parts, { mode: "apply" });
  const silent = report.problems.length === 0 && !report.drift && !on.always;
  if (!silent) on.say(reportText(report, { color: false, folder: relative(parts.project_dir, parts.jobs_dir) }));
}

/** Calls `changed` after each change below `folder`, one call at a time, until `stop`. */
export async function watchJobs(folder: string, on: JobsOptions & { changed(): Promise<void> }): Promise<void> {
  const bell = new Bell();
  let dirty = false;
  const touched = () => {
    dirty = true;
    bell.ring();
  };
  const watching = watchFolder(folder, on, touched);
  while (!on.stop.aborted) {
    await bell.rest(NO_CHANGE_MS, on.stop);
    if (!dirty) continue;
    while (dirty && !on.stop.aborted) {
      dirty = false;
      await rest(SETTLE_MS, on.stop);
    }
    if (!on.stop.aborted) await on.changed();
  }
  await watching;
}

/** A folder that is removed, as by a checkout of another branch, is watched again once it is back. */
async function watchFolder(folder: string, { stop, say }: JobsOptions, touched: () => void): Promise<void> {
  while (!stop.aborted) {
    try {
      await watchOnce(folder, stop, touched);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) {
        return say(
          `cannot watch ${folder}: ${messageOf(error)}; after a change, run sync`,
        );
      }
      say(`there is no folder ${folder}; it is looked for`);
    }
    while (!stop.aborted && !isFolder(folder)) await rest(LOOK_AGAIN_MS, stop);
    await rest(LOOK_AGAIN_MS, stop);
    if (!stop.aborted) touched();
  }
}

async function watchOnce(folder: string, stop: AbortSignal, touched: () => void): Promise<void> {
  using watcher = Deno.watchFs(folder);
  const close = () => watcher.close();
  stop.addEventListener("abort", close);
  try {
    for await (const { kind, paths } of watcher) {
      if (kind !== "access") touched();
      if (kind === "remove" && paths.includes(folder)) return;
    }
  } finally {
    stop.removeEventListener("abort", close);
  }
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
}
