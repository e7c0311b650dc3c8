/** Runs with steps, by real workers in real processes: what has been committed is never done again, and what waits holds nothing. */
import assert from "node:assert/strict";
import { english } from "../../../src/locale/english.ts";
import { requestCancel } from "../../../src/runs/requests.ts";
import { withProcesses } from "../../support/cluster.ts";
import { FLOW_JOBS, notes, ran, send, stepsOf, untilNoted, untilState } from "../../support/step_flow.ts";
import { waitFor } from "../../support/waiting.ts";

Deno.test("steps are done in order, and their results are those of the run; a step that fails is tried again", () =>
  withProcesses(1, async (cluster) => {
    const ten = await cluster.enqueue("flow", { kind: "ten" });
    const done = await cluster.ends(ten);
    assert.deepEqual([done.state, done.attempt, done.result], ["SUCCEEDED", 1, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]);
    assert.deepEqual(notes(cluster, ten), ["run 1", ...ran(10)]);
    assert.deepEqual((await stepsOf(cluster, ten)).slice(0, 2), ["step:s1 DONE 1 1", "step:s2 DONE 2 1"]);
    const [row] = await cluster
      .sql`select r.code_digest, d.digest from job_run r join job_definition d on d.id = r.job_definition_id where r.id = ${ten}`;
    assert.equal(row?.code_digest, row?.digest.slice(0, 12));

    const retry = await cluster.enqueue("flow", { kind: "retry" });
    assert.deepEqual([(await cluster.ends(retry)).result, notes(cluster, retry)], [3, [
      "run 1",
      "shaky/1",
      "shaky/2",
      "shaky/3",
    ]]);

    const hopeless = await cluster.enqueue("flow", { kind: "gives up" });
    const failed = await cluster.ends(hopeless);
    assert.deepEqual([failed.state, failed.error_name, failed.attempt], ["FAILED", "StepFailed", 1]);
    assert.deepEqual(notes(cluster, hopeless), ["run 1", "hopeless/1", "hopeless/2"]);
  }, { jobs: FLOW_JOBS }));

Deno.test("a worker that dies between two steps: the run goes on with the next, and no step that was committed is done again", () =>
  withProcesses(1, async (cluster) => {
    const first = cluster.workers[0];
    assert(first);
    const id = await cluster.enqueue("flow", { kind: "ten", steps: 400 });
    await untilNoted(cluster, id, "s20/1");
    first.kill("SIGKILL");
    await first.ended;
    const committed = (await stepsOf(cluster, id)).length;
    await cluster.startWorker();
    const done = await cluster.ends(id);
    assert.deepEqual([done.state, done.attempt], ["SUCCEEDED", 2]);
    assert.deepEqual(done.result, Array.from({ length: 400 }, (_, place) => place + 1));
    const bodies = Map.groupBy(notes(cluster, id).filter((text) => text.startsWith("s")), (text) => text);
    const twice = [...bodies].filter(([, times]) => times.length > 1).map(([name]) => Number(/\d+/.exec(name)));
    assert(
      twice.length <= 1 && twice.every((step) => step === committed + 1),
      `${twice} of ${committed} that were committed`,
    );
    assert.equal(notes(cluster, id).filter((text) => text.startsWith("run")).length, 2);
  }, { jobs: FLOW_JOBS }));

Deno.test("a step that may be done once at most is not done again when its worker dies", () =>
  withProcesses(1, async (cluster) => {
    const id = await cluster.enqueue("flow", { kind: "once" });
    await untilNoted(cluster, id, "charge");
    cluster.workers[0]?.kill("SIGKILL");
    await cluster.startWorker();
    const failed = await cluster.ends(id);
    assert.equal(failed.state, "FAILED");
    assert.match(failed.error_summary ?? "", /Interrupted/);
    assert.deepEqual(notes(cluster, id).filter((text) => text === "charge"), ["charge"]);
  }, { jobs: FLOW_JOBS }));

Deno.test("a run that sleeps has no body and no slot, and goes on where it was", () =>
  withProcesses(1, async (cluster) => {
    const id = await cluster.enqueue("flow", { kind: "sleep", seconds: 10 });
    const suspended = await untilState(cluster, id, "SUSPENDED");
    assert.equal(suspended.held, true);
    await cluster.hears("run.suspended", { job_run_id: id });
    const [worker] = await cluster
      .sql`select count(*) from job_run where assigned_worker_id is not null and state in ('ASSIGNED', 'RUNNING')`;
    assert.equal(Number(worker?.count), 0);
    const done = await cluster.ends(id);
    assert.deepEqual([done.state, done.result, done.attempt], ["SUCCEEDED", "after", 2]);
    assert.deepEqual(notes(cluster, id), ["run 1", "before/1", "run 1", "after/1"], "for people it is one attempt");
    assert.deepEqual(await stepsOf(cluster, id), ["step:before DONE 1 1", "sleep: DONE 2 1", "step:after DONE 3 1"]);
    const lines = await cluster
      .sql`select message, fields from job_run_log where job_run_id = ${id} and level = 'stdout' order by id`;
    assert.deepEqual(lines.map(({ fields }) => fields), [null, { replay: true }], "what it prints again is marked");
  }, { jobs: FLOW_JOBS }));

