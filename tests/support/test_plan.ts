/** In which order tests run, and how many at once: the longest first, so that none is waited for at the end. */
import { environment } from "../../src/platform/config.ts";
import type { Kind, TestFile } from "./kinds.ts";
import type { Batch } from "./test_runs.ts";

/** Files of processes mostly wait, for a lease to end or a program to start: two of them run in the time of one that works. */
const PLACES: Record<Kind, number> = { unit: 2, store: 2, browser: 2, process: 1, chaos: 1 };

/** What a file of a kind takes, unless it stands below. */
const USUAL_SECONDS: Record<Kind, number> = { unit: 0, store: 2, process: 4, browser: 10, chaos: 20 };

/** Those that take much longer, on an idle machine. What is said at the end of a run tells when this is no longer so. */
export const LONG_SECONDS: Record<string, number> = {
  "chaos/mistakes": 70,
  "chaos/stress": 60,
  "process/dev/dev": 60,
  "chaos/failpoints_seat": 56,
  "process/dev/drill": 46,
  "chaos/failpoints_stale_leader": 45,
  "chaos/failpoints_farewell": 44,
  "process/dev/services": 40,
  "process/cluster/tls_rotation": 40,
  "process/worker/sibling_monitor": 40,
  "process/worker/cut_off": 40,
  "browser/admin_look": 35,
  "process/admin/users": 35,
  "process/worker/worker_loss": 30,
  "process/cli/cli": 30,
  "process/cluster/redis_loss": 25,
  "browser/admin_actions": 25,
  "process/dev/fallback": 25,
  "process/dev/alerts": 25,
  "process/cluster/rpc": 25,
  "chaos/failpoints_death": 25,
  "process/sync/sync_broken": 22,
  "process/cluster/subleader": 22,
  "process/worker/planning": 20,
  "process/admin/cli": 20,
  "process/cli/nodes": 20,
  "chaos/failpoints_logs": 20,
  "process/worker/detach_process": 20,
  "process/cluster/tls_handshake": 20,
  "store/admin/pages_load": 20,
  "browser/admin_jobs": 18,
  "chaos/checker": 18,
  "chaos/live": 18,
  "process/cli/examples": 16,
  "process/sandbox/guard": 16,
  "browser/admin_proxy": 16,
  "process/cli/cli_doors": 16,
  "process/worker/leader_loss": 16,
  "store/runs/run_search": 16,
};

export function placesHere(): number {
  return 2 * Number(environment().DENO_JOBS || navigator.hardwareConcurrency + 1);
}

/** Each file in a process of its own; all that need no server in one. */
export function batchesOf(files: TestFile[]): Batch[] {
  const unit = files.filter(({ kind }) => kind === "unit").map(({ path }) => path);
  const others = files.filter(({ kind }) => kind !== "unit").toSorted((a, b) => secondsOf(b) - secondsOf(a));
  const batches = others.map(({ path, kind }): Batch => ({ name: path, files: [path], places: PLACES[kind] }));
  if (unit.length === 0) return batches;
  const name = unit.length === 1 ? unit[0] as string : `unit tests in ${unit.length} files`;
  return [{ name, files: unit, places: PLACES.unit, flags: ["--parallel", "--doc", "--deny-run"] }, ...batches];
}

function secondsOf({ path, kind }: TestFile): number {
  return LONG_SECONDS[nameOf(path)] ?? USUAL_SECONDS[kind];
}

/** Its path below tests/, without what all have. */
export function nameOf(path: string): string {
  return path.replace(/^tests\/|_test\.ts$/g, "");
}
