/** In which order tests run, and how many at once: those that wait longest first, so that none is waited for at the end. */
import { environment } from "../../src/base/config.ts";
import type { Kind, TestFile } from "./kinds.ts";
import type { Batch } from "./test_runs.ts";

/**
 * Three places for each processor, and three more: most files of processes and of faults wait, for a lease to end or for
 * a process to start. The others keep a processor busy.
 */
const PLACES: Record<Kind, number> = { unit: 3, store: 3, browser: 3, process: 2, chaos: 2 };

export function placesHere(): number {
  return Number(environment().DENO_JOBS || navigator.hardwareConcurrency + 1) * 3;
}

/** Each file in a process of its own; all that need no server in one. */
export function batchesOf(files: TestFile[]): Batch[] {
  const unit = files.filter(({ kind }) => kind === "unit").map(({ path }) => path);
  const others = files.filter(({ kind }) => kind !== "unit");
  const batches = others.map(({ path, kind }): Batch => ({ name: path, files: [path], places: PLACES[kind] }));
  if (unit.length === 0) return batches;
  const name = unit.length === 1 ? unit[0] as string : `unit tests in ${unit.length} files`;
  return [{ name, files: unit, places: PLACES.unit, flags: ["--parallel", "--doc", "--deny-run"] }, ...batches];
}
