/**
 * What a system costs in which nothing happens: CPU and memory of a worker, statements to Postgres per second of the whole
 * system (a leader and two workers); and the same of peers' workers. CPU is that of all threads of all processes, by the nanosecond.
 */
import { monotonicMs, rest } from "../../src/platform/timers.ts";
import { type Setting, withPeer } from "../peer.ts";
import { rssOf, threadTimesOf } from "../processes.ts";
import { withProject } from "../project.ts";
import { type Bench, type Figure, figures, type Workload } from "../workload.ts";
import { NO_OP } from "./throughput.ts";

/** V8 gives back what a start and the first runs took within three quarters of a minute after them, whoever is measured. */
const SETTLE_MS = 45_000;
/** What runs once a second is hot to V8 only after minutes; until then it compiles now and then, a fifth of what a worker takes. */
const LONG_SETTLE_MS = 360_000;
const PEERS: Setting[] = [
  { peer: "graphile_worker", how: "tuned" },
  { peer: "bullmq", how: "as it comes" },
];

export const idle: Workload = {
  name: "idle",
  about: "CPU and memory of an idle worker, statements to Postgres per second of an idle system",
  async run(bench) {
    const found = await ofProject(bench);
    if (bench.peers) { for (const setting of PEERS) found.push(...await ofPeer(bench, setting)); }
    return found;
  },
};

async function ofProject(bench: Bench): Promise<Figure[]> {
  const seconds = bench.quick ? 8 : 25;
  bench.say(`idle: ${seconds} s`);
  return await withProject(bench, { jobs: { noop: NO_OP.reuse } }, async (project) => {
    await project.warm("noop", 100);
    await settle(bench);
    const counting = await bench.servers.countStatements();
    const { each, rss } = await watch(project.pids, seconds);
    const statements = counting ? await bench.servers.statements(project.database_url) : [];
    const calls = statements.reduce((sum, statement) => sum + statement.calls, 0);
    if (bench.statements) { for (const { query, calls } of statements) console.log(`${calls} ${query.slice(0, 150)}`); }
    const [leader = NaN, ...workers] = each;
    return figures({ workload: "idle", who: "dandori", how: "2 workers", n: seconds }, {
      "cpu worker": [Math.max(...workers), "% core"],
      "cpu leader": [leader, "% core"],
      "rss worker": [Math.max(...rss.slice(1)), "MiB"],
      "rss leader": [rss[0] ?? NaN, "MiB"],
      ...(counting ? { statements: [calls / seconds, "/s"] } : {}),
    });
  });
}

async function ofPeer(bench: Bench, setting: Setting): Promise<Figure[]> {
  const seconds = bench.quick ? 8 : 25;
  bench.say(`idle, ${setting.peer}: ${seconds} s`);
  return await withPeer(bench, setting, async (peer) => {
    await peer.enqueue(100);
    await peer.work();
    await peer.ended();
    await settle(bench);
    const { each, rss } = await watch(peer.pids, seconds);
    return figures({ workload: "idle", who: setting.peer.replace("_", "-"), how: setting.how, n: seconds }, {
      "cpu worker": [Math.max(...each), "% core"],
      "rss worker": [Math.max(...rss), "MiB"],
    });
  });
}

async function settle(bench: Bench): Promise<void> {
  await rest(bench.quick ? SETTLE_MS / 5 : bench.long ? LONG_SETTLE_MS : SETTLE_MS);
}

/** Percent of a core that each process spends with all below it, and MiB of memory that it has by itself. */
async function watch(pids: number[], seconds: number): Promise<{ each: number[]; rss: number[] }> {
  const before = pids.map(threadTimesOf);
  const began_ms = monotonicMs();
  await rest(seconds * 1000);
  const took_ns = (monotonicMs() - began_ms) * 1e6;
  const each = pids.map((pid, place) => {
    let ns = 0;
    for (const [thread, now_ns] of threadTimesOf(pid)) ns += now_ns - (before[place]?.get(thread) ?? 0);
    return ns / took_ns * 100;
  });
  return { each, rss: rssOf(pids) };
}
