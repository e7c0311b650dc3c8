/** A run that a worker has, what its body writes, and what is sent to it: for tests of journals. */
import type { Sql } from "../../src/postgres/connection.ts";
import { commitSteps, type CommittedRun, type StepWrite } from "../../src/steps/run_steps.ts";
import { aRun, type RunRow } from "./factories.ts";

const WORKER = "w-of-nobody"; // as factories.ts has it

export type Owned = Pick<StepWrite, "job_run_id" | "attempt" | "start_token">;

/** A run that is RUNNING. */
export async function anOwnedRun(sql: Sql, columns: Record<string, unknown> = {}): Promise<RunRow & Owned> {
  const run = await aRun(sql, { state: "RUNNING", ...columns });
  return { ...run, job_run_id: run.id, start_token: run.start_token as string };
}

/** One write; the kind is in the key. Ended, it has a position. */
export function aWrite(run: Owned, key: string, more: Partial<StepWrite> = {}): StepWrite {
  const { job_run_id, attempt, start_token } = run;
  const kind = key.replace(/^(\[.*\])/, "").split(":")[0] as StepWrite["kind"];
  const state = more.state ?? (more.seq === undefined ? "WAITING" : "DONE");
  return { job_run_id, attempt, start_token, code_digest: "c0de", key, kind, state, tries: 1, ...more };
}

/** Writes of one worker. */
export async function write(sql: Sql, ...writes: StepWrite[]): Promise<CommittedRun[]> {
  return await commitSteps(sql, WORKER, writes);
}
