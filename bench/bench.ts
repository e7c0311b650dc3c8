/**
 * First figures: how soon a body starts, how many runs per second go through, and how long a death interrupts.
 * `deno task bench [--json] [--runs N] [--tries N] [--lease]`; 0 leaves out one kind or the other.
 *
 * Everything is real and on this machine: Postgres and Redis of DATABASE_URL and REDIS_URL or embedded ones, two worker
 * processes with ten slots each besides the leader, default settings. Figures are for comparing on one machine.
 */
import { parseArgs } from "node:util";
import type { Cluster } from "../tests/support/cluster.ts";
import { withProcesses } from "../tests/support/cluster.ts";
import { DEFAULT_SETTINGS } from "../src/store/settings.ts";
import { recovery } from "./recovery.ts";

interface Figure {
  workload: string;
  n: number;
  unit: string;
  p50?: number;
  p99?: number;
  rate?: number;
  median?: number;
  max?: number;
}

const body = (isolation: string) => `
  import { defineJob } from "dandori";
  export default defineJob({ isolation: ${isolation}, run: () => performance.timeOrigin + performance.now() });`;

const JOBS = { "fresh.ts": body('"process"'), "reused.ts": body("{ reuse: 1000 }") };

/** From before the enqueue to the first line of the body, one run at a time on an idle system. */
async function pickup(cluster: Cluster, job: string, n: number): Promise<Figure> {
  const took: number[] = [];
  for (let run = 0; run < n + 3; run++) {
    const began = performance.timeOrigin + performance.now();
    const ended = await cluster.ends(await cluster.enqueue(job));
    if (ended.state !== "SUCCEEDED") throw new Error(`A run of ${job} ended as ${ended.state}: ${ended.error_summary}`);
    if (run >= 3) took.push(ended.result as number - began); // the first ones load the job's process
    await new Promise((resolve) => setTimeout(resolve, 100)); // let the next spare load, as on an idle system
  }
  took.sort((one, other) => one - other);
  const at = (share: number) => round(took[Math.min(took.length - 1, Math.floor(share * took.length))] ?? NaN);
  return { workload: `pickup, ${job}`, n, unit: "ms", p50: at(0.5), p99: at(0.99) };
}

/** Runs that wait when the clock starts, until the last has ended. */
async function throughput(cluster: Cluster, job: string, n: number): Promise<Figure> {
  const began = performance.now();
  await cluster.client.enqueueMany(job, Array.from({ length: n }, () => ({ args: {} })));
  for (;;) {
    const [row] = await cluster.sql<{ left: number; failed: number }[]>`
      select count(*) filter (where finished_at is null)::int as left, count(*) filter (where state = 'FAILED')::int as failed from job_run`;
    if (row?.failed) throw new Error(`${row.failed} runs of ${job} failed`);
    if (row?.left === 0) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const seconds = (performance.now() - began) / 1000;
  return { workload: `throughput, ${job}`, n, unit: "runs/s", rate: round(n / seconds) };
}

/** From the call until all items are committed; no run of them starts, since the bulk is canceled in the same transaction. */
async function enqueueing(cluster: Cluster, n: number): Promise<Figure> {
  function* items() {
    for (let device = 0; device < n; device++) yield { device, tenant: "acme" };
  }
  const began = performance.now();
  await cluster.sql.begin(async (tx) => {
    const { id } = await cluster.client.within(tx).bulk("fresh", items());
    await cluster.client.within(tx).changeBulk(id, { state: "CANCELED" });
  });
  return { workload: "bulk, items made", n, unit: "items/s", rate: round(n / ((performance.now() - began) / 1000)) };
}

/** A bulk of the reused job, ten at once, until it has ended. */
async function bulk(cluster: Cluster, n: number): Promise<Figure> {
  const began = performance.now();
  const { id } = await cluster.client.bulk("reused", Array.from({ length: n }, () => ({})), { parallel: 10 });
  while ((await cluster.client.bulkProgress(id))?.state !== "FINISHED") {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const seconds = (performance.now() - began) / 1000;
  return { workload: "bulk at 10, reused", n, unit: "runs/s", rate: round(n / seconds) };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

const { values } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    runs: { type: "string", default: "300" },
    tries: { type: "string", default: "10" },
    lease: { type: "boolean", default: false },
  },
});
const [n, tries] = [Number(values.runs), Number(values.tries)];
const figures: Figure[] = [];
if (n > 0) {
  await withProcesses(3, async (cluster) => {
    figures.push(await pickup(cluster, "fresh", Math.min(n, 100)));
    figures.push(await pickup(cluster, "reused", Math.min(n, 100)));
    figures.push(await throughput(cluster, "fresh", n));
    figures.push(await throughput(cluster, "reused", 10 * n));
    figures.push(await bulk(cluster, 3 * n));
    figures.push(await enqueueing(cluster, 100_000));
  }, { jobs: JOBS, settings: DEFAULT_SETTINGS });
}
if (tries > 0) figures.push(...await recovery(tries, { lease: values.lease }));

if (values.json) console.log(JSON.stringify({ deno: Deno.version.deno, figures }, null, 2));
else {
  const cell = (value: number | string | undefined, width: number) => String(value ?? "").padStart(width);
  const row = (name: string, cells: (number | string | undefined)[]) =>
    console.log(`${name.padEnd(36)}${cells.map((value) => cell(value, 9)).join("")}`);
  row("workload", ["n", "p50", "p99", "max", "rate"]);
  for (const { workload, n, unit, p50, median, p99, max, rate } of figures) {
    row(workload, [n, p50 ?? median, p99, max, rate, unit]);
  }
  console.log(JSON.stringify({ deno: Deno.version.deno, figures }));
}
Deno.exit(0);
