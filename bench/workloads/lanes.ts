/**
 * Runs of which each waits for another of its run queue to end, or for its rate: how many end in a second, from their enqueue to the last end.
 * Reused processes, bodies that do nothing or wait for 10 ms.
 */
import { withProject } from "../project.ts";
import { type Figure, figures, type Workload } from "../workload.ts";

const LANES: { how: string; job: string; runs: number; keys?: number; parallel?: number }[] = [
  { how: "limit 1, no-op", job: "limit1", runs: 300 },
  { how: "limit 1, 10 ms", job: "limit1_10ms", runs: 200 },
  { how: "limit 5, no-op", job: "limit5", runs: 1_000 },
  { how: "limit 5, 10 ms", job: "limit5_10ms", runs: 800 },
  { how: "one serial key, no-op", job: "noop", runs: 300, keys: 1 },
  { how: "20 serial keys, no-op", job: "noop", runs: 3_000, keys: 20 },
  { how: "rate 100 in 1 s, no-op", job: "rate100", runs: 500 },
  { how: "bulk, parallel 8, no-op", job: "noop", runs: 2_000, parallel: 8 },
  { how: "bulk, parallel 8, 10 ms", job: "noop_10ms", runs: 1_000, parallel: 8 },
];
const WARM_RUNS = 200;

const body = (options: string, ms = 0) =>
  `import { defineJob } from "dandori";
export default defineJob({ isolation: { reuse: 10000 }, ${options}
  run: () => ${ms > 0 ? `new Promise((resolve) => setTimeout(resolve, ${ms}))` : "{}"} });
`;
const JOBS = {
  noop: body(""),
  noop_10ms: body("", 10),
  limit1: body("concurrency: { limit: 1 },"),
  limit1_10ms: body("concurrency: { limit: 1 },", 10),
  limit5: body("concurrency: { limit: 5 },"),
  limit5_10ms: body("concurrency: { limit: 5 },", 10),
  rate100: body("rate: { count: 100, seconds: 1 },"),
};

export const lanes: Workload = {
  name: "lanes",
  about: "runs/s where each waits for another: limits, serial keys, a rate, bulks",
  run(bench) {
    return withProject(bench, { jobs: JOBS }, async (project) => {
      const found: Figure[] = [];
      for (const { how, job, runs, keys, parallel } of LANES) {
        const count = bench.quick ? Math.ceil(runs / 5) : runs;
        bench.say(`lanes, ${how}: ${count} runs`);
        await project.warm(job, Math.min(WARM_RUNS, count));
        const mark = await project.mark();
        const [row] = await project.sql<{ began: Date }[]>`select clock_timestamp() as began`;
        const items = Array.from(
          { length: count },
          (_, run) => ({ args: {}, ...keys && { serialKey: `${run % keys}` } }),
        );
        if (parallel) await project.client.bulk(job, items.map(({ args }) => args), { parallel });
        else await project.client.enqueueMany(job, items);
        const seconds = await project.untilEnded(count, { mark, began: row?.began as Date });
        const on = { workload: "lanes", who: "dandori", how, n: count };
        found.push(...figures(on, { rate: [count / seconds, "runs/s"] }));
      }
      return found;
    });
  },
};
