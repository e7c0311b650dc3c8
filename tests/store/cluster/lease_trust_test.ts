/**
 * How long a leader trusts its term, and a worker its lease: on the local clock, from before the question left, less a
 * margin. Postgres counts from when it was asked, which is later; who counted from the reply would act for as long as
 * that was slow while another is given the same work.
 */
import assert from "node:assert/strict";
import { monotonicMs } from "../../../src/platform/timers.ts";
import type { Executor } from "../../../src/worker/executor.ts";
import { Continuation, type ContinuationParts } from "../../../src/worker/continuation.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import { renewOnce, type WorkerParts } from "../../../src/worker/worker.ts";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { acquire, depose, Term } from "../../../src/nodes/leadership.ts";
import { registerWorker } from "../../../src/nodes/workers.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import { aWorker } from "../../support/factories.ts";
import { type TestClock, withClock } from "../../support/clock.ts";
import { withStores } from "../../support/stores.ts";

const SLOW_MS = 4_000;
const MARGIN_MS = 300;
const LOOK = { lease_ms: 10_000, reassign_after_ms: 60_000, late_seconds: 0, ahead_seconds: 0 };

/** The answer to a question, which comes when the clock has gone on by this. */
async function slowly<T>(clock: TestClock, ask: () => Promise<T>): Promise<T> {
  const answer = ask();
  clock.ms += SLOW_MS;
  return await answer;
}

/** With real rows, and a clock that moves between a question and its answer. */
function withSlowPostgres(test: (sql: Sql, clock: TestClock) => Promise<void>): Promise<void> {
  return withStores(({ sql }) => withClock((clock) => test(sql, clock)));
}

Deno.test("a term is trusted from before it was asked for, less a margin, however it was won or renewed", async () => {
  await withSlowPostgres(async (sql, clock) => {
    const ask = { worker_id: "leader", lease_ms: 10_000, epoch_hint: 0 };
    let asked_ms = clock.ms;
    const won = await slowly(clock, () => acquire(sql, ask));
    assert(won);
    assert.equal(won.trusted_until_ms, asked_ms + 10_000 - MARGIN_MS);

    asked_ms = clock.ms;
    const renewed = await slowly(clock, () => renewAndReadWork(sql, won, LOOK));
    assert.equal(renewed?.term.trusted_until_ms, asked_ms + 10_000 - MARGIN_MS);

    asked_ms = clock.ms;
    const deposed = await slowly(clock, () => depose(sql, { ...ask, worker_id: "next", epoch: won.epoch }));
    assert.equal(deposed?.trusted_until_ms, asked_ms + 10_000 - MARGIN_MS);
  });
});

Deno.test("a look that only counts the tick makes no term longer, and one with little trust left renews", async () => {
  await withSlowPostgres(async (sql, clock) => {
    const won = await acquire(sql, { worker_id: "leader", lease_ms: 10_000, epoch_hint: 0 });
    assert(won);
    const hasty = { ...LOOK, hasty: true };
    clock.ms += 1_000;
    const counted = await slowly(clock, () => renewAndReadWork(sql, won, hasty));
    assert(counted);
    assert.deepEqual(
      [counted.term.trusted_until_ms, counted.term.tick],
      [won.trusted_until_ms, won.tick + 1],
    );
    const asked_ms = clock.ms; // 5 s are left of 10, less the margin
    const renewed = await slowly(clock, () => renewAndReadWork(sql, counted.term, hasty));
    assert.equal(renewed?.term.trusted_until_ms, asked_ms + 10_000 - MARGIN_MS);
  });
});

Deno.test("a term ends for its holder before its lease does, the last moment included", async () => {
  await withClock((clock) => {
    for (const [lease_ms, margin_ms] of [[10_000, MARGIN_MS], [400, 100]] as const) {
      const term = Term.granted(7, "leader", { asked_at_ms: clock.ms, lease_ms });
      const began_ms = clock.ms;
      clock.ms = began_ms + lease_ms - margin_ms - 1;
      assert(term.trusted);
      clock.ms += 1;
      assert(!term.trusted);
    }
    return Promise.resolve();
  });
});

