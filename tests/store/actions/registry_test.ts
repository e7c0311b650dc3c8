/** Each act of the registry, done once: who may, what it takes, and what stands in the audit of it. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { Refused } from "../../../src/actions/args.ts";
import { type Action, type ActionCaller, perform } from "../../../src/actions/action.ts";
import { ACTIONS } from "../../../src/actions/registry.ts";
import { retryMany } from "../../../src/actions/many_runs.ts";
import { retry } from "../../../src/actions/run_actions.ts";
import { addHook } from "../../../src/actions/webhook_actions.ts";
import { addToken } from "../../../src/actions/system_actions.ts";
import { addOneUser, disable } from "../../../src/actions/user_actions.ts";
import { saveResource } from "../../../src/actions/queue_actions.ts";
import { setOptions } from "../../../src/actions/job_actions.ts";
import { pauseSchedule } from "../../../src/actions/schedule_actions.ts";
import { pauseBulk, startOneBulk } from "../../../src/actions/bulk_actions.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";
import { aStep } from "../../support/journal.ts";
import { withStores } from "../../support/stores.ts";

const WHY = "it is tried";
const HASH = "scrypt$1024$8$1$c2FsdA$aGFzaA";

/** Makes what the act needs, and gives what it is given. */
type Input = Record<string, unknown>;
type Example = (sql: Sql, admin: ActionCaller) => Promise<Input>;

const job = async (sql: Sql) => (await aDefinition(sql, { name: "hello" })).id;
const aUser = (name: string): Example => async (_, admin) => {
  await perform(addOneUser, admin, { name, role: "viewer", password_hash: HASH });
  return { name };
};
const aBulk = async (sql: Sql, admin: ActionCaller) => {
  await job(sql);
  return { id: (await perform(startOneBulk, admin, { job_name: "hello", items: [{}, {}] })).id };
};
const aRunIn = async (sql: Sql, state: "PENDING" | "FAILED" | "RUNNING") =>
  Number((await aRun(sql, { job_definition_id: await job(sql), state })).id);
const aNode: Example = async (sql) => {
  await aWorker(sql, { worker_id: "w1", node_id: "n1" });
  return { name: "w1" };
};
const hourly = async (sql: Sql) => {
  const job_definition_id = await job(sql);
  await sql`
    insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value)
    values (${job_definition_id}, 's', 'cron', '0 * * * *')`;
  return { job_name: "hello", schedule_id: "s" };
};

