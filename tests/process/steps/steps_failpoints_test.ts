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
