/**
 * Runs per second, and CPU seconds of everything per 1,000 of them: no-op bodies, all enqueued while the job is paused, two
 * workers of ten slots each. From the moment the job is resumed until the last end is recorded, by the database's clock.
 */
import { cpuPer1000, withProject } from "../project.ts";
import { showStatements } from "../statements.ts";
import { type Bench, type Figure, figures, ofEachIsolation } from "../workload.ts";

/** A child that is used again this often costs nothing measurable; peers keep theirs for ever. */
const REUSE = 10_000;

export const NO_OP = {
  reuse:
    `import { defineJob } from "dandori";\nexport default defineJob({ isolation: { reuse: ${REUSE} }, run() {} });\n`,
  process: `import { defineJob } from "dandori";\nexport default defineJob({ isolation: "process", run() {} });\n`,
};

export const throughput = ofEachIsolation({
  name: "throughput",
  about: "runs per second and CPU per 1,000 runs; --reuse or --process for one of the two isolations",
  measure,
});

export async function measure(bench: Bench, isolation: "reuse" | "process"): Promise<Figure[]> {
  const reused = isolation === "reuse";
  const runs = bench.runs ?? (reused ? (bench.quick ? 2_000 : 30_000) : (bench.quick ? 100 : 400));
  bench.say(`throughput, ${isolation}: ${runs} runs`);
  return await withProject(bench, { jobs: { noop: NO_OP[isolation] } }, async (project) => {
    await project.warm("noop", reused ? 500 : 40);
    await project.pause("noop", true);
    await project.enqueue("noop", runs);
    const counting = bench.statements && await bench.servers.countStatements();
    const before = project.cpu();
    const began = await project.pause("noop", false);
    await project.ended();
    const after = project.cpu();
    const seconds = await project.secondsSince(began, runs);
    if (counting) showStatements(await bench.servers.statements(project.database_url), runs);
    return figures({ workload: "throughput", who: "dandori", how: isolation, n: runs }, {
      rate: [runs / seconds, "runs/s"],
      ...cpuPer1000(before, after, runs),
    });
  });
}
