/**
 * Limits under load in real processes, counted from rows at each statement that moves a run: whatever is sent ahead, and
 * however late an end is recorded, no more rows than its limit says are ASSIGNED or RUNNING.
 */
import assert from "node:assert/strict";
import { CALM, type Cluster, withProcesses } from "../../support/cluster.ts";
import { waitFor } from "../../support/waiting.ts";

const quick = (more: string) => `
  import { defineJob } from "dandori";
  export default defineJob<{ key?: string }>({ ${more} isolation: { reuse: 1000 }, run: () => "done" });`;

const JOBS = {
  "plain.ts": quick(""),
  "limited.ts": quick("concurrency: { limit: 3 },"),
  "keyed.ts": quick('concurrency: { limit: 2, key: "{key}" },'),
  "licensed.ts": quick("resources: { license: 2 },"),
  "item.ts": quick(""),
};
const SLOTS = 4;
const EACH = 150;

/** From now on each statement that moves runs notes how much of each limit is taken after it. */
async function watchLimits({ sql }: Cluster): Promise<void> {
  await sql.unsafe(`
    create table taken (what text, n bigint);
    create function note_taken() returns trigger language plpgsql as $$
    begin
      insert into taken
        with live as (
          select r.*, d.name, w.node_id from job_run r join job_definition d on d.id = r.job_definition_id
            join worker w on w.worker_id = r.assigned_worker_id where r.state in ('ASSIGNED', 'RUNNING'))
        select 'limited', count(*) from live where name = 'limited'
        union all select 'licenses', 2 * count(*) from live where name = 'licensed'
        union all select 'key', count(*) from live where limit_key is not null group by limit_key
        union all select 'bulk', count(*) from live where bulk_id is not null group by bulk_id
        union all select 'node', count(*) from live group by node_id;
      return null;
    end $$;
    create trigger job_run_taken after update on job_run for each statement execute function note_taken();`);
}

Deno.test("of each limit no more rows than it allows are taken at any moment, and all that it allows", async () => {
  await withProcesses(3, async (cluster) => {
    const { client, sql } = cluster;
    await sql`insert into resource (name, capacity) values ('license', 5)`;
    await sql`update node set max_concurrent = ${SLOTS}`;
    await sql`insert into scheduler_settings (name, value) values ('dispatch', '"paused"')`;
    await watchLimits(cluster);
    for (const name of ["limited", "licensed", "plain"]) {
      await client.enqueueMany(name, Array.from({ length: EACH }, () => ({ args: {} })));
    }
    await client.enqueueMany("keyed", Array.from({ length: EACH }, (_, n) => ({ args: { key: `k${n % 3}` } })));
    await client.bulk("item", Array.from({ length: EACH }, () => ({})), { parallel: 3 });
    await sql`delete from scheduler_settings where name = 'dispatch'`;
    await waitFor("the end of all", async () => {
      const [row] = await sql`select count(*)::int as n from job_run where state = 'SUCCEEDED'`;
      return row?.n === 5 * EACH || undefined;
    }, 120_000);
    const most = await sql<{ what: string; n: number }[]>`select what, max(n)::int as n from taken group by 1`;
    assert.deepEqual(
      Object.fromEntries(most.map(({ what, n }) => [what, n])),
      { limited: 3, licenses: 4, key: 2, bulk: 3, node: SLOTS },
    );
  }, { jobs: JOBS, env: { SCHEDULER_SLOTS: String(SLOTS) }, settings: CALM });
});
