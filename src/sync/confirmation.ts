/** What a sync does only when somebody says that it is meant: jobs that go, and code that is older than what is stored. */
import { counted } from "../platform/text.ts";
import type { Checkout, SyncView } from "../definitions/syncs.ts";
import type { Plan } from "./plan.ts";

/** Why somebody must say so, each in a few words; empty: nobody must. */
export function whyAsk(
  { added, changed, removed }: Plan,
  { checkout, last_sync }: { checkout: Checkout; last_sync: SyncView | null },
): string[] {
  const back = changed.filter(({ goes_back }) => goes_back);
  const why = [
    ...(removed.length > 0 ? [`${counted(removed.length, "job")} would be removed: ${namesText(removed)}`] : []),
    ...(back.length > 0 ? [`${counted(back.length, "job")} would go back to older code: ${namesText(back)}`] : []),
  ];
  const older = added.length + changed.length > 0 && isOlder(checkout, last_sync);
  if (older) why.push(`this checkout is older than what is stored, which was ${syncText(last_sync as SyncView)}`);
  return why;
}

/** By the commits' own times: an old checkout does not know the newer commit. */
function isOlder({ committed_at }: Checkout, last_sync: SyncView | null): boolean {
  const stored_at = last_sync?.committed_at ?? null;
  return committed_at !== null && stored_at !== null && committed_at < stored_at;
}

/** "synced 3 h ago from commit 1a2b3c4 by cli:ann on web-1" */
export function syncText(sync: Omit<SyncView, "id" | "synced_at" | "committed_at">): string {
  const { age_seconds, git_commit, git_dirty, synced_by, machine } = sync;
  return [
    `synced ${agoText(age_seconds)}`,
    ...(git_commit === null ? [] : [`from ${commitText({ git_commit, git_dirty })}`]),
    `by ${synced_by} on ${machine}`,
  ].join(" ");
}

/** "commit 1a2b3c4 with changes" */
export function commitText({ git_commit, git_dirty }: Pick<SyncView, "git_commit" | "git_dirty">): string {
  if (git_commit === null) return "no git commit";
  return `commit ${git_commit.slice(0, SHOWN_COMMIT)}${git_dirty ? " with changes" : ""}`;
}

const SHOWN_COMMIT = 10;

function agoText(seconds: number): string {
  for (const [length, unit] of [[86_400, "d"], [3_600, "h"], [60, "min"]] as const) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit} ago`;
  }
  return seconds < 10 ? "just now" : `${Math.floor(seconds)} s ago`;
}

const NAMES_SHOWN = 10;

function namesText(jobs: { name: string }[]): string {
  const names = jobs.slice(0, NAMES_SHOWN).map(({ name }) => name).join(", ");
  return jobs.length > NAMES_SHOWN ? `${names} and ${jobs.length - NAMES_SHOWN} more` : names;
}
