/**
 * Whether it matters how much is waiting: the time of the first 2,000 runs that end with 1,000,000 waiting behind a job that runs as many
 * as it may, 1,000,000 for a node that is full, 1,000,000 of their own job, and 1,000,000 of 100,000 serial keys.
 *
 * Against none: two systems share the servers, one in which nothing else waits, and they take turns, since the machine is not
 * the same from one minute to the next; the ratio is the median of those of two rounds that follow each other. Both begin each round with
 * nothing under way, and the job loaded by a round that is not counted. What waits is added to what waited before, so the last of them
 * are measured with 4,000,000.
 */
import { rest } from "../../src/platform/timers.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import { type Cpu, CPU_PARTS, cpuPer1000, type Project, withProject } from "../project.ts";
import { showStatements } from "../statements.ts";
import { type Bench, type Figure, figures, median, type Workload } from "../workload.ts";

const FIRST = 2_000;
const ROUNDS = 9;
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

interface Backlog {
  how: string;
  /** Whose runs are measured. */
  job: keyof typeof JOBS;
  /** What waits is of that job itself; else each round brings its own runs. */
  own?: true;
  waits(sql: Sql, runs: number): Promise<void>;
}

const BACKLOGS: Backlog[] = [
  {
    how: "behind a saturated job",
    job: "noop",
    waits: (sql, runs) => insert(sql, "saturated", { runs }),
  },
  {
    how: "behind a full node",
    job: "noop",
    waits: (sql, runs) => insert(sql, "pinned", { runs, node: FULL_NODE }),
  },
  {
    how: "of the same job",
    job: "noop",
    own: true,
    waits: (sql, runs) => insert(sql, "noop", { runs }),
  },
  {
    how: "of 100,000 serial keys",
    job: "keyed",
    own: true,
    waits: (sql, runs) => insert(sql, "keyed", { runs, keys: Math.ceil(runs / 10) }),
  },
];

export const backlog: Workload = {
  name: "backlog",
  about: "the first 2,000 runs with 1,000,000 waiting, in four ways, against none",
  async run(bench) {
    const waiting = bench.runs ?? (bench.quick ? 20_000 : 1_000_000);
    const options = { jobs: JOBS, workers: 3 };
    return await withProject(bench, options, (none) =>
      withProject(bench, options, async (full) => {
        for (const project of [none, full]) await prepare(project);
        const found: Figure[] = [];
        for (const one of BACKLOGS) found.push(...await compare(bench, one, { none, full, waiting }));
        return found;
      }));
  },
};

async function prepare({ sql }: Project): Promise<void> {
  await sql`update node set max_concurrent = 1 where node_id = ${FULL_NODE}`;
  await insert(sql, "saturated", { runs: 1, node: FULL_NODE });
  while (!(await sql`select from job_run where state = 'RUNNING'`).length) await rest(50);
}

async function compare(
  bench: Bench,
  what: Backlog,
  { none, full, waiting }: { none: Project; full: Project; waiting: number },
): Promise<Figure[]> {
  bench.say(`backlog: ${what.how}`);
  for (const project of [none, full]) await project.pause(what.job, true);
  await what.waits(full.sql, waiting);
  for (const { sql } of [none, full]) await sql`vacuum analyze job_run`; // as autovacuum would in its time
  await full.sql`checkpoint`;
  const sides = [{ project: none, fresh: true }, { project: full, fresh: !what.own }].map((side) => ({
    ...side,
    rounds: [] as Round[],
  }));
  for (const { project, fresh } of sides) await round(project, what.job, fresh); // loaded
  const counting = bench.statements && await bench.servers.countStatements();
  for (let n = 0; n < (bench.quick ? 2 : ROUNDS); n++) {
    for (const { project, fresh, rounds } of sides) rounds.push(await round(project, what.job, fresh));
  }
  const found: Figure[] = [];
  for (const { project, rounds } of sides) {
    const runs = rounds.reduce((sum, { ended }) => sum + ended, 0);
    const how = project === none ? `none (${what.how})` : what.how;
    if (counting) showStatements(await bench.servers.statements(project.database_url), runs, how);
    const ratios = rounds.map(({ seconds }, place) => (sides[0]?.rounds[place]?.seconds ?? NaN) / seconds);
    found.push(...figures({ workload: "backlog", who: "dandori", how, n: rounds.length * FIRST }, {
      rate: [median(rounds.map(({ seconds }) => FIRST / seconds)), "runs/s"],
      ...project === none ? {} : { ratio: [median(ratios), "x none"] },
      ...cpuPer1000(sumOf(rounds.map(({ before }) => before)), sumOf(rounds.map(({ after }) => after)), runs),
    }));
  }
  return found;
}

interface Round {
  /** Until the first of them had ended. */
  seconds: number;
  /** In all: where more wait, those that were under way by then end as well. */
  ended: number;
  before: Cpu;
  after: Cpu;
}

async function round(project: Project, job_name: string, fresh: boolean): Promise<Round> {
  if (fresh) await insert(project.sql, job_name, { runs: FIRST, keys: job_name === "keyed" ? FIRST : undefined });
  const mark = await project.mark();
  const before = project.cpu();
  const began = await project.pause(job_name, false);
  const seconds = await project.untilEnded(FIRST, { mark, began });
  await project.pause(job_name, true);
  const ended = await project.drained(job_name, mark);
  return { seconds, ended, before, after: project.cpu() };
}

/** As they are created: what is behind its serial key is held. One statement for all, since a million take minutes otherwise. */
async function insert(sql: Sql, job_name: string, what: { runs: number; node?: string; keys?: number }): Promise<void> {
  const { runs, node = null, keys = null } = what;
  await sql`
    insert into job_run (job_definition_id, source, node, serial_key, held)
    select d.id, 'enqueue', ${node}, 'key:' || n % ${keys}::int, ${keys}::int is not null and n >= ${keys}::int
      from job_definition d, generate_series(0, ${runs}::int - 1) n where d.name = ${job_name}`;
}

function sumOf(cpus: Cpu[]): Cpu {
  const sum: Cpu = { postgres: 0, redis: 0, leader: 0, workers: 0, bodies: 0 };
  for (const cpu of cpus) for (const part of CPU_PARTS) sum[part] += cpu[part];
  return sum;
}