const EXAMPLES: Record<string, Example> = {
  "run.enqueue": async (sql) => (await job(sql), { job_name: "hello" }),
  "event.emit": () => Promise.resolve({ event_type: "order.placed", payload: { n: 1 } }),
  "run.cancel": async (sql) => ({ id: await aRunIn(sql, "PENDING") }),
  "run.close": async (sql) => ({ id: await aRunIn(sql, "RUNNING") }),
  "run.retry": async (sql) => ({ id: await aRunIn(sql, "FAILED") }),
  "run.reprioritize": async (sql) => ({ id: await aRunIn(sql, "PENDING"), priority: "user.high" }),
  "run.send": async (sql) => {
    const { id } = await aDefinition(sql, { name: "hello", messages: { go: { schema: null, from: "emit" } } });
    return { id: Number((await aRun(sql, { job_definition_id: id })).id), name: "go" };
  },
  "run.fork": async (sql) => {
    const id = await aRunIn(sql, "FAILED");
    await aStep(sql, id, { key: "step:a", seq: 1 });
    return { id, from: "a" };
  },
  "run.wake": async (sql) => {
    const id = await aRunIn(sql, "RUNNING");
    await aStep(sql, id, { key: "sleep:", until: new Date(Date.UTC(2100, 0, 1)) });
    return { id, step: "sleep:" };
  },
  "runs.cancel": async (sql) => (await aRunIn(sql, "PENDING"), { filter: { job_name: "hello" } }),
  "runs.retry": async (sql) => (await aRunIn(sql, "FAILED"), { filter: { job_name: "hello" }, wish: "w" }),
  "runs.reprioritize": async (sql) => (await aRunIn(sql, "PENDING"), { filter: { job_name: "hello" }, priority: 1 }),
  "bulk.start": async (sql) => (await job(sql), { job_name: "hello", items: [{}] }),
  "bulk.set": async (sql, admin) => ({ ...await aBulk(sql, admin), parallel: 3 }),
  "bulk.pause": aBulk,
  "bulk.resume": async (sql, admin) => {
    const bulk = await aBulk(sql, admin);
    await perform(pauseBulk, admin, bulk);
    return bulk;
  },
  "bulk.cancel": aBulk,
  "bulk.retry": async (sql, admin) => {
    const { id } = await aBulk(sql, admin);
    const job_definition_id = Number((await sql`select id from job_definition`)[0]?.id);
    const run = await aRun(sql, { job_definition_id, bulk_id: id, state: "FAILED" });
    await sql`update bulk_item set job_run_id = ${run.id} where bulk_id = ${id} and seq = 1`;
    return { id };
  },
  "job.set": async (sql) => (await job(sql), { name: "hello", values: { priority: 7 } }),
  "job.reset": async (sql, admin) => {
    await job(sql);
    await perform(setOptions, admin, { name: "hello", values: { priority: 7 } });
    return { name: "hello" };
  },
  "schedule.pause": hourly,
  "schedule.resume": async (sql, admin) => {
    const which = await hourly(sql);
    await perform(pauseSchedule, admin, which);
    return which;
  },
  "schedule.run": hourly,
  "schedule.backfill": async (sql) => {
    const which = await hourly(sql);
    await sql`update job_schedule set last_slot = now() - interval '1 day'`;
    const until = Temporal.Now.instant().subtract({ minutes: 1 });
    return { ...which, from: until.subtract({ hours: 3 }), until, priority: 300 };
  },
  "queue.pause": async (sql) => (await job(sql), { job_name: "hello" }),
  "queue.resume": async (sql) => {
    await sql`update job_definition set paused_at = now(), paused_by = 'x' where id = ${await job(sql)}`;
    return { job_name: "hello" };
  },
  "resource.set": () => Promise.resolve({ name: "license", capacity: 3 }),
  "resource.remove": async (_, admin) => {
    await perform(saveResource, admin, { name: "license", capacity: 3 });
    return { name: "license" };
  },
  "node.set": async (sql, admin) => (await aNode(sql, admin), { node_id: "n1", max_concurrent: 2 }),
  "node.remove": async (sql, admin) => {
    await aNode(sql, admin);
    await sql`update worker set state = 'DEAD'`;
    return { node_id: "n1" };
  },
  "node.test": async (sql, admin) => {
    await aNode(sql, admin);
    await sql`update leader_term set worker_id = 'w1', lease_until = now() + interval '1 hour'`;
    return { node_id: "n1" };
  },
  "worker.drain": aNode,
  "worker.undrain": async (sql, admin) => {
    await aNode(sql, admin);
    await sql`update worker set state = 'DRAINING'`;
    return { name: "w1" };
  },
  "worker.detach": aNode,
  "leader.degrade": async (sql, admin) => {
    await aNode(sql, admin);
    await sql`update leader_term set worker_id = 'w1', lease_until = now() + interval '1 hour'`;
    return {};
  },
  "settings.set": () => Promise.resolve({ values: { run_retention_days: 11 } }),
  "alert.ack": async (sql) => {
    const [row] =
      await sql`insert into alert (kind, subject, message, opened_by) values ('node.away', 'n1', 'away', 'w0') returning id`;
    return { id: Number(row?.id) };
  },
  "alert.test": () => Promise.resolve({}),
  "token.add": () => Promise.resolve({ name: "ci", token_digest: "d", scopes: ["read"], days: 1 }),
  "token.remove": async (_, admin) => {
    await perform(addToken, admin, { name: "ci", token_digest: "d", scopes: ["read"], days: 1 });
    return { name: "ci" };
  },
  "user.add": () => Promise.resolve({ name: "taro", role: "viewer", password_hash: HASH }),
  "user.password": async (sql, admin) => ({ ...await aUser("taro")(sql, admin), password_hash: HASH }),
  "user.logout": async (sql, admin) => {
    await aUser("taro")(sql, admin);
    await openedBy(sql, "taro");
    return { name: "taro" };
  },
  "user.role": async (sql, admin) => ({ ...await aUser("taro")(sql, admin), role: "operator" }),
  "user.disable": aUser("taro"),
  "user.enable": async (sql, admin) => {
    await aUser("taro")(sql, admin);
    await perform(disable, admin, { name: "taro" });
    return { name: "taro" };
  },
  "user.unlock": async (sql, admin) => {
    await aUser("taro")(sql, admin);
    await sql`insert into admin_login_attempt (name, address) values ('taro', '10.0.0.9')`;
    return { name: "taro" };
  },
  "user.remove": aUser("taro"),
  "account.password": async (sql, admin) => ({
    ...await aUser("ann")(sql, admin),
    hash: () => Promise.resolve(`${HASH}2`),
    fits: () => Promise.resolve(true),
  }),
  "account.logout": async (sql, admin) => {
    await aUser("ann")(sql, admin);
    await openedBy(sql, "ann");
    return { name: "ann" };
  },
  "hook.add": () => Promise.resolve({ name: "shop", event_type: "order.placed", signature: "github" }),
  "hook.remove": async (_, admin) => {
    await perform(addHook, admin, { name: "shop", event_type: "order.placed", signature: "github" });
    return { name: "shop" };
  },
};

