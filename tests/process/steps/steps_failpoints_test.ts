/** Workers that die at the worst moments of a step and of a suspension: nothing that was committed is done again, nothing that comes is lost. */
import assert from "node:assert/strict";
import { withProcesses } from "../../support/cluster.ts";
import { FLOW_JOBS, notes, send, stepsOf, untilState } from "../../support/step_flow.ts";

for (
  const { point, again } of [
    { point: "before-step-commit", again: ["before/1", "before/1"] },
    { point: "after-step-commit", again: ["before/1"] },
  ]
) {
  Deno.test(`a worker dies at ${point}: the step is done again only where Postgres did not have it`, () =>
    withProcesses(0, async (cluster) => {
      const doomed = await cluster.startWorker({ env: { SCHEDULER_FAILPOINT: `${point}:1:kill` } });
      const id = await cluster.enqueue("flow", { kind: "sleep", seconds: 0.1 });
      await doomed.ended;
      await cluster.startWorker();
      const done = await cluster.ends(id);
      assert.deepEqual([done.state, done.result], ["SUCCEEDED", "after"]);
      assert.deepEqual(notes(cluster, id).filter((text) => text.startsWith("before")), again);
      assert.deepEqual(await stepsOf(cluster, id), ["step:before DONE 1 1", "sleep: DONE 2 1", "step:after DONE 3 1"]);
    }, { jobs: FLOW_JOBS }));
}

for (const point of ["before-step-commit", "after-step-commit"]) {
  Deno.test(`the reply of a commit is lost at ${point}: the body is told once it is known, and nothing is done again`, () =>
    withProcesses(0, async (cluster) => {
      const worker = await cluster.startWorker({ env: { SCHEDULER_FAILPOINT: `${point}:1:error` } });
      const id = await cluster.enqueue("flow", { kind: "sleep", seconds: 0.1 });
      const done = await cluster.ends(id);
      assert.deepEqual([done.state, done.result, done.attempt], ["SUCCEEDED", "after", 1]);
      await cluster.hears("failpoint.hit", {}, { by: worker });
      assert.deepEqual(notes(cluster, id), ["run 1", "before/1", "after/1"]);
      assert.deepEqual(await stepsOf(cluster, id), ["step:before DONE 1 1", "sleep: DONE 2 1", "step:after DONE 3 1"]);
    }, { jobs: FLOW_JOBS }));
}

/** Where a leader dies with a run for which a message has come, and what its row says then. */
const LEADERS = [
  { doom: "after-lease-check-arrivals:1:kill", what: "before it reads the check", held: true, checks: 1 },
  {
    doom: "after-lease-check-assign:2:kill",
    what: "after the run was let go and before it is assigned",
    held: false,
    checks: 0,
  },
];

for (const { doom, what, held, checks } of LEADERS) {
  Deno.test(`a message is sent, and the leader dies ${what}: the next one starts the run`, () =>
    withProcesses(0, async (cluster) => {
      const leader = await cluster.startWorker({ env: { SCHEDULER_FAILPOINT: doom } });
      const id = await cluster.enqueue("flow", { kind: "message" });
      await untilState(cluster, id, "SUSPENDED");
      await send(cluster, id, "hello");
      await leader.ended;
      const [left] = await cluster.sql`
        select state, held, (select count(*)::int from wake_check) as checks from job_run where id = ${id}`;
      assert.deepEqual({ ...left }, { state: "SUSPENDED", held, checks });
      await cluster.startWorker();
      const done = await cluster.ends(id);
      assert.deepEqual([done.state, done.result], ["SUCCEEDED", "hello"]);
      assert.deepEqual(notes(cluster, id).filter((text) => !text.startsWith("run")), ["before/1", "after/1"]);
    }, { jobs: FLOW_JOBS }));
}

for (const point of ["before-suspend", "after-suspend-commit"]) {
  for (const action of ["kill", "error"]) {
    Deno.test(`${action} at ${point}: the run waits, its message reaches it, and no step is done again`, () =>
      withProcesses(0, async (cluster) => {
        const first = await cluster.startWorker({ env: { SCHEDULER_FAILPOINT: `${point}:1:${action}` } });
        const id = await cluster.enqueue("flow", { kind: "message" });
        if (action === "kill") {
          await first.ended;
          await cluster.startWorker();
        }
        await untilState(cluster, id, "SUSPENDED");
        await send(cluster, id, "hello");
        const done = await cluster.ends(id);
        assert.deepEqual([done.state, done.result], ["SUCCEEDED", "hello"]);
        const bodies = notes(cluster, id).filter((text) => !text.startsWith("run"));
        assert.deepEqual(bodies, ["before/1", "after/1"]);
        const attempts = await cluster.sql`
          select outcome from job_run_attempt where job_run_id = ${id} and outcome <> 'GIVEN_BACK' order by attempt`; // to who still had its body
        const lost = action === "kill" && point === "before-suspend" ? ["LOST"] : [];
        assert.deepEqual(attempts.map(({ outcome }) => outcome), [...lost, "SUSPENDED"]);
      }, { jobs: FLOW_JOBS }));
  }
}
