/**
 * Whether it matters how much is waiting: the time of 2,000 runs when nothing else waits, then with 1,000,000 waiting behind
 * a job that runs as many as it may, 1,000,000 for a node that is full, 1,000,000 of their own job, and 1,000,000 of 100,000
 * serial keys. What waits is added to what waited before, so the last of them are measured with 4,000,000.
 */
import type { Sql } from "../../src/store/db.ts";
import { type Project, withProject } from "../project.ts";
import { type Bench, type Figure, figures, type Workload } from "../workload.ts";
import { rest } from "../../src/base/loop.ts";

const FIRST = 2_000;
const REUSED = "isolation: { reuse: 10000 }";
const job = (options: string, run = "run() {}") =>
  `import { defineJob } from "dandori";\nexport default defineJob({ ${REUSED}, ${options} ${run} });\n`;
const JOBS = {
  noop: job(""),
  keyed: job(""),
  pinned: job(""),
  // Its one run goes on, and fills the node that it is on.
  saturated: job("concurrency: { limit: 1 },", "run: () => new Promise((done) => setTimeout(done, 3_600_000))"),
};
/** The third worker's, beside those that the runs measured are on. */
const FULL_NODE = "bench-3";

export const backlog: Workload = {
  name: "backlog",
  about: "the first 2,000 runs with 1,000,000 waiting, in four ways, against none",
  async run(bench) {
    const waiting = bench.runs ?? (bench.quick ? 20_000 : 1_000_000);
    return await withProject(bench, { jobs: JOBS, workers: 3 }, (project) => measureAll(bench, project, waiting));
  },
};

async function measureAll(bench: Bench, project: Project, waiting: number): Promise<Figure[]> {
  const { sql } = project;
  const found: Figure[] = [];
  const measure = async (how: string, job_name: string, prepare: () => Promise<void>) => {
    bench.say(`backlog: ${how}`);
    await project.pause(job_name, true);
    const first = await enqueueFirst(sql, job_name);
    await prepare();
    await sql`vacuum analyze job_run`; // as autovacuum would in its time
    await sql`checkpoint`;
    const seconds = await untilEnded(project, job_name, first);
    found.push(
      ...figures({ workload: "backlog", who: "dandori", how, n: FIRST }, { rate: [FIRST / seconds, "runs/s"] }),
    );
  };

  await sql`update node set max_concurrent = 1 where node_id = ${FULL_NODE}`;
  await insert(sql, "saturated", { runs: 1, node: FULL_NODE });
  while (!(await sql`select from job_run where state = 'RUNNING'`).length) await rest(50);
  const noop = async () => await project.pause("noop", true);
  await noop();
  await untilEnded(project, "noop", await enqueueFirst(sql, "noop")); // loaded
  await measure("none", "noop", async () => {});
  await measure("behind a saturated job", "noop", () => insert(sql, "saturated", { runs: waiting }));
  await measure("behind a full node", "noop", () => insert(sql, "pinned", { runs: waiting, node: FULL_NODE }));
  await measure("of the same job", "noop", () => insert(sql, "noop", { runs: waiting }));
  await noop();
  await measure("of 100,000 serial keys", "keyed", () => insert(sql, "keyed", { runs: waiting, keys: waiting / 10 }));
  return found;
}

/** Of a job that is paused; keyed runs have a key each, of which more will wait. */
async function enqueueFirst(sql: Sql, job_name: string): Promise<{ from: number; to: number }> {
  const keys = job_name === "keyed" ? FIRST : undefined;
  await insert(sql, job_name, { runs: FIRST, keys });
  const [row] = await sql<{ from: number; to: number }[]>`
    select max(id) - ${FIRST} + 1 as from, max(id) as to from job_run`;
  return row as { from: number; to: number };
}

/** As they are born: what is behind its serial key is held. One statement for all, since a million take minutes otherwise. */
async function insert(sql: Sql, job_name: string, what: { runs: number; node?: string; keys?: number }): Promise<void> {
  const { runs, node = null, keys = null } = what;
  await sql`
    insert into job_run (job_definition_id, source, node, serial_key, held)
    select d.id, 'enqueue', ${node}, 'key:' || n % ${keys}::int,
           ${keys}::int is not null and (n >= ${keys}::int or exists (
             select from job_run o where o.serial_key = 'key:' || n % ${keys}::int
                and o.state in ('PENDING', 'ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED')))
      from job_definition d, generate_series(0, ${runs}::int - 1) n where d.name = ${job_name}`;
}

/** From the moment in which the job is resumed until these runs have ended; others of it may have ended as well. */
async function untilEnded(project: Project, job_name: string, { from, to }: { from: number; to: number }) {
  const { sql } = project;
  const began = await project.pause(job_name, false);
  for (;;) {
    const [row] = await sql<{ seconds: number; left: number }[]>`
      select extract(epoch from max(finished_at) - ${began})::float8 as seconds,
             count(*) filter (where finished_at is null)::int as left from job_run where id between ${from} and ${to}`;
    if (row?.left === 0) return row.seconds;
    await rest(50);
  }
}
