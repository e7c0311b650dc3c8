/**
 * Steps of workflows: how many no-op ones a second two workers of ten slots commit, of many short runs and of a few long ones, for
 * which CPU; and whether the last hundred of a long run take longer than the first. Beside DBOS Transact and openworkflow, whose
 * workflows run in their worker processes; ours in sandboxed ones.
 */
import { cpuPer1000, type Project, withProject } from "../project.ts";
import { type Setting, withPeer } from "../peer.ts";
import { showStatements } from "../statements.ts";
import { connectDb } from "../../src/postgres/connection.ts";
import { type Bench, type Figure, figures, type Workload } from "../workload.ts";

interface Shape {
  how: string;
  runs: number;
  steps: number;
}

const SHAPES: Shape[] = [
  { how: "many short runs", runs: 500, steps: 10 },
  { how: "few long runs", runs: 20, steps: 500 },
];
const WARM_RUNS = 40;
const PEERS: (Setting & { completed: string })[] = [
  {
    peer: "dbos",
    how: "tuned",
    completed: `select completed_at_epoch_ms::float8 as ms from dbos.operation_outputs where workflow_uuid = (
      select workflow_uuid from dbos.operation_outputs group by 1 order by count(*) desc limit 1) order by function_id`,
  },
  {
    peer: "openworkflow",
    how: "as it comes",
    completed:
      `select extract(epoch from finished_at)::float8 * 1000 as ms from openworkflow.step_attempts where workflow_run_id = (
      select workflow_run_id from openworkflow.step_attempts group by 1 order by count(*) desc limit 1) order by finished_at`,
  },
];
/** openworkflow ends a workflow at its thousandth step. */
const LONG_RUN = { dandori: 2_000, dbos: 2_000, openworkflow: 999 } as const;

const jobOf = (steps: number) =>
  `import { defineJob } from "dandori";
export default defineJob({
  isolation: { reuse: 10000 },
  async run({ step }) {
    for (let number = 0; number < ${steps}; number++) await step("no-op", () => null);
  },
});
`;

export const steps: Workload = {
  name: "steps",
  about: "no-op steps per second and CPU per 1,000 of them, beside DBOS Transact and openworkflow",
  async run(bench) {
    const found: Figure[] = [];
    for (const shape of SHAPES) {
      found.push(
        ...await ours(bench, {
          ...shape,
          runs: bench.runs ?? few(bench, shape.runs),
        }),
      );
      if (!bench.peers) continue;
      for (const setting of PEERS) {
        found.push(
          ...await theirs(bench, setting, {
            ...shape,
            runs: few(bench, shape.runs),
          }),
        );
      }
    }
    return found;
  },
};

export const stepCost: Workload = {
  name: "step-cost",
  about: "one run of 2,000 steps: the last hundred against the first, beside DBOS Transact and openworkflow",
  async run(bench) {
    const found = await ourCost(bench);
    if (bench.peers) {
      for (const setting of PEERS) {
        found.push(...await theirCost(bench, setting));
      }
    }
    return found;
  },
};

function few(bench: Bench, runs: number): number {
  return bench.quick ? Math.ceil(runs / 5) : runs;
}

async function ours(bench: Bench, { how, runs, steps }: Shape): Promise<Figure[]> {
  bench.say(`steps: ${runs} runs of ${steps}`);
  return await withProject(bench, {
    jobs: { counted: jobOf(steps), warm: jobOf(20) },
  }, async (project) => {
    await project.warm("warm", WARM_RUNS);
    await project.warm("counted", Math.min(WARM_RUNS, runs));
    await project.pause("counted", true);
    await project.enqueue("counted", runs);
    const counting = bench.statements && await bench.servers.countStatements();
    const before = project.cpu();
    const began = await project.pause("counted", false);
    await project.ended();
    const after = project.cpu();
    const seconds = await project.secondsSince(began, runs);
    if (counting) {
      showStatements(
        await bench.servers.statements(project.database_url),
        runs * steps,
      );
    }
    return figures({
      workload: "steps",
      who: "dandori",
      how,
      n: runs * steps,
    }, {
      rate: [runs * steps / seconds, "steps/s"],
      ...cpuPer1000(before, after, runs * steps),
    });
  });
}

async function theirs(
  bench: Bench,
  setting: Setting,
  { how, runs, steps }: Shape,
): Promise<Figure[]> {
  bench.say(`steps, ${setting.peer}: ${runs} runs of ${steps}`);
  return await withPeer(bench, { ...setting, steps }, async (peer) => {
    await peer.enqueue(Math.min(WARM_RUNS, runs));
    await peer.work();
    await peer.ended();
    await peer.rest();
    await peer.enqueue(runs);
    const before = peer.cpu();
    await peer.work();
    const seconds = await peer.ended();
    const after = peer.cpu();
    const parts = (["postgres", "workers"] as const)
      .map((part) => [part, (after[part] - before[part]) * 1_000 / (runs * steps)] as const);
    return figures({
      workload: "steps",
      who: setting.peer,
      how,
      n: runs * steps,
    }, {
      rate: [runs * steps / seconds, "steps/s"],
      "cpu all": [parts.reduce((sum, [, cpu]) => sum + cpu, 0), "s/1000"],
      ...Object.fromEntries(
        parts.map(([part, cpu]) => [`cpu ${part}`, [cpu, "s/1000"]]),
      ),
    });
  });
}

async function ourCost(bench: Bench): Promise<Figure[]> {
  const steps = LONG_RUN.dandori;
  bench.say(`step-cost: one run of ${steps}`);
  return await withProject(bench, {
    jobs: { counted: jobOf(steps), warm: jobOf(20) },
  }, async (project: Project) => {
    await project.warm("warm", WARM_RUNS);
    await project.enqueue("counted", 1);
    await project.ended();
    const rows = await project.sql<{ ms: number }[]>`
      select extract(epoch from s.ended_at)::float8 * 1000 as ms from run_step s
       where job_run_id = (select max(id) from job_run) order by seq`;
    return costFigures("dandori", rows.map(({ ms }) => ms));
  });
}

async function theirCost(
  bench: Bench,
  setting: Setting & { completed: string },
): Promise<Figure[]> {
  const { completed, ...peer_setting } = setting;
  const steps = LONG_RUN[setting.peer as "dbos" | "openworkflow"];
  bench.say(`step-cost, ${setting.peer}: one run of ${steps}`);
  return await withPeer(bench, { ...peer_setting, steps }, async (peer) => {
    for (const rest of [true, false]) { // the first one warms
      await peer.enqueue(1);
      await peer.work();
      await peer.ended();
      if (rest) await peer.rest();
    }
    const sql = connectDb(peer.database_url, { name: "bench", max: 1 });
    const rows = await sql.unsafe(completed) as unknown as { ms: number }[];
    await sql.end({ timeout: 2 });
    return costFigures(setting.peer, rows.map(({ ms }) => ms));
  });
}

/** From the first step's end to the hundredth's, and from the hundredth last to the last. */
function costFigures(who: string, ended_ms: number[]): Figure[] {
  const at = (place: number) => ended_ms.at(place) as number;
  const [first, last] = [(at(99) - at(0)) / 99, (at(-1) - at(-100)) / 99];
  return figures({
    workload: "step-cost",
    who,
    how: `1 x ${ended_ms.length}`,
    n: ended_ms.length,
  }, {
    "first hundred": [first, "ms"],
    "last hundred": [last, "ms"],
    ratio: [last / first, ""],
  });
}
