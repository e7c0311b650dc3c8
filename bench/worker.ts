/**
 * A worker by itself: how fast it accepts, runs and ends runs that a leader has given it already.
 * `deno run -A bench/worker.ts [--runs N] [--ahead N] [--job reused|fresh|logs] [--json]`
 *
 * What a worker does with its orders, and its sandbox, over a Postgres of its own; no gRPC, no Redis and no leader, in whose place
 * runs are made ASSIGNED by SQL and ordered so that `ahead` of them (110; `fresh`: half as many again as slots) are always in hand. CPU seconds are read from /proc:
 * of this process, of the bodies' processes, and of the sessions of this database.
 */
import { parseArgs } from "node:util";
import { hear } from "../src/platform/facts.ts";
import { printFacts } from "../src/app/fact_lines.ts";
import { PROJECT_DIR } from "../src/platform/config.ts";
import { Digests } from "../src/sync/module_graph.ts";
import { Executor } from "../src/worker/executor.ts";
import { PendingStarts } from "../src/worker/pending_starts.ts";
import { identify, ResultJournal } from "../src/worker/results/result_journal.ts";
import { LocalWorkerState } from "../src/worker/worker_state.ts";
import { ProcessPool } from "../src/sandbox/process_pool.ts";
import { connectDb } from "../src/postgres/connection.ts";
import { DEFAULT_SETTINGS } from "../src/settings/settings.ts";
import { aDefinition, aWorker } from "../tests/support/factories.ts";
import { type Stores, withStores } from "../tests/support/stores.ts";

const ME = "w1-0000000a";
const FOREVER = new AbortController().signal;
const JOBS = {
  reused: { isolation_reuse: 10_000, code: "defineJob({ isolation: { reuse: 10_000 }, run: () => null })" },
  logs: {
    isolation_reuse: 1000,
    code: "defineJob({ isolation: { reuse: 1000 }, run: ({ log }) => { log.info('done', { by: 'me' }) } })",
  },
  fresh: { isolation_reuse: 0, code: "defineJob({ run: () => null })" },
};

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "20000" },
    ahead: { type: "string" },
    slots: { type: "string", default: "10" },
    job: { type: "string", default: "reused" },
    json: { type: "boolean", default: false },
  },
});
const job = values.job as keyof typeof JOBS;
const [runs, slots] = [Number(values.runs), Number(values.slots)];
/** What does not start within a second is given back, and a process for each run takes its time. */
const ahead = Number(values.ahead ?? (job === "fresh" ? slots * 1.5 : 110));

/** CPU seconds that a process and what it has reaped have used. */
function cpuOf(pid: number, reaped = false): number {
  try {
    const text = Deno.readTextFileSync(`/proc/${pid}/stat`);
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ").map(Number);
    const [user = 0, system = 0, reaped_user = 0, reaped_system = 0] = fields.slice(11, 15);
    return (user + system + (reaped ? reaped_user + reaped_system : 0)) / 100;
  } catch {
    return 0;
  }
}

function childrenCpu(): number {
  const living = [...Deno.readDirSync("/proc")].map(({ name }) => Number(name)).filter((pid) => {
    try {
      return Deno.readTextFileSync(`/proc/${pid}/stat`).split(") ")[1]?.split(" ")[1] === String(Deno.pid);
    } catch {
      return false;
    }
  });
  return living.reduce((sum, pid) => sum + cpuOf(pid, true), cpuOf(Deno.pid, true) - cpuOf(Deno.pid));
}

async function assign(stores: Stores, definition: { id: number }, n: number): Promise<number[]> {
  const rows = await stores.sql<{ id: number }[]>`
    insert into job_run (job_definition_id, source, state, assigned_worker_id, assigned_at, leader_epoch)
    select ${definition.id}, 'enqueue', 'ASSIGNED', ${ME}, clock_timestamp(), 1 from generate_series(1, ${n}::int) returning id`;
  return rows.map(({ id }) => id);
}

/** Orders runs so that up to `ahead` of them are in hand, half as many at a time as a leader's tick would, until all have ended. Gives the seconds. */
async function feed(
  pending_starts: PendingStarts,
  ids: number[],
  code: { command_name: string; digest: string },
): Promise<number> {
  let next = 0, ended = 0, refused = 0;
  let done = () => {};
  const all = new Promise<void>((resolve) => done = resolve);
  const more = () => {
    if (next - ended > ahead / 2) return;
    while (next < ids.length && next - ended < ahead) {
      const job_run_id = ids[next++] as number;
      Promise.resolve(pending_starts.take({ job_run_id, attempt: 1, due_unix_us: 0, priority: 240, ...code })).then(
        ({ result }) => {
          if (result !== "ACCEPTED") refused++;
        },
      );
    }
  };
  const silence = hear((name) => {
    if (name === "run.refused" || name === "run.orphaned") refused++;
    else if (name !== "run.finished") return;
    if (++ended === ids.length) done();
    else queueMicrotask(more);
  });
  const began = performance.now();
  more();
  await all;
  silence();
  if (refused) throw new Error(`${refused} refused or given back: set --ahead lower`);
  return (performance.now() - began) / 1000;
}

