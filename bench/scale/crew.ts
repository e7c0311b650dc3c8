/**
 * Rows and stand-ins for a workers that no machine here could hold: nodes, workers whose lease lasts, runs that go on on them, runs
 * that wait. The workers obey at once and end their runs when they are told to; of them only what the leader sees is real.
 */
import type { Peers, WatchListener } from "../../src/rpc/peers.ts";
import type { StartJobsRequest } from "../../src/rpc/messages.ts";
import type { Sql } from "../../src/postgres/connection.ts";

export interface Size {
  workers: number;
  runs: number;
  definitions: number;
}

const SLOTS = 4;
const EACH_NODE = 10;
/** Of all slots, so many percent have a run. */
const BUSY = 90;
const EACH_INSERT = 500_000;

/** Workers that answer, at once, and take what they are given. */
export function obedient(): Peers {
  return {
    retain: () => {},
    to: () => ({
      watch: (_: unknown, listener: WatchListener) => {
        listener.onStatus(
          { draining: false, detached: false, released: 0, code_times: [], observed_leader_epoch: 0 } as never,
        );
        return () => {};
      },
      startJobs: ({ orders }: StartJobsRequest) =>
        Promise.resolve({ ok: true, value: { results: orders.map(() => ({ result: "ACCEPTED", message: "" })) } }),
    }),
  } as unknown as Peers;
}

export async function fill(sql: Sql, { workers, runs, definitions }: Size, say: (text: string) => void): Promise<void> {
  const nodes = Math.ceil(workers / EACH_NODE);
  await sql`
    insert into node (node_id, status, checked_at, next_check_at)
    select 'node-' || n, 'available', clock_timestamp(), 'infinity' from generate_series(1, ${nodes}::int) n`;
  await sql`
    insert into worker (worker_id, node_id, state, lease_until, pid, process_started, host, grpc_host, grpc_port,
                        tls_fingerprint, slots, version)
    select 'w' || n, 'node-' || 1 + n % ${nodes}::int, 'ACTIVE', 'infinity', 1, '', '', 'nowhere', 1, '', ${SLOTS}::int, '0'
      from generate_series(0, ${workers - 1}::int) n`;
  await sql`
    insert into job_definition (name, command_name, type, digest)
    select 'job-' || n, 'job.ts', 'demand', 'digest' from generate_series(1, ${definitions}::int) n`;
  const live = Math.floor(workers * SLOTS * BUSY / 100);
  await sql`
    insert into job_run (job_definition_id, source, state, assigned_worker_id, assigned_at, started_at, leader_epoch, fence, start_token)
    select 1 + n % ${definitions}::int, 'enqueue', 'RUNNING', 'w' || n % ${workers}::int, clock_timestamp(), clock_timestamp(), 0, n, 't'
      from generate_series(0, ${live - 1}::int) n`;
  const again = await withoutIndexes(sql);
  await sql`set session_replication_role = replica`.catch(() => {}); // who may: the reference of each row is not looked up
  for (let made = 0; made < runs; made += EACH_INSERT) {
    say(`${made} of ${runs} runs`);
    await sql`
      insert into job_run (job_definition_id, source, priority)
      select 1 + n % ${definitions}::int, 'enqueue', 120 + n % 10 from generate_series(1, ${
      Math.min(EACH_INSERT, runs - made)
    }) n`;
  }
  await sql`set session_replication_role = default`.catch(() => {});
  say("indexes, vacuum, analyze");
  await again();
  await sql`vacuum analyze`;
  await sql`checkpoint`;
}

/** Made after the rows they take a fraction of the time. Those that are a constraint of the table stay. */
async function withoutIndexes(sql: Sql): Promise<() => Promise<void>> {
  const rows = await sql<{ name: string; definition: string }[]>`
    select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as definition from pg_index i
     where i.indrelid = 'job_run'::regclass and not exists (select from pg_constraint c where c.conindid = i.indexrelid)`;
  for (const { name } of rows) await sql.unsafe(`drop index ${name}`);
  return async () => {
    await sql`set maintenance_work_mem = '1GB'`;
    for (const { definition } of rows) await sql.unsafe(definition);
  };
}

/** What 10,000 workers would write meanwhile, in one statement: so many runs have ended, and their slots are free again. */
export async function endSome(sql: Sql, most: number): Promise<void> {
  await sql`
    update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp(), version = version + 1
     where id in (select id from job_run where state in ('ASSIGNED', 'RUNNING') limit ${most})`;
}
