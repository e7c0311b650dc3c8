/** Runs per second that one client hands over in bulk: `enqueueMany`, one call after another, while nothing is running. */
import { withProject } from "../project.ts";
import { figures, type Workload } from "../workload.ts";
import { NO_OP } from "./throughput.ts";

const EACH = 5_000;

export const enqueue: Workload = {
  name: "enqueue",
  about: "runs per second that one client enqueues in bulk",
  async run(bench) {
    const runs = bench.runs ?? (bench.quick ? 20_000 : 100_000);
    bench.say(`enqueue: ${runs} runs`);
    return await withProject(bench, { jobs: { noop: NO_OP.reuse }, workers: 0 }, async (project) => {
      await project.pause("noop", true);
      await project.enqueue("noop", EACH);
      const items = Array.from({ length: EACH }, (_, device) => ({ args: { device } }));
      const began = performance.now();
      for (let made = 0; made < runs; made += EACH) await project.client.enqueueMany("noop", items);
      const seconds = (performance.now() - began) / 1000;
      return figures({ workload: "enqueue", who: "dandori", how: `${EACH} a call`, n: runs }, {
        rate: [runs / seconds, "runs/s"],
      });
    });
  },
};
