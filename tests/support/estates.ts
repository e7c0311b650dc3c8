/** The journal of a dead worker, and what it takes to be its recovering worker. */
import assert from "node:assert/strict";
import { type FactName, hear } from "../../src/platform/facts.ts";
import type { JournalRecoverer } from "../../src/worker/results/journal_recovery.ts";
import { fileNameOf, type Identity, journalsFolder, ResultJournal } from "../../src/worker/results/result_journal.ts";
import type { Ending } from "../../src/runs/finished_runs.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import { aRun, aWorker } from "./factories.ts";
import type { Stores } from "./stores.ts";

/** No host of this machine. */
export const HOST = "00000000-1111-2222-3333-444444444444.4026531836";
/** No process has a pid beyond 2^22. */
export const DEAD: Identity = { worker_id: "w9-00000009", pid: 5_000_000, process_started: "99999999999", host: HOST };

export interface EstateScene {
  state_dir: string;
  path: string;
  facts: { name: FactName; fact: Record<string, unknown> }[];
}

export async function withFolder(test: (scene: EstateScene) => Promise<void> | void, me = DEAD): Promise<void> {
  const state_dir = await Deno.makeTempDir({ prefix: "dandori-spool-" });
  const facts: EstateScene["facts"] = [];
  const silence = hear((name, fact) => facts.push({ name, fact }));
  try {
    await test({ state_dir, path: `${journalsFolder(state_dir)}/${fileNameOf(me)}`, facts });
  } finally {
    silence();
    await Deno.remove(state_dir, { recursive: true });
  }
}

export const endingOf = (job_run_id: number, more: Partial<Ending> = {}): Ending => ({
  job_run_id,
  attempt: 1,
  start_token: `token-${job_run_id}`,
  outcome: "SUCCEEDED",
  exit_code: 0,
  error_name: null,
  error_summary: null,
  result: { done: job_run_id },
  retry_max: 0,
  retry_after_ms: 0,
  other_node: false,
  ...more,
});

/** Its journal, as that worker has it. */
export function opened(state_dir: string, me = DEAD): ResultJournal {
  const journal = new ResultJournal(state_dir, me);
  journal.open();
  return journal;
}

export const said = (facts: EstateScene["facts"], name: FactName) => facts.filter((one) => one.name === name);

/** A dead worker's row, its runs in these states, and its file with an outcome for each. */
export async function anEstate(
  { sql }: Stores,
  { state_dir, path }: EstateScene,
  states: Record<string, unknown>[],
  me = DEAD,
): Promise<number[]> {
  const { worker_id, pid, process_started, host } = me;
  await aWorker(sql, { worker_id, pid, process_started, host });
  const journal = opened(state_dir, me);
  const ids: number[] = [];
  for (const columns of states) {
    const run = await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id, ...columns });
    journal.keep(endingOf(run.id, { start_token: run.start_token ?? "gone" }));
    ids.push(run.id);
  }
  journal.close(false);
  assert(Deno.statSync(path).size > 0);
  return ids;
}

export const anHeir = (sql: Sql, state_dir: string): JournalRecoverer => ({
  sql,
  worker_id: "w10-0000000a",
  state_dir,
  told: new Set<string>(),
});
