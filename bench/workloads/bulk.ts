/** Bulks: items stored per second, from the call to the commit, and runs per second of one that is fed ten at a time. */
import { rest } from "../../src/platform/timers.ts";
import { withProject } from "../project.ts";
import { figures, type Workload } from "../workload.ts";
import { NO_OP } from "./throughput.ts";

export const bulk: Workload = {
  name: "bulk",
  about: "items of a bulk stored per second, and runs per second of a bulk at 10",
  only_by_name: true,
  async run(bench) {
    const runs = bench.runs ?? (bench.quick ? 300 : 1_000);
    const items = bench.quick ? 20_000 : 100_000;
    bench.say(`bulk: ${items} items stored, ${runs} run`);
    return await withProject(bench, { jobs: { noop: NO_OP.reuse } }, async ({ client, sql }) => {
      const storing = performance.now();
      await sql.begin(async (tx) => { // canceled in the same transaction, so no run of it starts
        const { id } = await client.within(tx).bulk("noop", numbered(items));
        await client.within(tx).changeBulk(id, { state: "CANCELED" });
      });
      const stored_seconds = (performance.now() - storing) / 1000;
      const began = performance.now();
      const { id } = await client.bulk("noop", numbered(runs), { parallel: 10 });
      while ((await client.bulkProgress(id))?.state !== "FINISHED") await rest(50);
      const seconds = (performance.now() - began) / 1000;
      return [
        ...figures({ workload: "bulk", who: "dandori", how: "items stored", n: items }, {
          rate: [items / stored_seconds, "items/s"],
        }),
        ...figures({ workload: "bulk", who: "dandori", how: "at 10, reuse", n: runs }, {
          rate: [runs / seconds, "runs/s"],
        }),
      ];
    });
  },
};

function* numbered(items: number): Generator<{ device: number; tenant: string }> {
  for (let device = 0; device < items; device++) yield { device, tenant: "acme" };
}
