/**
 * How soon runs start when so many are enqueued every second, one by one and evenly spread: from before the enqueue to the first line
 * of the body, by the wall clock of this machine. No-op bodies in reused processes; the peers' in their workers.
 */
import { rest } from "../../src/platform/timers.ts";
import { type Setting, withPeer } from "../peer.ts";
import { cpuPer1000, withProject } from "../project.ts";
import { showStatements } from "../statements.ts";
import { type Bench, type Figure, figures, percentiles, type Workload } from "../workload.ts";
import { TIMED, WARM_RUNS } from "./pickup.ts";

const RATES = [50, 200, 1_000];
const SECONDS = 10;
const WARM_JOBS = 2_000;
const PEERS: Setting[] = [
  { peer: "bullmq", how: "as it comes" },
  { peer: "graphile_worker", how: "as it comes" },
  { peer: "pg_boss", how: "tuned" },
];

export const steady: Workload = {
  name: "steady",
  about: "enqueue to body start while 50, 200 and 1,000 runs a second are enqueued one by one",
  async run(bench) {
    const seconds = bench.quick ? 2 : SECONDS;
    const found = await ours(bench, seconds);
    for (const setting of bench.peers ? PEERS : []) found.push(...await theirs(bench, { ...setting, seconds }));
    return found;
  },
};

function ours(bench: Bench, seconds: number): Promise<Figure[]> {
  bench.say(`steady: ${seconds} s at each rate`);
  return withProject(bench, { jobs: { timed: TIMED.reuse } }, async (project) => {
    const found: Figure[] = [];
    await project.warm("timed", WARM_RUNS.reuse);
    for (const rate of RATES) {
      const counting = bench.statements && await bench.servers.countStatements();
      const before = project.cpu();
      const asked: Promise<[id: number, at_ms: number]>[] = [];
      const began_ms = performance.now();
      for (let run = 0; run < rate * seconds; run++) {
        await restUntilDue(began_ms + run * 1000 / rate);
        const at_ms = performance.timeOrigin + performance.now();
        asked.push(project.client.enqueue("timed", {}).then(({ id }) => [id, at_ms]));
      }
      const asked_ms = new Map(await Promise.all(asked));
      await project.ended();
      const cpu = cpuPer1000(before, project.cpu(), asked_ms.size);
      if (counting) showStatements(await bench.servers.statements(project.database_url), asked_ms.size, `${rate}/s`);
      const rows = await project.sql<{ id: number; body_ms: number }[]>`
        select id, result::float8 as body_ms from job_run where id = any(${[...asked_ms.keys()]}::bigint[])`;
      const took_ms = rows.map(({ id, body_ms }) => body_ms - (asked_ms.get(id) as number));
      found.push(
        ...of({ who: "dandori", rate, took_ms }),
        ...figures(
          { workload: "steady", who: "dandori", how: `${rate}/s`, n: took_ms.length },
          cpu,
        ),
      );
      await rest(1_000);
    }
    return found;
  });
}

function theirs(bench: Bench, { seconds, ...setting }: Setting & { seconds: number }): Promise<Figure[]> {
  const who = setting.peer.replace("_", "-");
  bench.say(`steady, ${who} ${setting.how}`);
  return withPeer(bench, setting, async (peer) => {
    await peer.enqueue(WARM_JOBS);
    await peer.work();
    await peer.ended();
    const found: Figure[] = [];
    for (const rate of RATES) {
      found.push(...of({ who, rate, took_ms: await peer.steady({ jobs: rate * seconds, each_ms: 1000 / rate }) }));
    }
    return found;
  });
}

async function restUntilDue(due_ms: number): Promise<void> {
  const left_ms = due_ms - performance.now();
  if (left_ms > 0) await rest(left_ms);
}

function of({ who, rate, took_ms }: { who: string; rate: number; took_ms: number[] }): Figure[] {
  return figures({ workload: "steady", who, how: `${rate}/s`, n: took_ms.length }, percentiles(took_ms));
}
