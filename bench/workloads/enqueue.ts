/** Runs per second that one client hands over in bulk with `enqueueMany`, while nothing is running: one call after another, and two at a time. */
import { type Project, withProject } from "../project.ts";
import { figures, type Workload } from "../workload.ts";
import { NO_OP } from "./throughput.ts";

const EACH = 5_000;

export const enqueue: Workload = {
  name: "enqueue",
  about: "runs per second that one client enqueues in bulk",
  async run(bench) {
    const runs = bench.runs ?? (bench.quick ? 20_000 : 100_000);
    return await withProject(bench, { jobs: { noop: NO_OP.reuse }, workers: 0 }, async (project) => {
      await project.pause("noop", true);
      await project.enqueue("noop", EACH);
      const found = [];
      for (const at_once of [1, 2]) {
        bench.say(`enqueue: ${runs} runs, ${at_once} at a time`);
        const rate = runs / await secondsFor(project, runs, at_once);
        const how = at_once === 1 ? `${EACH} a call` : `${EACH} a call, ${at_once} at a time`;
        found.push(...figures({ workload: "enqueue", who: "dandori", how, n: runs }, { rate: [rate, "runs/s"] }));
      }
      return found;
    });
  },
};

async function secondsFor(project: Project, runs: number, at_once: number): Promise<number> {
  const items = Array.from({ length: EACH }, (_, device) => ({ args: { device } }));
  let left = runs / EACH;
  const began = performance.now();
  await Promise.all(Array.from({ length: at_once }, async () => {
    while (left-- > 0) await project.client.enqueueMany("noop", items);
  }));
  return (performance.now() - began) / 1000;
}
