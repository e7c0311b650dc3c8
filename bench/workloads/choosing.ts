/**
 * What it costs the leader to choose, with much and with little waiting: the statements of one tick, from renewing its term to
 * the assignments, over runs in serial keys, ten to a key. Between ticks what was assigned ends, so that each tick has
 * lines to look at and lets the next of each go. Two databases take turns, so that what else the machine does meets both.
 */
import { renewAndReadWork } from "../../src/dispatch/pending_work.ts";
import { connectDb, type Sql } from "../../src/postgres/connection.ts";
import { applySchema } from "../../src/postgres/schema.ts";
import { acquire, type Term } from "../../src/nodes/leadership.ts";
import { checkLines, wake } from "../../src/runs/key_queues.ts";
import { assignRuns } from "../../src/runs/states.ts";
import { candidates, readDispatchSnapshot } from "../../src/dispatch/dispatch_queues.ts";
import { type Bench, type Figure, figures, percentiles, type Workload } from "../workload.ts";

const FEW = 1_000;
const RUNS_PER_KEY = 10;
const SLOTS = 40;
/** All that is few is enough for so many ticks; the first of them fill caches. */
const TICKS = 24;
const WARM = 4;

export const choosing: Workload = {
  name: "choosing",
  about: "the leader's tick with 1,000,000 runs waiting in serial keys, against one with 1,000",
  async run(bench) {
    const many = bench.runs ?? (bench.quick ? 100_000 : 1_000_000);
    return await withQueue(bench, FEW, (few) => withQueue(bench, many, (all) => compared(few, all)));
  },
};

interface Queue {
  sql: Sql;
  waiting: number;
  term: Term;
  took_ms: number[];
}

async function compared(few: Queue, many: Queue): Promise<Figure[]> {
  for (let tick = 0; tick < TICKS; tick++) {
    for (const queue of [few, many]) {
      const began = performance.now();
      await chooseOnce(queue);
      if (tick >= WARM) queue.took_ms.push(performance.now() - began);
      await endAll(queue.sql);
    }
  }
  const [some, all] = [few, many].map(({ took_ms }) => percentiles(took_ms)) as [Times, Times];
  const on = { workload: "choosing", who: "dandori", n: few.took_ms.length };
  return [
    ...figures({ ...on, how: `${few.waiting} waiting` }, some),
    ...figures({ ...on, how: `${many.waiting} waiting` }, all),
    ...figures({ ...on, how: `${many.waiting} to ${few.waiting}` }, { ratio: [all.p50[0] / some.p50[0], "x"] }),
  ];
}

type Times = ReturnType<typeof percentiles>;

async function chooseOnce(queue: Queue): Promise<void> {
  const { sql } = queue;
  const renewed = await renewAndReadWork(sql, queue.term, {
    lease_ms: 600_000,
    reassign_after_ms: 600_000,
    late_seconds: 0,
    ahead_seconds: 0,
  });
  if (!renewed) throw new Error("The term is over");
  queue.term = renewed.term;
  await wake(sql, queue.term);
  await checkLines(sql, queue.term);
  const { lanes } = await readDispatchSnapshot(sql);
  const found = await candidates(sql, lanes.map((queue) => ({ ...queue, most: 2 * SLOTS })));
  const chosen = found.filter((run) => !run.behind).slice(0, SLOTS);
  const assigned = await assignRuns(sql, queue.term, chosen.map((run) => ({ ...run, worker_id: "w" })));
  if (assigned.length !== SLOTS) throw new Error(`${assigned.length} runs were assigned, not ${SLOTS}`);
}

async function endAll(sql: Sql): Promise<void> {
  await sql`
    update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp(), version = version + 1
     where state in ('ASSIGNED', 'RUNNING') and assigned_worker_id = 'w'`;
}

async function withQueue<T>(bench: Bench, waiting: number, act: (queue: Queue) => Promise<T>): Promise<T> {
  const database_url = await bench.servers.empty();
  const sql = connectDb(database_url, { name: "bench", max: 1, statement_timeout_ms: 0 });
  try {
    bench.say(`choosing: ${waiting} runs in ${waiting / RUNS_PER_KEY} serial keys are put in`);
    await applySchema(sql);
    await fill(sql, waiting);
    const term = await acquire(sql, { worker_id: "leader", lease_ms: 600_000, epoch_hint: 0 });
    if (!term) throw new Error("Somebody leads in an empty database");
    return await act({ sql, waiting, term, took_ms: [] });
  } finally {
    await sql.end({ timeout: 2 });
    await bench.servers.drop(database_url);
  }
}

/** As new runs.ts leaves them: of each key the first may start, and the others are held. */
async function fill(sql: Sql, waiting: number): Promise<void> {
  await sql`insert into node (node_id, status) values ('here', 'available')`;
  await sql`
    insert into worker (worker_id, node_id, lease_until, pid, process_started, grpc_host, grpc_port, slots)
    values ('w', 'here', 'infinity', 1, '0', 'localhost', 1, ${SLOTS})`;
  const [job] = await sql<{ id: number }[]>`
    insert into job_definition (name, command_name, type, digest, serial_key) values ('keyed', 'keyed.ts', 'demand', 'd', 'k:{k}')
    returning id`;
  const keys = waiting / RUNS_PER_KEY;
  await sql`
    insert into job_run (job_definition_id, source, idempotency_key, args_json, serial_key, held)
    select ${
    job?.id ?? 0
  }::bigint, 'enqueue', 'enqueue:' || n, jsonb_build_object('k', n % ${keys}::int), 'k:' || n % ${keys}::int, n >= ${keys}::int
      from generate_series(0, ${waiting}::int - 1) n`;
}
