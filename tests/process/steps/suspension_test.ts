/** Runs that wait hold no body and no slot, and nothing that comes for them is overlooked. The bodies are the test. */
import assert from "node:assert/strict";
import { setFailpoints } from "../../../src/platform/failpoint.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import { type ExecutorScene, type FakeBody, withExecutor } from "../../support/executor_scene.ts";
import { aStepBody, heard, step, toldTo, untilTold, waitForMessage } from "../../support/step_bodies.ts";
import { waitFor } from "../../support/waiting.ts";

const FOREVER = new AbortController().signal;
const SUSPENDS = "set state = 'SUSPENDED'";
const WAITING = { kind: "waiting", soonest_in_ms: null, handles: false } as const;

Deno.test("a run that waits is SUSPENDED, held until its time, and nothing of it is left here", () =>
  withExecutor(async (scene) => {
    const { sql, executor, facts } = scene;
    const body = await frozen(scene, { soonest_in_ms: 3_600_000 });
    await untilTold(body, "suspend");
    assert.deepEqual(toldTo(body), ["committed 1", "suspend"]);
    const [row] = await sql`
      select state, held, extract(epoch from wakes_at - clock_timestamp()) as seconds, error_name from job_run where id = ${body.order.job_run_id}`;
    assert.deepEqual([row?.state, row?.held, row?.error_name], ["SUSPENDED", true, null]);
    assert(Math.abs(Number(row?.seconds) - 3_600) < 60);
    await waitFor("the body to leave", () => Promise.resolve(executor.runs.length === 0 || undefined));
    assert.equal(executor.load, 0);
    const attempts = await readAttempts(sql, body.order.job_run_id);
    assert.deepEqual(attempts.map(({ outcome }) => outcome), ["SUSPENDED"]);
    assert(facts.some(({ name }) => name === "run.suspended"));
    assert(!facts.some(({ name }) => name === "run.finished"));
  }));

Deno.test("a message that was there before its wait is told, and the run is not suspended before it is read", () =>
  withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    await send(scene.sql, body, { early: true });
    body.says(waitForMessage(1));
    await untilTold(body, "arrived");
    assert.deepEqual(toldTo(body), ["committed 1", "arrived", "alert"]);
    assert.deepEqual(payloads(body), [{ early: true }]);
    body.says(WAITING); // said before it read what it was told
    body.says({ kind: "ask", n: 1, what: "arrivals" });
    await untilTold(body, "told");
    assert.equal((await readRun(scene.sql, body.order.job_run_id))?.state, "RUNNING");
  }));

Deno.test("a message that comes between the look and the suspension is told, and the run stays", () => {
  let between = () => Promise.resolve();
  return withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    between = async () => {
      between = () => Promise.resolve();
      await send(scene.sql, body, "just now");
    };
    body.says(waitForMessage(1));
    await untilTold(body, "committed 1");
    body.says(WAITING);
    await untilTold(body, "arrived");
    assert.deepEqual(toldTo(body), ["committed 1", "arrived"]);
    assert.equal((await readRun(scene.sql, body.order.job_run_id))?.state, "RUNNING");
  }, { through: (sql) => heard(sql, SUSPENDS, () => between()).sql });
});

Deno.test("a suspension whose reply is lost is found again, not made twice", () =>
  withExecutor(async (scene) => {
    setFailpoints([{ name: "after-suspend-commit", hit: 1, action: "error", delay_ms: 0 }]);
    try {
      const body = await frozen(scene);
      await untilTold(body, "suspend");
      const { state } = await readRun(scene.sql, body.order.job_run_id) ?? {};
      assert.equal(state, "SUSPENDED");
      assert.equal((await readAttempts(scene.sql, body.order.job_run_id)).length, 1);
    } finally {
      setFailpoints([]);
    }
  }));

Deno.test("a body that dies while it is being suspended has no end of its own; its run waits", () => {
  let letGo = () => {};
  const held = new Promise<void>((resolve) => letGo = resolve);
  let sent: ReturnType<typeof heard> | undefined;
  return withExecutor(async (scene) => {
    const body = await frozen(scene);
    await waitFor("the statement", () => Promise.resolve(sent?.count() || undefined));
    body.end({ kind: "FAILED", error_name: "Killed", error_summary: "", exit_code: null, retry: "policy" });
    letGo();
    await waitFor("it to leave", () => Promise.resolve(scene.executor.runs.length === 0 || undefined));
    const run = await readRun(scene.sql, body.order.job_run_id);
    assert.deepEqual([run?.state, run?.failures], ["SUSPENDED", 0]);
  }, { through: (sql) => (sent = heard(sql, SUSPENDS, () => held)).sql });
});

