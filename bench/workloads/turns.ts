/**
 * Throughput of the project and of BullMQ in turn, some rounds of each: a machine that others share is up to a third slower from one quarter of an hour
 * to the next, and so is the ratio of two figures that are minutes apart. The ratio is the median of those of one round.
 */
import { figures, median, type Workload } from "../workload.ts";
import { measure as measurePeer } from "./peers.ts";
import { measure } from "./throughput.ts";

const ROUNDS = 5;
const RUNS = 30_000;

export const turns: Workload = {
  name: "turns",
  about: "throughput of the project's reused processes and of BullMQ in turn, five rounds; the ratio is their median",
  async run(bench) {
    const ratios = { "as it comes": [] as number[], sandboxed: [] as number[] };
    const rates: number[] = [];
    for (let round = 0; round < (bench.quick ? 1 : ROUNDS); round++) {
      const ours = await rateOf(measure({ ...bench, runs: bench.runs ?? (bench.quick ? RUNS / 5 : RUNS) }, "reuse"));
      rates.push(ours);
      for (const how of ["as it comes", "sandboxed"] as const) {
        const theirs = await rateOf(measurePeer(bench, { peer: "bullmq", how, jobs: RUNS, timed: 0 }));
        ratios[how].push(ours / theirs);
      }
    }
    const found = (Object.entries(ratios)).flatMap(([how, each]) =>
      figures({ workload: "turns", who: "dandori", how: `against bullmq, ${how}`, n: each.length }, {
        ratio: [median(each), "x"],
        least: [Math.min(...each), "x"],
        most: [Math.max(...each), "x"],
      })
    );
    return [
      ...found,
      ...figures({ workload: "turns", who: "dandori", how: "reuse", n: rates.length }, {
        rate: [median(rates), "runs/s"],
      }),
    ];
  },
};

async function rateOf(measured: ReturnType<typeof measure>): Promise<number> {
  return (await measured).find((figure) => figure.measure === "rate")?.value ?? NaN;
}
