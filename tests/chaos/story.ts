/** A small cluster's history, made step by step by the production statements, for tests of the checker to spoil. */
import assert from "node:assert/strict";
import { createRuns } from "../../src/runs/create_runs.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import { acquire, type Term } from "../../src/nodes/leadership.ts";
import { assignRuns, finishRuns, startRuns } from "../../src/runs/states.ts";
import { suspendRuns } from "../../src/steps/suspend_runs.ts";
import { aDefinition, aWorker } from "../support/factories.ts";
import { withStores } from "../support/stores.ts";
import type { Effect, Evidence } from "./checker.ts";
import { installHistory } from "./history.ts";

export const WORKER = "w1-0000000a";

export interface Story {
  sql: Sql;
  term: Term;
  evidence: Evidence & { new_runs: string[] };
  /** A run that was enqueued. */
  created(columns?: { serial_key?: string }): Promise<number>;
  /** PENDING, SUSPENDED, RETRYING or ORPHANED -> ASSIGNED -> RUNNING, with a body that lasts 10 ms. */
  started(id: number): Promise<Effect>;
  /** RUNNING -> SUSPENDED. */
  suspended(body: Effect): Promise<void>;
  /** What it must show to write steps. */
  tokenOf(body: Effect): string;
  /** RUNNING -> its end, or RETRYING. */
  ended(body: Effect, outcome?: "SUCCEEDED" | "FAILED", retry_max?: number): Promise<void>;
}

/** A cluster of one worker that leads, and nothing done yet. */
export function withStory(test: (story: Story) => Promise<void>): Promise<void> {
  return withStores(async ({ sql }) => {
    await installHistory(sql);
    await aWorker(sql, { worker_id: WORKER });
    const definition = await aDefinition(sql, { name: "job", max_retries: 2 });
    const term = await acquire(sql, { worker_id: WORKER, lease_ms: 60_000, epoch_hint: 0 }) as Term;
    const evidence: Story["evidence"] = {
      effects: [],
      new_runs: [],
      only_these_new_runs: true,
      leader_lease_ms: 1_000,
      worker_lease_ms: 5_000,
    };
    const tokens = new Map<number, string>();
    const story: Story = {
      sql,
      term,
      evidence,
      async created(columns = {}) {
        const key = `k${evidence.new_runs.length}`;
        evidence.new_runs.push(`enqueue:${definition.id}:${key}`);
        const [run] = await createRuns(sql, [{ job_name: "job", args: {}, idempotency_key: key, ...columns }]);
        return run?.job_run_id as number;
      },
      async started(id) {
        const [row] = await sql`update job_run set held = false, wakes_at = null where id = ${id} returning version`;
        const [mine] = await assignRuns(sql, term, [{ job_run_id: id, version: row?.version, worker_id: WORKER }]);
        const token = crypto.randomUUID();
        const orders = [{ job_run_id: id, attempt: mine?.attempt as number, token, digest: "digest" }];
        const [run] = await startRuns(sql, { worker_id: WORKER, epoch: term.epoch }, orders);
        assert(run);
        tokens.set(run.fence, token);
        const at_ms = 110 * evidence.effects.length + 100;
        const body: Effect = {
          job_run_id: id,
          attempt: run.attempt,
          fence: run.fence,
          worker_id: WORKER,
          ...{ started_ms: at_ms, ended_ms: at_ms + 10 },
        };
        evidence.effects.push(body);
        return body;
      },
      tokenOf: ({ fence }) => tokens.get(fence) as string,
      async suspended({ job_run_id, attempt, fence }) {
        const one = { job_run_id, attempt, start_token: tokens.get(fence) as string, wakes: 0, wakes_in_ms: null };
        assert.deepEqual(await suspendRuns(sql, WORKER, [one]), [job_run_id]);
      },
      async ended(body, outcome = "SUCCEEDED", retry_max = 2) {
        body.outcome = outcome;
        body.retryable = true;
        const ending = {
          job_run_id: body.job_run_id,
          attempt: body.attempt,
          start_token: tokens.get(body.fence) as string,
          outcome,
          exit_code: 0,
          error_name: null,
          error_summary: null,
          result: null,
          retry_max,
          retry_after_ms: 0,
          other_node: false,
        };
        assert.equal((await finishRuns(sql, WORKER, [ending])).length, 1);
      },
    };
    await test(story);
  });
}
