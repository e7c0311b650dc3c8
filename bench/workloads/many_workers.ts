/**
 * What Postgres spends on 1,000 runs when 5 worker processes do them, and when 60 do. Each is a real process with two slots
 * and one reused child for each, five to a node; runs are no-ops, enqueued before. Where workers fetch for themselves, more of them cost more.
 */
import { rest } from "../../src/platform/timers.ts";
import { cpuPer1000, withProject } from "../project.ts";
import { showStatements } from "../statements.ts";
import { type Bench, type Figure, figures, type Workload } from "../workload.ts";
import { NO_OP } from "./throughput.ts";

const SLOTS = 2;
/** Sixty processes that start on a few cores are not done with it when the first runs have ended. */
const SETTLE_MS = 15_000;

export const manyWorkers: Workload = {
  name: "many-workers",
  about: "CPU of Postgres per 1,000 runs with 60 worker processes against 5",
  async run(bench) {
    const found: Figure[] = [];
    for (const workers of bench.quick ? [5, 20] : [5, 60]) found.push(...await measure(bench, workers));
    return found;
  },
};

async function measure(bench: Bench, workers: number): Promise<Figure[]> {
  const runs = bench.runs ?? (bench.quick ? 2_000 : 10_000);
  bench.say(`many-workers, ${workers} workers: ${runs} runs`);
  const options = {
    jobs: { noop: NO_OP.reuse },
    workers,
    slots: SLOTS,
    each_node: 5,
    settings: { spare_processes: 1 },
  };
  return await withProject(bench, options, async (project) => {
    await project.warm("noop", 20 * workers * SLOTS);
    await rest(SETTLE_MS);
    await project.pause("noop", true);
    await project.enqueue("noop", runs);
    const counting = bench.statements && await bench.servers.countStatements();
    const before = project.cpu();
    const began = await project.pause("noop", false);
    await project.ended();
    const after = project.cpu();
    const seconds = await project.secondsSince(began, runs);
    if (counting) showStatements(await bench.servers.statements(project.database_url), runs, `${workers} workers`);
    return figures({ workload: "many-workers", who: "dandori", how: `${workers} workers`, n: runs }, {
      rate: [runs / seconds, "runs/s"],
      ...cpuPer1000(before, after, runs),
    });
  });
}