Deno.test("a run that is to be canceled is not suspended, nor asked for again and again", () => {
  let sent: ReturnType<typeof heard> | undefined;
  return withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    await scene
      .sql`update job_run set cancel_requested_at = clock_timestamp(), cancel_requested_by = 'me', cancel_reason = 'so'
                     where id = ${body.order.job_run_id}`;
    body.says(waitForMessage(1));
    await untilTold(body, "committed 1");
    body.says(WAITING);
    await waitFor("the statement", () => Promise.resolve(sent?.count() || undefined));
    const other = await frozen(scene); // by the time that this one is suspended the first would have been asked for again
    await untilTold(other, "suspend");
    const asked = (sent?.count() ?? 0) - 1; // without that of the other
    assert(
      asked === 1 || asked === 2,
      `${asked} times: once more when the worker has begun to listen, and then all is looked at`,
    );
    assert.deepEqual(toldTo(body), ["committed 1"]);
    assert.equal((await readRun(scene.sql, body.order.job_run_id))?.state, "RUNNING");
  }, { through: (sql) => (sent = heard(sql, SUSPENDS)).sql });
});

Deno.test("a frozen body whose run was given to another is killed, and nothing is recorded for it", () =>
  withExecutor(async (scene) => {
    const { sql, bodies } = scene;
    const body = await aStepBody(scene);
    body.says(waitForMessage(1));
    await untilTold(body, "committed 1");
    await sql`update job_run set state = 'ORPHANED', version = version + 1 where id = ${body.order.job_run_id}`;
    body.says(WAITING);
    await waitFor("it to leave", () => Promise.resolve(!bodies.has(body.order.job_run_id) || undefined));
    assert.equal((await readRun(sql, body.order.job_run_id))?.state, "ORPHANED");
  }));

Deno.test("a body whose wait ends in a moment stays, and is told when that has come", () =>
  withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    body.says(step(1, { key: "sleep:#1", request: "sleep", state: "WAITING", until_in_ms: 300 }));
    await untilTold(body, "committed 1");
    body.says({ ...WAITING, soonest_in_ms: 300 });
    await untilTold(body, "arrived");
    assert.deepEqual(toldTo(body), ["committed 1", "arrived"]);
    assert.equal((await readAttempts(scene.sql, body.order.job_run_id)).length, 0);
  }));

Deno.test("a worker that stops suspends at once what only waits for a moment", () =>
  withExecutor(async (scene) => {
    const { sql, executor } = scene;
    const body = await aStepBody(scene);
    body.says(step(1, { key: "sleep:#1", request: "sleep", state: "WAITING", until_in_ms: 4_900 }));
    await untilTold(body, "committed 1");
    body.says({ ...WAITING, soonest_in_ms: 4_900 });
    await executor.drain(60_000, FOREVER);
    assert.deepEqual(toldTo(body), ["committed 1", "suspend"]);
    assert.equal((await readRun(sql, body.order.job_run_id))?.state, "SUSPENDED");
  }));

Deno.test("Postgres tells of what has come for a body that is here; no look of its own is needed", () =>
  withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    body.says(waitForMessage(1)); // and it has other things to do
    await untilTold(body, "committed 1");
    await waitFor("its worker to listen", async () => {
      const [row] = await scene
        .sql`select from pg_stat_activity where query ilike 'listen%run_arrived%' and datname = current_database()`;
      return row;
    });
    const before_ms = performance.now();
    await send(scene.sql, body, "ping");
    await untilTold(body, "alert");
    assert(performance.now() - before_ms < 4_000, "sooner than the look of each 5 s");
    assert.deepEqual(payloads(body), ["ping"]);
  }));

Deno.test("another execution of a suspended run may begin here while the body of the last one leaves", () =>
  withExecutor(async (scene) => {
    const { sql, executor, bodies } = scene;
    const body = await frozen(scene, { leaves: false });
    await untilTold(body, "suspend");
    const { job_run_id } = body.order;
    await sql`update job_run set state = 'ASSIGNED', held = false, wakes_at = null, attempt = 2, start_token = null, fence = null, started_at = null
               where id = ${job_run_id}`;
    const accepted = await executor.accept({ job_run_id, attempt: 2, command_name: "job.ts", digest: "digest" });
    assert.equal(accepted.result, "ACCEPTED");
    const next = bodies.get(job_run_id) as FakeBody;
    assert.deepEqual(next.order.steps?.journal?.open.map(({ key, state }) => [key, state]), [[
      "message:go",
      "WAITING",
    ]]);
  }));

/** One that has nothing to do but to wait for a message. */
async function frozen(
  scene: ExecutorScene,
  { soonest_in_ms = null, leaves = true }: { soonest_in_ms?: number | null; leaves?: boolean } = {},
): Promise<FakeBody> {
  const body = await aStepBody(scene);
  if (!leaves) body.end = () => {};
  body.says(waitForMessage(1));
  await untilTold(body, "committed 1");
  body.says({ ...WAITING, soonest_in_ms });
  return body;
}

/** As sendMessage does. */
async function send(sql: Sql, { order: { job_run_id } }: FakeBody, payload: unknown): Promise<void> {
  await sql`
    with r as (update job_run set wakes = wakes + 1, version = version + 1 where id = ${job_run_id} returning id)
    insert into run_message (job_run_id, name, payload, sent_by) select id, 'go', ${
    sql.json(payload as never)
  }, 'test' from r`;
}

function payloads({ told }: FakeBody): unknown[] {
  return told.flatMap((words) => words.kind === "arrived" ? words.arrivals.map(({ result }) => result) : []);
}
