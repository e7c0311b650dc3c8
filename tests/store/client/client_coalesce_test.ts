/** Calls of a client that come together go together, and each is answered as if it had come alone. */
import assert from "node:assert/strict";
import { createClient, EnqueueError } from "../../../src/client.ts";
import { aDefinition } from "../../support/factories.ts";
import { type Stores, withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const JOB = "export_devices";

async function withClient(test: (on: Stores & { client: ReturnType<typeof createClient> }) => Promise<void>) {
  await withStores(async (stores) => {
    await aDefinition(stores.sql, { name: JOB });
    const client = createClient({ databaseUrl: stores.database_url, maxConnections: 2 });
    try {
      await test({ ...stores, client });
    } finally {
      await client.close();
    }
  });
}

Deno.test("calls that come while others are under way go together, and what one of them asks in vain is no matter of the others", async () => {
  await withClient(async ({ client, sql }) => {
    const kept = Promise.withResolvers<void>();
    const keeping = Promise.withResolvers<void>();
    const keeps = sql.begin(async (tx) => {
      await tx`lock table job_run in share row exclusive mode`;
      keeping.resolve();
      await kept.promise;
    });
    await keeping.promise;
    const asked = Array.from({ length: 300 }, (_, place) => {
      return client.enqueue(JOB, { tenant: `t${place}` }, place === 290 ? { node: "nobody" } : {});
    });
    await waitFor("some to wait in Postgres", async () => {
      const [row] =
        await sql`select count(*)::int as n from pg_locks where relation = 'job_run'::regclass and not granted`;
      return row?.n > 0 || undefined;
    });
    kept.resolve();
    await keeps;
    const answers = await Promise.allSettled(asked);
    const refused = answers.flatMap((answer) => answer.status === "rejected" ? [answer.reason] : []);
    assert.deepEqual(refused.map((error) => error.constructor), [EnqueueError]);
    assert.match(refused[0].message, /"nobody"/);
    const [row] = await sql`
      select count(*)::int as runs, count(distinct args_json)::int as different, count(distinct xmin::text)::int as statements from job_run`;
    assert.deepEqual([row?.runs, row?.different], [299, 299]);
    assert((row?.statements as number) <= 110, `${row?.statements} statements`);
  });
});

Deno.test("two clients that use the same keys in other orders get the same runs and events, whoever waits for whom", async () => {
  await withClient(async ({ client, sql, database_url }) => {
    const other = createClient({ databaseUrl: database_url, maxConnections: 2 });
    try {
      const keys = Array.from({ length: 150 }, (_, place) => `k${place}`);
      const runs = (of: typeof client, order: string[]) =>
        Promise.all(order.map(async (idempotencyKey) => {
          return [idempotencyKey, (await of.enqueue(JOB, { tenant: "a" }, { idempotencyKey })).id] as const;
        }));
      const events = (of: typeof client, order: string[]) =>
        Promise.all(order.map(async (dedupeKey) => [dedupeKey, (await of.emit("e", {}, { dedupeKey })).id] as const));
      const back = keys.toReversed();
      const found = await Promise.all([
        runs(client, keys),
        runs(other, back),
        events(client, keys),
        events(other, back),
      ]);
      const [run_ids, same_runs, event_ids, same_events] = found.map((one) => Object.fromEntries(one));
      assert.deepEqual([run_ids, event_ids], [same_runs, same_events]);
      const [row] =
        await sql`select (select count(*)::int from job_run) as runs, (select count(*)::int from event) as events`;
      assert.deepEqual({ ...row }, { runs: 150, events: 150 });
    } finally {
      await other.close();
    }
  });
});

Deno.test("events that are emitted together are refused one by one, as they were when they were given", async () => {
  await withClient(async ({ client, sql }) => {
    await client.emit("other", {}, { dedupeKey: "k7" });
    const payload = { n: 0 };
    const asked = Array.from({ length: 100 }, (_, n) => {
      payload.n = n;
      return client.emit("e", payload, { dedupeKey: `k${n}` });
    });
    const answers = await Promise.allSettled(asked);
    assert.deepEqual(answers.flatMap(({ status }, n) => status === "rejected" ? [n] : []), [7]);
    const [row] = await sql`
      select count(*)::int as events, count(distinct payload_json->>'n')::int as different from event where event_type = 'e'`;
    assert.deepEqual({ ...row }, { events: 99, different: 99 });
  });
});

Deno.test("a client that is closed has sent what it was asked for", async () => {
  await withClient(async ({ client, sql }) => {
    const asked = Array.from({ length: 500 }, () => client.enqueue(JOB, { tenant: "a" }));
    await client.close();
    assert((await Promise.all(asked)).every(({ isNew }) => isNew));
    const [row] = await sql`select count(*)::int as runs, count(distinct xmin::text)::int as statements from job_run`;
    assert.equal(row?.runs, 500);
    assert((row?.statements as number) <= 10, `${row?.statements} statements`);
  });
});
