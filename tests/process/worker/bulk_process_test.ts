/** Bulks with real leaders, workers and bodies: the limit is kept while it changes, and a killed leader costs nothing. */
import assert from "node:assert/strict";
import { type Cluster, withProcesses } from "../../support/cluster.ts";
import { waitFor } from "../../support/waiting.ts";

const JOBS = {
  "quick.ts": `
    import { defineJob } from "dandori";
    export default defineJob({
      isolation: { reuse: 1000 },
      async run() {
        await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 30));
      },
    });`,
};
const ENDS_WITHIN_MS = 180_000;

async function ended(cluster: Cluster, id: number, at_least: number) {
  return await waitFor(`${at_least} ended items of bulk ${id}`, async () => {
    const [row] = await cluster
      .sql`select count(*)::int as n from job_run where bulk_id = ${id} and finished_at is not null`;
    return row?.n >= at_least || undefined;
  }, ENDS_WITHIN_MS);
}

/** How many ran at once, at most, among those that started within a span of time; as the rows say. */
async function mostAtOnce(cluster: Cluster, id: number, span: { from?: Date; to?: Date }): Promise<number> {
  const [row] = await cluster.sql<{ most: number }[]>`
    select max(n)::int as most from (
      select (select count(*) from job_run o where o.bulk_id = r.bulk_id and o.started_at <= r.started_at and o.finished_at > r.started_at) as n
        from job_run r where r.bulk_id = ${id} and r.started_at >= coalesce(${
    span.from ?? null
  }::timestamptz, '-infinity')
         and r.started_at < coalesce(${span.to ?? null}::timestamptz, 'infinity')) c`;
  return row?.most ?? 0;
}

Deno.test("500 items at parallel 4, raised to 10 by plain SQL: never more at once, each item once, also when the leader is killed", async () => {
  await withProcesses(3, async (cluster) => {
    const leader = await cluster.hears("leader.elected");
    const items = Array.from({ length: 500 }, (_, n) => ({ n }));
    const { id } = await cluster.client.bulk("quick", items, { parallel: 4 });
    await ended(cluster, id, 60);
    const [change] = await cluster.sql<
      { at: Date }[]
    >`update bulk set parallel = 10 where id = ${id} returning clock_timestamp() as at`;
    await ended(cluster, id, 200);
    leader.worker.kill("SIGKILL");
    await cluster.hears("leader.elected", {}, { after: leader });
    await waitFor("the bulk's end", async () => {
      const [row] = await cluster.sql`select state from bulk where id = ${id}`;
      return row?.state === "FINISHED" || undefined;
    }, ENDS_WITHIN_MS);
    const [all] = await cluster.sql`
      select count(*)::int as runs, count(distinct args_json->>'n')::int as different, count(*) filter (where state = 'SUCCEEDED')::int as succeeded
        from job_run where bulk_id = ${id}`;
    assert.deepEqual(all, { runs: 500, different: 500, succeeded: 500 });
    const unlinked = await cluster.sql`select from bulk_item i where not exists (
      select from job_run r where r.id = i.job_run_id and r.bulk_id = i.bulk_id and r.args_json = i.args_json)`;
    assert.equal(unlinked.length, 0);
    const before = await mostAtOnce(cluster, id, { to: change?.at });
    const after = await mostAtOnce(cluster, id, { from: change?.at });
    assert(before <= 4, `${before} ran at once at parallel 4`);
    assert(after > 4 && after <= 10, `${after} ran at once at parallel 10`);
    await cluster.hears("bulk.finished", { bulk_id: id, succeeded: 500, not_done: 0 });
  }, { jobs: JOBS });
});