async function openedBy(sql: Sql, name: string): Promise<void> {
  await sql`
    insert into admin_session (token_digest, admin_user_id, expires_at, address, user_agent)
    select 'digest', id, now() + interval '1 hour', '10.0.0.9', 'test' from admin_user where name = ${name}`;
}

Deno.test("each act has a name of its own, and an example here", () => {
  const names = ACTIONS.map(({ name }) => name);
  assert.deepEqual([...new Set(names)], names);
  assert.deepEqual(Object.keys(EXAMPLES).sort(), [...names].sort());
  for (const { name } of ACTIONS) assert.match(name, /^[a-z]+\.[a-z]+$/);
});

/** It asks for none. */
const WITHOUT_REASON = ["account.password"];

for (const act of ACTIONS) {
  Deno.test(`${act.name} is done for whoever may, once it fits, and is in the audit with who and why`, async () => {
    await withStores(async ({ sql }) => {
      const caller = { sql, actor: "user:ann", allows: () => true, reason: WHY, unreasoned: "none was given" };
      const input = await (EXAMPLES[act.name] as Example)(sql, { ...caller, actor: "setup" });
      await refusals(act, { caller, input });
      await perform(act, caller, input);
      const rows = await rowsOf(sql);
      assert(rows.length > 0, "nothing stands in the audit");
      for (const { action, reason } of rows) {
        assert(act.audit.includes(action), `${action} is not what ${act.name} says that its audit has`);
        if (!WITHOUT_REASON.includes(act.name)) assert.equal(reason, WHY);
      }
    });
  });
}

async function refusals(act: Action, { caller, input }: { caller: ActionCaller; input: Input }): Promise<void> {
  const refused = async (by: ActionCaller, given: Input, code: string) => {
    const error = await perform(act, by, given).then(() => undefined, (error) => error);
    assert(error instanceof Refused, `${code}: it is not refused`);
    assert.equal(error.says.code, code);
    assert.match(error.message, /^Cannot .+: .+/);
  };
  const asked: string[] = [];
  const allows = (scope: string) => (asked.push(scope), false);
  await refused({ ...caller, allows }, input, "forbidden");
  assert.deepEqual(asked, [act.needs]);
  await refused(caller, { ...input, no_such_field: 1 }, "input_unfit");
  await refused({ ...caller, reason: "x".repeat(501) }, input, "length");
  if (act.reason === "required") await refused({ ...caller, reason: "  " }, input, "reason_needed");
  assert.deepEqual(await rowsOf(caller.sql), [], "what is refused changes nothing");
}

async function rowsOf(sql: Sql): Promise<{ action: string; reason: string | null }[]> {
  return [
    ...await sql<{ action: string; reason: string | null }[]>`
    select action, reason from admin_action_log where actor = 'user:ann' order by id`,
  ];
}

Deno.test("a retry that no node could take is refused, of one run as of many, and makes nothing", async () => {
  await withStores(async ({ sql }) => {
    const caller = { sql, actor: "user:ann", allows: () => true, reason: WHY, unreasoned: "none was given" };
    const { id } = await aDefinition(sql, { name: "hello", node: "gone-1" });
    const run = await aRun(sql, { job_definition_id: id, state: "FAILED", node: "gone-1" });
    for (
      const asked of [
        perform(retry, caller, { id: Number(run.id) }),
        perform(retryMany, caller, { filter: { job_name: "hello" }, wish: "w" }),
      ]
    ) await assert.rejects(asked, /no node has the name "gone-1"/);
    assert.equal((await sql`select from job_run`).length, 1);
    await aWorker(sql, { worker_id: "w1", node_id: "gone-1" });
    assert.equal((await perform(retryMany, caller, { filter: { job_name: "hello" }, wish: "w" })).length, 1);
  });
});
