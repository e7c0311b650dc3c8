/**
 * Whether memory and open files stay flat over many runs, in the leader, the workers and the children that are used again:
 * a tenth of the runs first, as long as code is compiled and pools fill, then the rest. `--long` makes 1,000,000.
 *
 * While there is work V8 puts off collecting, each process for itself, and sizes go up and down by tens of MiB. So what is
 * compared is what is left after a rest in which all have collected; the most that any had under way is told beside it.
 */
import { rest } from "../../src/platform/timers.ts";
import { openFilesOf, rssOf } from "../processes.ts";
import { type Project, withProject } from "../project.ts";
import { figures, type Workload } from "../workload.ts";

const JOB = `import { defineJob } from "dandori";
export default defineJob({ isolation: { reuse: 1_000_000 }, run() {} });
`;
const ROUND = 5_000;
/** A leader or worker collects within 20 s of its last run, a body within 100. */
const COLLECTED_MS = 120_000;
/** Of `--quick`: then bodies may not have. */
const QUICK_MS = 20_000;

interface Sizes {
  leader: number;
  worker: number;
  body: number;
  files: number;
}

export const memory: Workload = {
  name: "memory",
  about: "growth of memory and open files over many runs; --long: 1,000,000",
  async run(bench) {
    const runs = bench.runs ?? (bench.long ? 1_000_000 : bench.quick ? 10_000 : 50_000);
    const rest_ms = bench.quick ? QUICK_MS : COLLECTED_MS;
    bench.say(`memory: ${runs} runs, two rests of ${rest_ms / 1000} s`);
    return await withProject(bench, { jobs: { noop: JOB } }, async (project) => {
      const first = Math.max(ROUND, Math.round(runs / 10 / ROUND) * ROUND);
      await make(project, first);
      const before = await sizesAfter(project, rest_ms);
      const most = await make(project, runs - first);
      const after = await sizesAfter(project, rest_ms);
      return figures({ workload: "memory", who: "dandori", how: "reuse", n: runs }, {
        "rss leader": [after.leader, "MiB"],
        "rss worker": [after.worker, "MiB"],
        "rss body": [after.body, "MiB"],
        "most leader": [most.leader, "MiB"],
        "most worker": [most.worker, "MiB"],
        "most body": [most.body, "MiB"],
        "growth leader": [after.leader - before.leader, "MiB"],
        "growth worker": [after.worker - before.worker, "MiB"],
        "growth body": [after.body - before.body, "MiB"],
        "growth files": [after.files - before.files, "files"],
      });
    });
  },
};

async function sizesAfter(project: Project, rest_ms: number): Promise<Sizes> {
  await rest(rest_ms);
  return sizesOf(project);
}

/** Gives the most of each on the way. */
async function make(project: Project, runs: number): Promise<Sizes> {
  const most: Sizes = { leader: 0, worker: 0, body: 0, files: 0 };
  for (let made = 0; made < runs; made += ROUND) {
    await project.enqueue("noop", ROUND);
    await project.ended();
    for (const [name, size] of Object.entries(sizesOf(project)) as [keyof Sizes, number][]) {
      most[name] = Math.max(most[name], size);
    }
  }
  return most;
}

function sizesOf(project: Project): Sizes {
  const [leader = NaN, ...workers] = rssOf(project.pids);
  const bodies = project.bodies();
  return {
    leader,
    worker: Math.max(...workers),
    body: Math.max(...bodies.map(({ rss_mib }) => rss_mib)),
    files: project.pids.reduce((sum, pid) => sum + openFilesOf(pid), 0),
  };
}
