/** What is changed by plain SQL, past our acts, is in the audit all the same: by which role of the database, and what differs. */
import assert from "node:assert/strict";
import postgres from "postgres";
import { createClient, type Transaction } from "../../../src/client.ts";
import { setPaused } from "../../../src/actions/queue_actions.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { changeSettings } from "../../../src/settings/settings.ts";
import { aDefinition } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

interface Act {
  actor: string;
  action: string;
  target: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  reason: string;
}

async function actsBySql(sql: Sql): Promise<Act[]> {
  const acts = await sql<Act[]>`
    select actor, action, target_type || ' ' || target_id as target, before_json as before, after_json as after, reason
      from admin_action_log where actor like 'sql:%' order by id`;
  return [...acts];
}

/** A session as psql opens one, as a role that may change jobs and settings, and may not write to the audit. */
async function withPsql(
  test: (on: { sql: Sql; psql: postgres.Sql; role: string; database_url: string }) => Promise<void>,
): Promise<void> {
  await withStores(async ({ sql, database_url }) => {
    const role = `op_${crypto.randomUUID().slice(0, 8)}`;
    await sql.unsafe(`create role ${role} login password 'x' in role pg_read_all_data`);
    await sql.unsafe(
      `grant insert, update, delete, truncate on scheduler_settings, node, resource, job_definition, job_schedule, job_override, serial_key_pause, bulk, webhook, admin_user, api_token to ${role}`,
    );
    await sql.unsafe(`grant insert, update on bulk_recheck, key_recheck, priority_change to ${role}`);
    const url = new URL(database_url);
    [url.username, url.password] = [role, "x"];
    const psql = postgres(url.href, { max: 1, connection: { application_name: "psql" }, onnotice: () => {} });
    try {
      await test({ sql, psql, role, database_url });
    } finally {
      await psql.end({ timeout: 2 });
      await sql.unsafe(`drop owned by ${role}; drop role ${role}`);
    }
  });
}

Deno.test("each table that operators may edit tells who changed what by plain SQL, in the same transaction", async () => {
  await withPsql(async ({ sql, psql, role }) => {
    const job = await aDefinition(sql, { name: "export" });
    await sql`insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value) values (${job.id}, 'nightly', 'daily_at', '02:30')`;
    await sql`insert into bulk (job_definition_id) values (${job.id})`;
    await sql`insert into webhook (name, event_type, signature, secret, rate_per_minute, created_by) values ('h', 'a.b', 'dandori', 'hush', 1, 'x')`;
    await sql`insert into admin_user (name, password_hash, role) values ('ann', 'hush', 'viewer')`;
    assert.deepEqual(await actsBySql(sql), [], "these sessions are ours");
    await psql`update job_definition set priority = 1 where name = 'export'`;
    await psql`update job_schedule set enabled = false`;
    await psql`insert into job_override (job_definition_id, name, value, set_by, reason) values (${job.id}, 'priority', '{}', 'x', 'x')`;
    await psql`update bulk set parallel = 3`;
    await psql`insert into scheduler_settings (name, value) values ('dispatch', '"paused"')`;
    await psql`insert into node (node_id) values ('gpu-1')`;
    await psql`update node set is_active = false`;
    await psql`insert into resource (name, capacity) values ('license', 3)`;
    await psql`update resource set capacity = capacity`;
    await psql`delete from resource`;
    await psql`insert into serial_key_pause (serial_key, stopped_by) values ('k', 'x')`;
    await psql`update webhook set secret = 'other', rate_per_minute = 2`;
    await psql`update admin_user set role = 'admin', password_hash = 'mine'`;
    await psql`truncate api_token`;
    const undone = psql.begin(async (tx) => {
      await tx`insert into resource (name, capacity) values ('other', 1)`;
      throw new Error("undone");
    });
    await assert.rejects(undone, /undone/);
    const acts = await actsBySql(sql);
    assert.deepEqual([...new Set(acts.map(({ actor }) => actor))], [`sql:${role}`]);
    assert.deepEqual(acts.map(({ action, target }) => `${action} ${target}`), [
      "sql.update job export",
      "sql.update schedule export/nightly",
      "sql.insert job export",
      "sql.update bulk 1",
      "sql.insert setting dispatch",
      "sql.insert node gpu-1",
      "sql.update node gpu-1",
      "sql.insert resource license",
      "sql.update resource license",
      "sql.delete resource license",
      "sql.insert serial_key k",
      "sql.update hook h",
      "sql.update user ann",
      "sql.truncate token *",
    ]);
    assert.deepEqual([acts[0]?.before, acts[0]?.after], [{ priority: 240 }, { priority: 1 }], "what differs alone");
    assert.equal(acts[0]?.reason, "plain SQL on job_definition, from psql");
    assert.doesNotMatch(JSON.stringify(acts), /hush|mine|other/, "no secret, nor what it is checked by");
    assert.deepEqual(acts[12]?.after, { role: "admin" });
    await assert.rejects(() =>
      psql`insert into admin_action_log (actor, action, target_type, target_id) values ('a', 'b', 'c', 'd')`
    );
  });
});

Deno.test("our own acts are audited once, under their own name, also in the transaction of an application", async () => {
  await withPsql(async ({ sql, database_url }) => {
    const by = { actor: "ann", reason: "x" };
    await aDefinition(sql, { name: "export" });
    await changeSettings(sql, { dispatch: "paused" }, by);
    await setPaused(sql, { job_name: "export" }, { ...by, paused: true });
    const app = postgres(database_url, { max: 1, onnotice: () => {} });
    const client = createClient({ databaseUrl: database_url });
    try {
      await app.begin(async (tx) => {
        const within = client.within(tx as unknown as Transaction);
        const { id } = await within.bulk("export", [{}]);
        await within.changeBulk(id, { parallel: 3 });
        await assert.rejects(() => within.changeBulk(999, { parallel: 3 }), /there is none/);
        await tx`update job_definition set priority = 7`;
      });
      const acts = await sql<
        { action: string; actor: string }[]
      >`select action, actor from admin_action_log order by id`;
      assert.deepEqual(acts.map(({ action }) => action), [
        "settings.change",
        "job.pause",
        "bulk.start",
        "bulk.set",
        "sql.update",
      ]);
      assert.deepEqual(
        (await actsBySql(sql)).map(({ target }) => target),
        ["job export"],
        "what the application did itself",
      );
    } finally {
      await client.close();
      await app.end({ timeout: 2 });
    }
  });
});
