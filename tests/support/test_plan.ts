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
  cut_off: 67,
  "chaos/stress": 60,
  "chaos/failpoints_seat": 56,
  obituary: 50,
  drill: 46,
  "chaos/failpoints_stale_leader": 45,
  "chaos/failpoints_farewell": 44,
  dev_services: 40,
  tls_rotation: 35,
  dev: 35,
  nodes: 35,
  pages_load: 30,
  run_search: 25,
  redis_loss: 25,
  leader_loss: 25,
  core_loss: 25,
  "chaos/live": 25,
  "chaos/failpoints_logs": 25,
  rolling_restart: 20,
  plans: 20,
  queue: 20,
  sandbox_guard: 20,
  detach_process: 18,
  retention_process: 15,
  db: 15,
  executor: 15,
  leader: 12,
  hand: 12,
  limits: 12,
  kept: 12,
  fencing: 10,
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

/** In whatever of these folders it stands. */
export function nameOf(path: string): string {
  return path.replace(/^tests\/((unit|store|process|browser)\/)?|_test\.ts$/g, "");
}
