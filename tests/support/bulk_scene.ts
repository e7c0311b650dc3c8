/** A leader's rounds over bulks, with workers that start whatever they are given and end what a test says. */
import assert from "node:assert/strict";
import { Wakeup } from "../../src/platform/timers.ts";
import { createClient } from "../../src/client.ts";
import { lookAfterBulks } from "../../src/leader/bulks.ts";
import { choose } from "../../src/leader/scheduling.ts";
import { CapacitySnapshot } from "../../src/leader/placement.ts";
import type { LeaderContext } from "../../src/leader/leader_context.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import { acquire, type Term } from "../../src/nodes/leadership.ts";
import { checkLines, hold, wake } from "../../src/runs/key_queues.ts";
import type { RunState } from "../../src/runs/run_states.ts";
import { assignRuns, cancelRequested, finishRuns, startRuns } from "../../src/runs/states.ts";
import { candidates, readDispatchSnapshot } from "../../src/dispatch/dispatch_queues.ts";
import { aDefinition, aWorker } from "./factories.ts";
import { withStores } from "./stores.ts";

const SOUND = { problem: null, checked: true, inactive_by: null, inactive_reason: null };
const ME = "w-me";

export type Client = ReturnType<typeof createClient>;

export class BulkScene {
  readonly me: LeaderContext;
  readonly sql: Sql;
  readonly term: Term;
  readonly client: Client;
  readonly database_url: string;

  constructor({ sql, term, client, database_url }: Pick<BulkScene, "sql" | "term" | "client" | "database_url">) {
    this.sql = sql;
    this.term = term;
    this.client = client;
    this.database_url = database_url;
    this.me = { sql, term, wakeup: new Wakeup() } as unknown as LeaderContext;
  }

  /** Looks after bulks until nothing of them is left to be looked at, then starts what may start. */
  async round(): Promise<void> {
    for (let again = 0; again < 10; again++) {
      await lookAfterBulks(this.me);
      await cancelRequested(this.sql, this.term);
      if ((await this.sql`select from bulk_recheck limit 1`).length === 0) break;
    }
    for (let again = 0; again < 3; again++) await this.#dispatch();
  }

  async #dispatch(): Promise<void> {
    const { sql, term } = this;
    await wake(sql, term);
    await checkLines(sql, term);
    const { lanes } = await readDispatchSnapshot(sql);
    const found = await candidates(sql, lanes.map((queue) => ({ ...queue, most: 500 })));
    await hold(sql, term, found.filter((run) => run.behind).map((run) => run.job_run_id));
    const place = { worker_id: ME, node_id: "here", free: 1_000, idle: 1_000, line_ms: 0, load: 0, ahead: 0 };
    const node = {
      node_id: "here",
      is_active: true,
      status: "available" as const,
      labels: {},
      max_concurrent: null,
      left_behind: 0,
      ...SOUND,
    };
    const capacity = new CapacitySnapshot({
      hosts: [{ node, load: 0, free: 1_000, places: [place], staff: [ME] }],
    });
    const open = lanes.map((queue) => ({ queue, room: 1_000 }));
    const assigned = await assignRuns(sql, term, choose(found.filter((run) => !run.behind), open, capacity));
    const orders = assigned.map(({ job_run_id, attempt }) => ({ job_run_id, attempt, token: "t", digest: "digest" }));
    await startRuns(sql, { worker_id: ME, epoch: term.epoch }, orders);
  }

  async running(bulk_id: number): Promise<number[]> {
    return await this.runs(bulk_id, ["RUNNING"]);
  }

  async runs(bulk_id: number, states: RunState[]): Promise<number[]> {
    const rows = await this.sql<{ id: number }[]>`
      select id from job_run where bulk_id = ${bulk_id} and state = any(${states}) order by id`;
    return rows.map(({ id }) => id);
  }

  /** Ends `count` of its running runs, the first ones. */
  async end(
    bulk_id: number,
    count: number,
    outcome: "SUCCEEDED" | "FAILED" | "TIMED_OUT" = "SUCCEEDED",
    retry_max = 0,
  ): Promise<void> {
    const rows = await this.sql<{ job_run_id: number; attempt: number }[]>`
      select id as job_run_id, attempt from job_run where bulk_id = ${bulk_id} and state = 'RUNNING' order by id limit ${count}`;
    assert.equal(rows.length, count, "so many do not run");
    const nothing = { exit_code: null, error_name: null, error_summary: null, result: null, other_node: false };
    await finishRuns(
      this.sql,
      ME,
      rows.map((row) => ({ ...nothing, ...row, start_token: "t", outcome, retry_max, retry_after_ms: 3_600_000 })),
    );
  }

  async bulk(bulk_id: number) {
    const progress = await this.client.bulkProgress(bulk_id);
    assert(progress);
    return progress;
  }
}

/** With a job "each" that is made already. */
export function withBulks(test: (scene: BulkScene) => Promise<void>): Promise<void> {
  return withStores(async ({ sql, database_url }) => {
    const term = await acquire(sql, { worker_id: "leader", lease_ms: 600_000, epoch_hint: 0 }) as Term;
    await aWorker(sql, { worker_id: ME, slots: 1_000, lease_ms: 600_000 });
    await aDefinition(sql, { name: "each" });
    const client = createClient({ databaseUrl: database_url, maxConnections: 2 });
    try {
      await test(new BulkScene({ sql, term, client, database_url }));
    } finally {
      await client.close();
    }
  });
}

/** `count` items, each with its number. */
export function* numbered(count: number): Generator<{ n: number }> {
  for (let n = 1; n <= count; n++) yield { n };
}