Deno.test("a message before, while and after the suspension reaches the run; a limit that passes gives nothing", () =>
  withProcesses(1, async (cluster) => {
    const while_there = await cluster.enqueue("flow", { kind: "busy" });
    await untilNoted(cluster, while_there, "tick");
    await send(cluster, while_there, { now: true });
    assert.deepEqual((await cluster.ends(while_there)).result, { now: true });

    const suspended = await cluster.enqueue("flow", { kind: "message" });
    assert.equal((await untilState(cluster, suspended, "SUSPENDED")).endless, false, "its limit is an hour away");
    await send(cluster, suspended, { later: true });
    const done = await cluster.ends(suspended);
    assert.deepEqual([done.result, done.attempt], [{ later: true }, 2]);
    assert.deepEqual(notes(cluster, suspended), ["run 1", "before/1", "run 1", "after/1"]);

    const early = await cluster.client.enqueue("flow", { kind: "message" }, { runAt: new Date("2100-01-01") });
    await send(cluster, early.id, { early: true });
    await cluster
      .sql`update job_run set due_at = clock_timestamp(), wakes_at = clock_timestamp() where id = ${early.id}`;
    const at_once = await cluster.ends(early.id);
    assert.deepEqual([at_once.result, at_once.attempt], [{ early: true }, 1]);

    const limit = await cluster.enqueue("flow", { kind: "timeout", seconds: 1 });
    assert.deepEqual((await cluster.ends(limit)).result, { said: "nothing" });
  }, { jobs: FLOW_JOBS }));

Deno.test("a run is canceled while it is suspended, and while its body is frozen", () =>
  withProcesses(1, async (cluster) => {
    const by = { actor: "test", reason: "enough" };
    const suspended = await cluster.enqueue("flow", { kind: "message" });
    await untilState(cluster, suspended, "SUSPENDED");
    await requestCancel(cluster.sql, suspended, by);
    assert.equal((await cluster.ends(suspended)).state, "CANCELED");

    // Frozen and not suspended: the limit of its wait is near.
    const frozen = await cluster.enqueue("flow", { kind: "timeout", seconds: 4.5 });
    await waitFor("its wait", async () => (await stepsOf(cluster, frozen)).length > 0);
    await requestCancel(cluster.sql, frozen, by);
    const canceled = await cluster.ends(frozen);
    assert.deepEqual([canceled.state, canceled.attempt], ["CANCELED", 1]);
    assert.match(english(canceled.error_summary ?? ""), /ended by itself after its signal/);
  }, { jobs: FLOW_JOBS }));

Deno.test("a run that fails for good or is canceled undoes its steps in reverse order, and ends as it would have", () =>
  withProcesses(1, async (cluster) => {
    const failing = await cluster.enqueue("flow", { kind: "undo" });
    const failed = await cluster.ends(failing);
    assert.deepEqual([failed.state, failed.error_name], ["FAILED", "Error"], failed.error_summary ?? "");
    assert.match(failed.error_summary ?? "", /no seats/);
    const did = notes(cluster, failing).filter((text) => !text.startsWith("run"));
    assert.deepEqual(
      did,
      ["hotel/1", "flight/1", "undo flight of f1", "undo hotel of h1"],
      "once, after the last of three attempts",
    );

    const waiting = await cluster.enqueue("flow", { kind: "undo", seconds: 3_600 });
    await untilState(cluster, waiting, "SUSPENDED");
    await requestCancel(cluster.sql, waiting, { actor: "test", reason: "enough" });
    const canceled = await cluster.ends(waiting);
    assert.deepEqual([canceled.state, canceled.error_name], ["CANCELED", "Canceled"], canceled.error_summary ?? "");
    assert.deepEqual(notes(cluster, waiting).slice(-2), ["undo flight of f1", "undo hotel of h1"]);

    const hopeless = await cluster.ends(await cluster.enqueue("flow", { kind: "undo fails" }));
    assert.deepEqual([hopeless.state, hopeless.error_name], ["FAILED", "UndoFailed"]);
    assert.match(hopeless.error_summary ?? "", /hotel.*It was to be undone since it ended FAILED: .*no seats/s);
  }, { jobs: FLOW_JOBS }));

Deno.test("a run calls others, holds nothing while they run, and goes on with their results", () =>
  withProcesses(1, async (cluster) => {
    const id = await cluster.enqueue("flow", { kind: "calls" });
    const done = await cluster.ends(id);
    assert.equal(done.state, "SUCCEEDED", done.error_summary ?? "");
    assert.deepEqual(done.result, {
      ...{ two: [2, 4], started: true, bad: "ChildFailed: Fatal" },
      ...{ many: [2, 1], all: [10, 12] },
    });
    const children = await cluster.sql`select count(*) from job_run where parent_run_id = ${id}`;
    assert.equal(Number(children[0]?.count), 4 + 3, "of each call one, however often the body came by");

    const refused = await cluster.ends(await cluster.enqueue("flow", { kind: "calls another" }));
    assert.equal(refused.state, "FAILED");
    assert.match(
      refused.error_summary ?? "",
      /Cannot call "flow": permissions\.call of flow does not name it; add "flow" there/,
    );
  }, { jobs: FLOW_JOBS, env: { SCHEDULER_SLOTS: "1" } }));

Deno.test("a body that does otherwise than its journal says is stopped before it does anything twice", () =>
  withProcesses(1, async (cluster) => {
    const id = await cluster.enqueue("flow", { kind: "diverges" });
    const failed = await cluster.ends(id);
    assert.deepEqual([failed.state, failed.error_name, failed.attempt], ["FAILED", "Diverged", 2]);
    assert.match(failed.error_summary ?? "", /step "one" next in its journal.*requests step "two"/s);
    assert.deepEqual(notes(cluster, id), ["run 1", "one/1", "run 2"]);
  }, { jobs: FLOW_JOBS }));
