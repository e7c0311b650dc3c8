/** From the kill of a worker in the midst of a run to the begin of its next step, by another worker of the node. */
import { rest } from "../../src/platform/timers.ts";
import { type Project, withProject } from "../project.ts";
import { type Bench, type Figure, figures, median, type Workload } from "../workload.ts";

const KILLED = (steps: number) =>
  `import { defineJob } from "dandori";
export default defineJob({
  isolation: { reuse: 10000 },
  retry: { max: 3, backoffSeconds: 0 },
  async run({ step }) {
    for (let number = 0; number < ${steps}; number++) await step("one", () => null);
  },
});
`;
const LOOK_MS = 5;
/** Until each worker watches the others of its node. */
const SETTLE_MS = 4_000;

export const resume: Workload = {
  name: "resume",
  about: "from the kill of a worker in the midst of 1,000 steps to the begin of the next step, on the same node",
  async run(bench: Bench): Promise<Figure[]> {
    const steps = bench.quick ? 300 : 1_000;
    const tries = bench.quick ? 1 : 3;
    bench.say(`resume: ${tries} kills`);
    const took: number[] = [];
    for (let done = 0; done < tries; done++) {
      const jobs = { killed: KILLED(steps) };
      took.push(await withProject(bench, { jobs, each_node: 2 }, (project) => killOnce(project, steps)));
    }
    return figures({ workload: "resume", who: "dandori", how: "same node", n: tries }, {
      "kill to next step": [median(took), "ms"],
      longest: [Math.max(...took), "ms"],
    });
  },
};

async function killOnce(project: Project, steps: number): Promise<number> {
  await project.warm("killed", 4);
  await rest(SETTLE_MS);
  const { id } = await project.client.enqueue("killed", {});
  for (;;) {
    const [row] = await project.sql<{ done: number; pid: number }[]>`
      select (select count(*)::int from run_step where job_run_id = r.id) as done, w.pid
        from job_run r join worker w on w.worker_id = r.assigned_worker_id where r.id = ${id}`;
    if (row && row.done >= steps / 2) {
      const [{ now }] = await project.sql<[{ now: Date }]>`select clock_timestamp() as now`;
      Deno.kill(row.pid, "SIGKILL");
      await project.until(id, "SUCCEEDED");
      const [{ ms }] = await project.sql<[{ ms: number }]>`
        select extract(epoch from min(began_at) - ${now})::float8 * 1000 as ms from run_step
         where job_run_id = ${id} and attempt = (select max(attempt) from job_run where id = ${id})`;
      return ms;
    }
    await rest(LOOK_MS);
  }
}