/** Facts cost what they cost a worker. */
function factsToNowhere(): void {
  const out = Deno.openSync("/dev/null", { write: true });
  const encoder = new TextEncoder();
  printFacts((lines) => void out.writeSync(encoder.encode(`${lines.join("\n")}\n`)));
}

async function measure(stores: Stores, folder: string) {
  const { database_url } = stores;
  const sql = connectDb(database_url, { name: "worker bench", max: 6, steady: true });
  const command_name = "bench.ts";
  const jobs_dir = `${PROJECT_DIR}/.dandori/bench_${Deno.pid}`;
  await Deno.mkdir(jobs_dir, { recursive: true });
  try {
    await Deno.writeTextFile(
      `${jobs_dir}/${command_name}`,
      `import { defineJob } from "dandori";\nexport default ${JOBS[job].code};\n`,
    );
    await aWorker(stores.sql, { worker_id: ME });
    const digests = new Digests({ jobs_dir, project_dir: PROJECT_DIR });
    const mine = await digests.of(command_name);
    if (!("digest" in mine)) throw new Error(mine.problem);
    const { digest } = mine;
    const definition = await aDefinition(stores.sql, {
      name: "bench",
      command_name,
      digest,
      isolation_reuse: JOBS[job].isolation_reuse,
    });
    const local = new LocalWorkerState({ worker_id: ME, node_id: "here", slots, settings: DEFAULT_SETTINGS });
    local.may_run_until_ms = Infinity;
    local.sawEpoch(1);
    const journal = new ResultJournal(folder, await identify(ME));
    journal.open();
    const sandbox = new ProcessPool({
      project_dir: PROJECT_DIR,
      state_dir: folder,
      spares: DEFAULT_SETTINGS.spare_processes,
      env: Deno.env.toObject(),
      owner: ME,
    });
    const executor = new Executor({ sql, sandbox, digests, local, jobs_dir, journal });
    const pending_starts = new PendingStarts({ sql, executor, sandbox, digests, local, jobs_dir });
    factsToNowhere();
    const go = (ids: number[]) => feed(pending_starts, ids, { command_name, digest });
    await go(await assign(stores, definition, Math.min(200, runs)));
    const ids = await assign(stores, definition, runs);
    const sessions = await stores.sql<{ pid: number }[]>`
      select pid from pg_stat_activity where datname = current_database() and application_name like '%worker bench'`;
    const postgres = () => sessions.reduce((sum, { pid }) => sum + cpuOf(pid), 0);
    const before = { worker: cpuOf(Deno.pid), bodies: childrenCpu(), postgres: postgres() };
    const memory = Deno.memoryUsage().rss;
    const seconds = await go(ids);
    const per_1000 = (used: number) => Math.round(used / runs * 1e6) / 1e3;
    const figures = {
      job,
      runs,
      ahead,
      slots,
      runs_per_s: Math.round(runs / seconds),
      worker_cpu: per_1000(cpuOf(Deno.pid) - before.worker),
      bodies_cpu: per_1000(childrenCpu() - before.bodies),
      postgres_cpu: per_1000(postgres() - before.postgres),
      rss_grown_mb: Math.round((Deno.memoryUsage().rss - memory) / 1e6),
    };
    const [check] = await stores.sql<{ ok: number }[]>`
      select count(*)::int as ok from job_run where state = 'SUCCEEDED' and id = any(${ids})`;
    if (check?.ok !== runs) throw new Error(`only ${check?.ok} of ${runs} succeeded`);
    await executor.stop("over", FOREVER);
    await sandbox.close();
    journal.close(true);
    return figures;
  } finally {
    await sql.end({ timeout: 2 });
    await Deno.remove(jobs_dir, { recursive: true });
  }
}

const folder = await Deno.makeTempDir({ prefix: "dandori-bench-" });
const figures = await withStores((stores) => measure(stores, folder)).finally(() =>
  Deno.remove(folder, { recursive: true })
);
console.log(values.json ? JSON.stringify(figures) : figures);
Deno.exit(0);
