/**
 * The same workloads by the peers: throughput with the CPU of everything, pickup on an idle system, due time to body start.
 * Each in the setting in which it is best at that, and as it comes where people would meet it so.
 */
import { rest } from "../../src/platform/timers.ts";
import { type Peer, type Setting, withPeer } from "../peer.ts";
import { type Bench, type Figure, figures, percentiles, type Workload } from "../workload.ts";
import { dueAt } from "./due.ts";
import { QUIET_MS } from "./pickup.ts";

/** How many jobs show its rate, and of how many its times are taken; 0: not measured. */
type Contest = Setting & { jobs: number; timed: number };

const CONTESTS: Contest[] = [
  { peer: "graphile_worker", how: "as it comes", jobs: 5_000, timed: 100 },
  { peer: "graphile_worker", how: "tuned", jobs: 30_000, timed: 0 },
  { peer: "pg_boss", how: "as it comes", jobs: 100, timed: 10 },
  { peer: "pg_boss", how: "tuned", jobs: 30_000, timed: 100 },
  { peer: "bullmq", how: "as it comes", jobs: 20_000, timed: 100 },
  { peer: "bullmq", how: "tuned", jobs: 20_000, timed: 0 },
  { peer: "bullmq", how: "sandboxed", jobs: 20_000, timed: 0 },
];
const WARM = 500;
const AHEAD_MS = 3_000;

export const peers: Workload = {
  name: "peers",
  about: "throughput, pickup and due time of graphile-worker, pg-boss and BullMQ; --no-peers leaves it out",
  async run(bench) {
    const found: Figure[] = [];
    for (const contest of CONTESTS) found.push(...await measure(bench, contest));
    return found;
  },
};

export async function measure(bench: Bench, contest: Contest): Promise<Figure[]> {
  const { how, timed } = contest;
  const who = contest.peer.replace("_", "-");
  const jobs = bench.quick ? Math.ceil(contest.jobs / 5) : contest.jobs;
  bench.say(`peers, ${who} ${how}: ${jobs} jobs`);
  return await withPeer(bench, contest, async (peer) => {
    await warm(peer, Math.min(WARM, jobs / 5));
    await peer.enqueue(jobs);
    const before = peer.cpu();
    await peer.work();
    const seconds = await peer.ended();
    const after = peer.cpu();
    const parts = (["postgres", "redis", "workers"] as const)
      .map((part) => [part, (after[part] - before[part]) * 1_000 / jobs] as const);
    const found = figures({ workload: "throughput", who, how, n: jobs }, {
      rate: [jobs / seconds, "runs/s"],
      "cpu all": [parts.reduce((sum, [, cpu]) => sum + cpu, 0), "s/1000"],
      ...Object.fromEntries(parts.map(([part, cpu]) => [`cpu ${part}`, [cpu, "s/1000"]])),
    });
    if (timed > 0) found.push(...await times(peer, { who, how, n: bench.quick ? Math.ceil(timed / 5) : timed }));
    return found;
  });
}

/** Compiled, connected and idle again. */
async function warm(peer: Peer, jobs: number): Promise<void> {
  await peer.enqueue(jobs);
  await peer.work();
  await peer.ended();
  await peer.rest();
}

async function times(peer: Peer, on: { who: string; how: string; n: number }): Promise<Figure[]> {
  await rest(500);
  const took = await peer.pickup(on.n, QUIET_MS);
  const first_ms = Date.now() + AHEAD_MS;
  const late = await peer.due(Array.from({ length: Math.min(on.n, 50) }, (_, place) => dueAt(first_ms, place)));
  return [
    ...figures({ workload: "pickup", ...on }, percentiles(took)),
    ...figures({ workload: "due", ...on, n: late.length }, percentiles(late)),
  ];
}
