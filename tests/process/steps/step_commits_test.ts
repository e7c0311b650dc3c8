/** What bodies say of their steps is in Postgres before they are told so. The bodies are the test. */
import assert from "node:assert/strict";
import { setFailpoints } from "../../../src/platform/failpoint.ts";
import { readRun } from "../../../src/runs/run_view.ts";
import { type FakeBody, ok, withExecutor } from "../../support/executor_scene.ts";
import { aStepBody, heard, rowsOf, step, toldTo, untilTold, waitForMessage } from "../../support/step_bodies.ts";
import { whileShut } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const WRITES = "insert into run_step";

Deno.test("frames are written in their order, and a body is told how far; of one row one write goes with a statement", () => {
  let sent: ReturnType<typeof heard> | undefined;
  return withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    body.says(step(1, { key: "step:a", state: "TRYING", error_name: "Error", error_summary: "no" }));
    body.says(step(2, { key: "step:b", seq: 1 }));
    body.says(step(3, { key: "step:a", seq: 2, tries: 2, result: { paid: true } }));
    await untilTold(body, "committed 3");
    assert.deepEqual(toldTo(body), ["committed 2", "committed 3"]);
    assert.equal(sent?.count(), 2);
    assert.deepEqual(await rowsOf(scene.sql, body), [["step:a", "DONE", 2], ["step:b", "DONE", 1]]);
    const [row] = await scene
      .sql`select result, tries, extract(epoch from ended_at) * 1000 as ended from run_step where key = 'step:a'`;
    assert.deepEqual([row?.result, row?.tries], [{ paid: true }, 2]);
    const last = body.told.at(-1);
    assert(last?.kind === "committed");
    assert.equal(last.ended_unix_ms, Number(row?.ended), "what now() gives live and in a replay is the same");
  }, { through: (sql) => (sent = heard(sql, WRITES)).sql });
});

Deno.test("while a statement is under way the next one gathers what all bodies say", () => {
  let sent: ReturnType<typeof heard> | undefined;
  let letGo = () => {};
  const held = new Promise<void>((resolve) => letGo = resolve);
  return withExecutor(async (scene) => {
    const all = await Promise.all(Array.from({ length: 8 }, () => aStepBody(scene)));
    const [first] = all as [FakeBody];
    first.says(step(1));
    await waitFor("the first statement", () => Promise.resolve(sent?.count() === 1 || undefined));
    for (const body of all.slice(1)) for (const n of [1, 2, 3]) body.says(step(n));
    letGo();
    for (const body of all.slice(1)) await untilTold(body, "committed 3");
    assert.equal(sent?.count(), 2);
    assert.deepEqual(toldTo(first), ["committed 1"]);
  }, { through: (sql) => (sent = heard(sql, WRITES, () => held)).sql });
});

Deno.test("a body whose run was given to another writes nothing and is killed; the others go on", () =>
  withExecutor(async (scene) => {
    const { sql } = scene;
    const [lost, other] = [await aStepBody(scene), await aStepBody(scene)];
    const { job_run_id } = lost.order;
    await sql`update job_run set state = 'ASSIGNED', attempt = attempt + 1, start_token = null, assigned_worker_id = 'w-other'
               where id = ${job_run_id}`;
    lost.says(step(1));
    other.says(step(1));
    await untilTold(other, "committed 1");
    await waitFor("the lost one to leave", () => Promise.resolve(!scene.bodies.has(job_run_id) || undefined));
    assert.deepEqual(lost.told, []);
    assert.deepEqual(await rowsOf(sql, lost), []);
    assert.equal((await readRun(sql, job_run_id))?.state, "ASSIGNED");
  }));

Deno.test("while Postgres is away bodies wait; then they are told, and no row is there twice", () => {
  let sent: ReturnType<typeof heard> | undefined;
  return withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    await whileShut(scene.database_url, "test", async () => {
      body.says(step(1));
      await waitFor("the statement to be sent again", () => Promise.resolve((sent?.count() ?? 0) > 1 || undefined));
      assert.deepEqual(body.told, []);
    });
    await untilTold(body, "committed 1");
    assert.deepEqual(await rowsOf(scene.sql, body), [["step:s1", "DONE", 1]]);
  }, { through: (sql) => (sent = heard(sql, WRITES)).sql });
});

