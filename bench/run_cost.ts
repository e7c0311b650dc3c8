/**
 * What a run costs Postgres from its creation to its recorded end: WAL and CPU, by the statements themselves, without workers or a leader
 * beside them. With all indexes of `job_run`, and without each of those that every run is in:
 * `DATABASE_URL=... deno run -A bench/run_cost.ts`, of a superuser of an empty database.
 */
import { applySchema } from "../src/postgres/schema.ts";
import { connectDb, type Sql } from "../src/postgres/connection.ts";
import { acquire, type Term } from "../src/nodes/leadership.ts";
import { createRuns } from "../src/runs/create_runs.ts";
import { assignRuns, finishRuns, startRuns } from "../src/runs/states.ts";

const BATCH = 200;
const BATCHES = 25;
const ROUNDS = 5;
const LEFT_OUT = ["", "job_run_waiting", "job_run_past_slots", "job_run_past", "job_run_ended"];

async function prepare(sql: Sql): Promise<Term> {
  await sql`insert into node (node_id, status) values ('n', 'available')`;
  await sql`insert into worker (worker_id, node_id, lease_until, pid, process_started, grpc_host, grpc_port, slots)
            values ('w', 'n', 'infinity', 1, '0', 'localhost', 1, 1000)`;
  await sql`insert into job_definition (name, command_name, type, digest) values ('noop', 'noop.ts', 'demand', 'd')`;
  const term = await acquire(sql, { worker_id: "w", lease_ms: 3_600_000, epoch_hint: 0 });
  if (!term) throw new Error("Cannot measure: there is a leader; give an empty database");
  return term;
}

async function runBatch(sql: Sql, term: Term): Promise<void> {
  const created = await createRuns(sql, Array.from({ length: BATCH }, () => ({ job_name: "noop", args: {} })));
  const ids = created.map(({ job_run_id }) => job_run_id as number);
  const assigned = await assignRuns(sql, term, ids.map((job_run_id) => ({ job_run_id, version: 0, worker_id: "w" })));
  const started = await startRuns(
    sql,
    { worker_id: "w", epoch: term.epoch },
    assigned.map((one) => ({ ...one, token: "t" })),
  );
  const ended = await finishRuns(
    sql,
    "w",
    started.map(({ job_run_id, attempt }) => ({
      ...{
        job_run_id,
        attempt,
        start_token: "t",
        outcome: "SUCCEEDED",
        exit_code: 0,
        error_name: null,
        error_summary: null,
      },
      ...{ result: null, retry_max: 0, retry_after_ms: 0, other_node: false },
    })),
  );
  if (ended.length !== BATCH) throw new Error(`Cannot measure: ${ended.length} of ${BATCH} runs ended`);
}

/** Bytes of WAL, and CPU seconds of the session. */
async function spent(sql: Sql): Promise<{ wal: number; cpu: number }> {
  const [row] = await sql<{ wal: number; pid: number }[]>`
    select (pg_current_wal_insert_lsn() - '0/0')::float8 as wal, pg_backend_pid() as pid`;
  const fields = Deno.readTextFileSync(`/proc/${row?.pid}/stat`).split(") ")[1]?.split(" ") ?? [];
  return { wal: row?.wal ?? 0, cpu: (Number(fields[11]) + Number(fields[12])) / 100 };
}

async function measure(sql: Sql, term: Term): Promise<{ wal: number; cpu: number }> {
  await sql`checkpoint`;
  for (let batch = 0; batch < 5; batch++) await runBatch(sql, term); // pages are whole in the WAL once after a checkpoint
  const before = await spent(sql);
  for (let batch = 0; batch < BATCHES; batch++) await runBatch(sql, term);
  const after = await spent(sql);
  const runs = BATCH * BATCHES;
  return { wal: (after.wal - before.wal) / runs, cpu: (after.cpu - before.cpu) * 1e6 / runs };
}

const sql = connectDb(Deno.env.get("DATABASE_URL") ?? "", {
  name: "bench",
  max: 1,
  steady: true,
  statement_timeout_ms: 0,
});
await applySchema(sql);
const term = await prepare(sql);
const figures = new Map<string, { wal: number; cpu: number }[]>(LEFT_OUT.map((index) => [index, []]));
for (let round = 0; round < ROUNDS; round++) {
  for (const index of LEFT_OUT) {
    await sql`delete from job_run`;
    await sql`vacuum job_run`;
    const [made] = await sql<{ text: string }[]>`select indexdef as text from pg_indexes where indexname = ${index}`;
    if (made) await sql.unsafe(`drop index ${index}`);
    figures.get(index)?.push(await measure(sql, term));
    if (made) await sql.unsafe(made.text);
  }
}
for (const [index, all] of figures) {
  const middle = (of: "wal" | "cpu") => all.map((one) => one[of]).sort((a, b) => a - b)[ROUNDS >> 1] ?? 0;
  console.log(
    `${(index ? `without ${index}` : "all indexes").padEnd(28)} ${middle("wal").toFixed(0)} bytes of WAL, ${
      middle("cpu").toFixed(0)
    } us of CPU a run`,
  );
}
await sql.end();
