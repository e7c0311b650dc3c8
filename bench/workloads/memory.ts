/**
 * Whether memory and open files stay flat over many runs, in the leader, the workers and the children that are used again:
 * a tenth of the runs first, as long as code is compiled and pools fill, then the rest. `--long` makes 1,000,000.
 */
import { openFilesOf, rssOf } from "../processes.ts";
import { type Project, withProject } from "../project.ts";
import { figures, type Workload } from "../workload.ts";

const JOB = `import { defineJob } from "dandori";
export default defineJob({ isolation: { reuse: 1_000_000 }, run() {} });
`;
const ROUND = 5_000;

export const memory: Workload = {
  name: "memory",
  about: "growth of memory and open files over many runs; --long: 1,000,000",
  async run(bench) {
    const runs = bench.runs ?? (bench.long ? 1_000_000 : bench.quick ? 10_000 : 50_000);
    bench.say(`memory: ${runs} runs`);
    return await withProject(bench, { jobs: { noop: JOB } }, async (project) => {
      const first = Math.max(ROUND, Math.round(runs / 10 / ROUND) * ROUND);
      await make(project, first);
      const before = sizesOf(project);
      await make(project, runs - first);
      const after = sizesOf(project);
      return [
        ...figures({ workload: "memory", who: "dandori", how: "reuse", n: runs }, {
          "rss leader": [after.leader, "MiB"],
          "rss worker": [after.worker, "MiB"],
          "rss body": [after.body, "MiB"],
          "growth leader": [after.leader - before.leader, "MiB"],
          "growth worker": [after.worker - before.worker, "MiB"],
          "growth body": [after.body - before.body, "MiB"],
          "growth files": [after.files - before.files, "files"],
        }),
      ];
    });
  },
};

async function make(project: Project, runs: number): Promise<void> {
  for (let made = 0; made < runs; made += ROUND) {
    await project.enqueue("noop", ROUND);
    await project.ended();
  }
}

function sizesOf(project: Project): { leader: number; worker: number; body: number; files: number } {
  const [leader = NaN, ...workers] = rssOf(project.pids);
  const bodies = project.bodies();
  return {
    leader,
    worker: Math.max(...workers),
    body: Math.max(...bodies.map(({ rss_mib }) => rss_mib)),
    files: project.pids.reduce((sum, pid) => sum + openFilesOf(pid), 0),
  };
}