Deno.test("a reply that is lost is asked for again: the row is as it was, and so is the time of its end", () =>
  withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    setFailpoints([{ name: "after-step-commit", hit: 1, action: "error", delay_ms: 0 }]);
    try {
      body.says(step(1, { result: 1 }));
      await untilTold(body, "committed 1");
    } finally {
      setFailpoints([]);
    }
    const [row] = await scene.sql`select extract(epoch from ended_at) * 1000 as ended from run_step`;
    const [words] = body.told;
    assert.equal(words?.kind === "committed" && words.ended_unix_ms, Number(row?.ended));
  }));

Deno.test("a row that Postgres cannot take fails its own run, for good and by name", () =>
  withExecutor(async (scene) => {
    const [bad, good] = [await aStepBody(scene), await aStepBody(scene)];
    bad.says(step(1, { key: "message:go", request: "message", message_id: 4711 }));
    good.says(step(1));
    await untilTold(good, "committed 1");
    await waitFor("the end of its run", async () => {
      const run = await readRun(scene.sql, bad.order.job_run_id);
      return run?.state === "FAILED" && run;
    }).then((run) => {
      assert.equal(run.error_name, "StepNotStored");
      assert.match(
        run.error_summary ?? "",
        /Cannot record message:go: message 4711 is not there to be taken/,
      );
    });
  }));

Deno.test("a row of a run that somebody's transaction keeps holds up no other run", () =>
  withExecutor(async (scene) => {
    const [kept, free] = [await aStepBody(scene), await aStepBody(scene)];
    await scene.sql.begin(async (tx) => {
      await tx`set local idle_in_transaction_session_timeout = 0`;
      await tx`select from job_run where id = ${kept.order.job_run_id} for update`;
      kept.says(step(1));
      kept.says(step(2));
      free.says(step(1));
      await untilTold(free, "committed 1");
      assert.deepEqual(kept.told, []);
    });
    await untilTold(kept, "committed 2");
  }));

Deno.test("what a body has said is in Postgres before its end is", () =>
  withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    setFailpoints([{ name: "before-step-commit", hit: 1, action: "error", delay_ms: 0 }]); // it is sent again a moment later
    try {
      body.says(step(1));
      body.end(ok(0));
      await waitFor("its end", async () => (await readRun(scene.sql, body.order.job_run_id))?.state === "SUCCEEDED");
    } finally {
      setFailpoints([]);
    }
    assert.deepEqual(await rowsOf(scene.sql, body), [["step:s1", "DONE", 1]]);
  }));

Deno.test("a body that asks for more than a run may have fails for good", () =>
  withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    for (let n = 1; n <= 1_001; n++) body.says(waitForMessage(n, `m${n}`));
    const run = await waitFor("the end of its run", async () => {
      const run = await readRun(scene.sql, body.order.job_run_id);
      return run?.state === "FAILED" && run;
    });
    assert.equal(run.error_name, "TooManyWaits");
    assert.match(run.error_summary ?? "", /at most 1000 things at once; callMany waits for any number of runs/);
  }));

Deno.test("a job that its permissions do not name is not called, and the sentence says what to write", () =>
  withExecutor(async (scene) => {
    const body = await aStepBody(scene);
    const child = { job: "render", args: {} };
    body.says(step(1, { key: "call:render", request: "call", state: "WAITING", child }));
    body.says(step(2, { key: "start:render", request: "start", seq: 1, child }));
    await untilTold(body, "committed 2");
    const [words] = body.told;
    assert(words?.kind === "arrived");
    assert.deepEqual(words.arrivals.map(({ key, outcome }) => [key, outcome]), [
      ["call:render", "FAILED"],
      ["start:render", "FAILED"],
    ]);
    assert.match(
      words.arrivals[0]?.error_summary ?? "",
      /^Cannot call "render": permissions\.call of \w+ does not name it; add "render" there, and `deno task sync`$/,
    );
    assert.deepEqual(await rowsOf(scene.sql, body), [["call:render", "CANCELED", null], ["start:render", "FAILED", 1]]);
  }));