const SETTINGS = { ...DEFAULT_SETTINGS, worker_lease_seconds: 30, worker_margin_seconds: 5 };

const aStanding = (worker_id: string) =>
  new LocalWorkerState({ worker_id, node_id: "here", slots: 1, settings: SETTINGS });

Deno.test("a worker may run bodies from before it asked for its lease, less its margin: by a registration and by each renewal", async () => {
  await withSlowPostgres(async (sql, clock) => {
    let asked_ms = clock.ms;
    const registration = {
      ...{ worker_id: "w1-0000000a", node_id: "here", pid: 1, process_started: "1", host: "", version: "" },
      ...{ grpc_host: "127.0.0.1", grpc_port: 1, tls_fingerprint: "", slots: 1 },
    };
    const until_ms = await slowly(clock, () => registerWorker(sql, registration, 30_000));
    assert.equal(until_ms, asked_ms + 30_000);
    const local = aStanding(registration.worker_id);
    local.holdsUntil(until_ms);
    assert.equal(local.may_run_until_ms, asked_ms + 25_000);

    asked_ms = clock.ms;
    const executor: Pick<Executor, "runs" | "held"> = { runs: [], held: [] };
    const transport = { fingerprint: "", former_fingerprint: "", trust_digest: "", not_after: undefined };
    const parts = { sql, lease_sql: sql, local, transport, executor } as unknown as WorkerParts;
    assert.equal(await slowly(clock, () => renewOnce(parts)), undefined);
    assert.equal(local.may_run_until_ms, asked_ms + 25_000);
    assert.equal(local.renewed_ms, asked_ms);
    clock.ms = asked_ms + 24_999;
    assert(local.mayRun);
    clock.ms += 1;
    assert(!local.mayRun);
  });
});

Deno.test("of a worker that is dead to the others no lease is trusted any more", async () => {
  await withSlowPostgres(async (sql) => {
    const { worker_id } = await aWorker(sql, { state: "DEAD" });
    const local = aStanding(worker_id);
    local.holdsUntil(monotonicMs() + 30_000);
    assert(local.mayRun);
    const transport = { fingerprint: "", former_fingerprint: "", trust_digest: "", not_after: undefined };
    const parts = { sql, lease_sql: sql, local, transport, executor: { runs: [], held: [] } } as unknown as WorkerParts;
    assert.match(await renewOnce(parts) ?? "", /is dead/);
    assert(!local.mayRun);
  });
});

Deno.test("a yes counts from before the question, less the margin, and one that is overtaken takes nothing away", async () => {
  await withClock(async (clock) => {
    const local = aStanding("w1-0000000a");
    local.detached = true;
    local.answerers = [{
      ...{ worker_id: "leader", node_id: "n", grpc_host: "127.0.0.1", grpc_port: 1 },
      ...{ tls_fingerprint: "x", tls_former_fingerprint: null },
    }];
    const lease_ms = { first: 30_000, second: 2_000 };
    const asked_ms = clock.ms;
    const peers = {
      to: () => ({
        confirmContinuation: ({ job_run_id }: { job_run_id: number }) => {
          clock.ms += SLOW_MS;
          const lease = job_run_id === 1 ? lease_ms.first : lease_ms.second;
          const value = { decision: "ALLOW_CONTINUE", message: "", lease_ms: lease, canceled: false };
          return Promise.resolve({ ok: true, value });
        },
      }),
    } as unknown as ContinuationParts["peers"];
    const held = [1, 2].map((job_run_id) => ({ job_run_id, attempt: 1 }));
    const executor = { held, cancel: () => "ACCEPTED" as const, abandon: () => {} };
    const sql = (() => Promise.resolve([])) as unknown as Sql;
    await new Continuation({ sql, peers, executor, local }).look(new AbortController().signal);
    assert.equal(clock.ms, asked_ms + 2 * SLOW_MS, "both were asked for");
    assert.equal(local.may_run_until_ms, asked_ms + 25_000);
  });
});
