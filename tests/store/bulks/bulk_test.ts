/** Bulks: fed a few at a time, changed while they run, and ended once. */
import assert from "node:assert/strict";
import { lookAfterBulks } from "../../../src/leader/bulks.ts";
import { feed, finish } from "../../../src/bulks/bulk_dispatch.ts";
import { Term } from "../../../src/nodes/leadership.ts";
import { sayWhy } from "../../../src/dispatch/dispatch_queues.ts";
import { aDefinition } from "../../support/factories.ts";
import { numbered, withBulks } from "../../support/bulk_scene.ts";
import { english } from "../../../src/locale/english.ts";
import { waitLine } from "../../../src/locale/wait_text.ts";
import { ENGLISH } from "../../../src/locale/english.ts";
import { type Waits, whereOf } from "../../../src/runs/wait_reason.ts";

Deno.test("items become runs a few at a time, each once and in their order, and the last one's end ends the bulk", () =>
  withBulks(async (scene) => {
    const { id, items } = await scene.client.bulk("each", numbered(10), { parallel: 3, name: "ten" });
    assert.equal(items, 10);
    let ended = 0;
    for (; ended < 10; ended++) {
      await scene.round();
      const live = await scene.runs(id, ["PENDING", "ASSIGNED", "RUNNING"]);
      assert.equal(live.length, Math.min(3, 10 - ended));
      assert.equal((await scene.running(id)).length, live.length);
      await scene.end(id, 1);
    }
    await scene.round();
    const rows = await scene.sql`select idempotency_key, args_json, source, state from job_run order by id`;
    assert.deepEqual(
      rows.map((row) => [row.idempotency_key, row.args_json.n, row.source, row.state]),
      Array.from({ length: 10 }, (_, place) => [`bulk:${id}:${place + 1}`, place + 1, "bulk", "SUCCEEDED"]),
    );
    const done = await scene.bulk(id);
    assert.deepEqual([done.state, done.name, done.items, done.fed, done.succeeded, done.progress], [
      "FINISHED",
      "ten",
      10,
      10,
      10,
      1,
    ]);
    assert.equal(done.wait_reason, null);
  }));

Deno.test("a leader that dies in the middle of a look loses nothing and feeds nothing twice; a deposed one does nothing", () =>
  withBulks(async (scene) => {
    const { id } = await scene.client.bulk("each", numbered(6), { parallel: 2 });
    const helping = { bulk_id: id, next_seq: 1, items: 2 };
    assert.deepEqual([...await feed(scene.sql, scene.term, [helping])], [{ bulk_id: id, runs: 2 }]);
    assert.deepEqual(
      [...await feed(scene.sql, scene.term, [helping])],
      [],
      "its checks are still there: it is read again",
    );
    const old = new Term(scene.term.epoch - 1, "leader", Infinity);
    assert.deepEqual([...await feed(scene.sql, old, [{ ...helping, next_seq: 3 }])], []);
    await scene.round();
    assert.equal((await scene.runs(id, ["RUNNING"])).length, 2);
    await scene.end(id, 2);
    await lookAfterBulks({ ...scene.me, term: old });
    assert.notEqual((await scene.sql`select from bulk_recheck`).length, 0, "only the leader takes checks away");
    for (const left of [4, 2, 0]) {
      await scene.round();
      const running = await scene.running(id);
      assert.equal(running.length, Math.min(2, left));
      await scene.end(id, running.length);
    }
    await scene.round();
    assert.equal((await scene.bulk(id)).succeeded, 6);
  }));

Deno.test("parallel that is changed by plain SQL binds from the next look on, also what was fed already", () =>
  withBulks(async (scene) => {
    const { sql } = scene;
    const { id } = await scene.client.bulk("each", numbered(40), { parallel: 8 });
    await scene.round();
    assert.equal((await scene.running(id)).length, 8);
    await sql`update bulk set parallel = 3 where id = ${id}`;
    await scene.end(id, 4);
    await scene.round();
    assert.equal((await scene.running(id)).length, 4, "nothing is fed while more run than the new limit");
    await scene.end(id, 3);
    await scene.round();
    assert.equal((await scene.running(id)).length, 3);
    await sql`update bulk set parallel = 12 where id = ${id}`;
    await scene.round();
    assert.equal((await scene.running(id)).length, 12);
    await lookAfterBulks(scene.me);
    await scene.end(id, 12);
    await lookAfterBulks(scene.me); // fed, not yet started
    assert.equal((await scene.runs(id, ["PENDING"])).length, 12);
    await sql`update bulk set parallel = 5 where id = ${id}`;
    await scene.round();
    assert.deepEqual([(await scene.running(id)).length, (await scene.runs(id, ["PENDING"])).length], [5, 7]);
    const waits = await sql`select distinct wait_reason(r) as why, held from job_run r where state = 'PENDING'`;
    const full = { code: "bulk_full", params: { bulk_id: id, running: 5, limit: 5 } };
    assert.deepEqual([...waits], [{ why: full, held: true }]);
    await scene.end(id, 5);
    await scene.round();
    assert.deepEqual([(await scene.running(id)).length, (await scene.runs(id, ["PENDING"])).length], [5, 2]);
  }));

Deno.test("runs that wait for another try give their place to others, but never are more than twice as many materialized", () =>
  withBulks(async (scene) => {
    const { id } = await scene.client.bulk("each", numbered(100), { parallel: 5 });
    for (let look = 0; look < 6; look++) {
      await scene.round();
      const running = await scene.running(id);
      await scene.end(id, running.length, "FAILED", 3);
    }
    await scene.round();
    assert.equal((await scene.runs(id, ["RETRYING"])).length, 10);
    assert.equal((await scene.runs(id, ["PENDING", "RUNNING"])).length, 0);
    await scene
      .sql`update job_run set due_at = clock_timestamp(), wakes_at = clock_timestamp() where wakes_at is not null`;
    await scene.round();
    assert.equal((await scene.running(id)).length, 5, "they are bound by the limit as well");
    await scene.end(id, 5);
    await scene.round();
    assert.equal((await scene.running(id)).length, 5);
  }));

Deno.test("pause stops it within a look and says so; resume goes on; priority moves what waits", () =>
  withBulks(async (scene) => {
    const { sql, client } = scene;
    const { id } = await client.bulk("each", numbered(30), { parallel: 4 });
    await lookAfterBulks(scene.me);
    await sql`update job_run set priority = 7 where id = (select max(id) from job_run)`;
    await client.changeBulk(id, { state: "PAUSED", reason: "license server down", priority: "admin.high" });
    const moved = await sql`select priority from job_run order by id`;
    assert.deepEqual(moved.map((run) => run.priority), [120, 120, 120, 7], "one that was moved by itself stays");
    await sql`update job_run set priority = 120`;
    await scene.round();
    assert.deepEqual([(await scene.running(id)).length, (await scene.runs(id, ["PENDING"])).length], [0, 4]);
    const rows = await sql<
      { why: Waits; priority: number }[]
    >`select distinct wait_reason(r) as why, priority from job_run r`;
    const why = `bulk ${id} is paused by client: license server down; resume it: deno task bulk resume ${id}`;
    assert.deepEqual(rows.map((row) => [waitLine(ENGLISH, row.why), row.priority]), [[why, 120]]);
    assert.equal((await scene.bulk(id)).wait_reason, why);
    await sql`update bulk set state = 'RUNNING' where id = ${id}`;
    await client.changeBulk(id, { state: "RUNNING" }); // it has that state: nothing to change, nothing to note
    await client.changeBulk(id, { state: "RUNNING", parallel: 5 });
    await scene.round();
    assert.equal((await scene.running(id)).length, 5);
    const acts = await sql`select action, reason, after_json->>'state' as state from admin_action_log order by id`;
    assert.deepEqual(acts.map((act) => [act.action, act.reason, act.state]), [
      ["bulk.start", null, null],
      ["bulk.pause", "license server down", "PAUSED"],
      ["bulk.resume", null, "RUNNING"],
    ]);
  }));

Deno.test("cancel ends what waits, asks what runs to end, feeds nothing more, and then the bulk is over", () =>
  withBulks(async (scene) => {
    const { sql, client } = scene;
    await aDefinition(sql, { name: "after" });
    const { id } = await client.bulk("each", numbered(30), { parallel: 4, onFinish: "after", onFailure: "after" });
    await scene.round();
    await scene.end(id, 1, "FAILED");
    await lookAfterBulks(scene.me);
    await client.changeBulk(id, { state: "CANCELED", reason: "wrong list" });
    await scene.round();
    assert.deepEqual([(await scene.running(id)).length, (await scene.runs(id, ["CANCELED"])).length], [3, 1]);
    const [asked] =
      await sql`select count(*)::int, min(cancel_reason) as why from job_run where state = 'RUNNING' and cancel_requested_by = 'client'`;
    assert.deepEqual([asked?.count, english(asked?.why)], [3, `bulk ${id} is canceled: wrong list`]);
    await assert.rejects(client.changeBulk(id, { state: "RUNNING" }), /Cannot change bulk \d+: it is canceled/);
    assert.equal((await scene.bulk(id)).finished_at, null);
    await sql`update job_run set state = 'CANCELED', finished_at = clock_timestamp() where state = 'RUNNING'`;
    await scene.round();
    const bulk = await scene.bulk(id);
    assert.equal(bulk.state, "CANCELED");
    assert.notEqual(bulk.finished_at, null);
    const ends = await sql`select idempotency_key as key, args_json from job_run where bulk_id is null order by key`;
    const args = { bulk_id: id, name: "", state: "CANCELED", succeeded: 0, failed: 1, not_done: 29 };
    assert.deepEqual(ends.map((run) => [run.key, run.args_json]), [[`bulk:${id}:failure`, args], [
      `bulk:${id}:finish`,
      args,
    ]]);
    await assert.rejects(client.changeBulk(id, { parallel: 2 }), /it has ended/);
  }));

Deno.test("a bulk that very many runs of go on is canceled some at a time", () =>
  withBulks(async (scene) => {
    const { id } = await scene.client.bulk("each", numbered(1), { parallel: 10_000 });
    await scene.round();
    await scene.sql`
      insert into job_run (job_definition_id, source, bulk_id) select job_definition_id, 'bulk', ${id} from bulk, generate_series(1, 6000)`;
    await scene.client.changeBulk(id, { state: "CANCELED" });
    const asked = async () =>
      (await scene.sql`select from job_run where bulk_id = ${id} and cancel_requested_at is not null`).length;
    await lookAfterBulks(scene.me);
    assert.equal(await asked(), 5_000);
    assert.equal(
      (await scene.sql`select from bulk where next_feed_at <= clock_timestamp()`).length,
      1,
      "looked at again",
    );
    await lookAfterBulks(scene.me);
    assert.equal(await asked(), 6_001);
    await scene.sql`update job_run set state = 'CANCELED', finished_at = clock_timestamp() where state = 'RUNNING'`;
    await scene.round();
    assert.notEqual((await scene.bulk(id)).finished_at, null);
  }));

Deno.test("the runs of onFinish and onFailure are born in the statement that ends the bulk, once", () =>
  withBulks(async (scene) => {
    const { sql, client } = scene;
    for (const name of ["all", "some"]) await aDefinition(sql, { name, default_args_json: { to: "me" } });
    const { id } = await client.bulk("each", numbered(3), {
      parallel: 3,
      onFinish: "all",
      onFailure: "some",
      name: "wipe",
    });
    const fine = await client.bulk("each", numbered(1), { onFailure: "some" });
    await scene.round();
    assert.equal(await finish(sql, scene.term, id), undefined, "it has not ended");
    await scene.end(id, 2);
    await scene.end(id, 1, "FAILED");
    await scene.end(fine.id, 1);
    await Promise.all([finish(sql, scene.term, id), finish(sql, scene.term, id)]);
    await scene.round();
    const rows = await sql`select d.name, r.args_json from job_run r join job_definition d on d.id = r.job_definition_id
                            where d.name <> 'each' order by d.name`;
    const args = { to: "me", bulk_id: id, name: "wipe", state: "FINISHED", succeeded: 2, failed: 1, not_done: 0 };
    assert.deepEqual([...rows], [{ name: "all", args_json: args }, { name: "some", args_json: args }]);
  }));

Deno.test("a bulk without items is over at once", () =>
  withBulks(async (scene) => {
    const { id } = await scene.client.bulk("each", []);
    await scene.round();
    const { state, items, progress } = await scene.bulk(id);
    assert.deepEqual([state, items, progress], ["FINISHED", 0, 1]);
  }));

Deno.test("the interval is kept between feeds, and one that is shortened by plain SQL counts at once", () =>
  withBulks(async (scene) => {
    const { sql } = scene;
    const { id } = await scene.client.bulk("each", numbered(20), { parallel: 4, intervalSeconds: 3600 });
    await scene.round();
    await scene.end(id, 3);
    await scene.round();
    assert.equal((await scene.running(id)).length, 1);
    assert.match((await scene.bulk(id)).wait_reason ?? "", /interval: the next batch starts at \d{4}-/);
    const [plan] = await sql`select extract(epoch from next_feed_at - fed_at)::float8 as seconds from bulk`;
    assert(Math.abs(plan?.seconds - 3600) < 60, `it is planned after ${plan?.seconds} s`);
    await sql`update bulk set fed_at = fed_at - interval '1 hour', next_feed_at = clock_timestamp() where id = ${id}`;
    await scene.round();
    assert.equal((await scene.running(id)).length, 4, "when the time has come nothing else must happen");
    await sql`update bulk set fed_at = fed_at - interval '1 hour', next_feed_at = clock_timestamp() where id = ${id}`;
    await scene.round();
    const [full] = await sql`select next_feed_at from bulk where id = ${id}`;
    assert.equal(full?.next_feed_at, null, "without room nothing is planned: the next end of a run is soon enough");
    await scene.end(id, 1);
    await scene.round();
    assert.equal((await scene.running(id)).length, 4);
    await scene.end(id, 4);
    await scene.round();
    assert.equal((await scene.running(id)).length, 0);
    await sql`update bulk set interval_seconds = 0 where id = ${id}`;
    await scene.round();
    assert.equal((await scene.running(id)).length, 4);
  }));

Deno.test("a bulk none of whose runs can start says what they wait for", () =>
  withBulks(async (scene) => {
    const { sql, term } = scene;
    const { id } = await scene.client.bulk("each", numbered(3), { parallel: 2 });
    await scene.round();
    assert.equal((await scene.bulk(id)).wait_reason, null, "it goes on");
    await scene.end(id, 2);
    await lookAfterBulks(scene.me);
    const [run] = await sql<{ id: number; job_definition_id: number }[]>`
      select id, job_definition_id from job_run where state = 'PENDING'`;
    assert(run);
    const reason = { code: "nobody_there", params: { where: whereOf("gpu=x") } } as const;
    await sayWhy(sql, term, [{ job_definition_id: run.job_definition_id, node: "", reason }]);
    assert.match((await scene.bulk(id)).wait_reason ?? "", /^no worker is alive with labels gpu=x; start one/);
  }));

Deno.test("a run that goes on when its bulk's priority changes has the new one when it is tried again", () =>
  withBulks(async (scene) => {
    const { id } = await scene.client.bulk("each", numbered(3), { parallel: 3, priority: "admin.high" });
    await scene.round();
    await scene.sql`update job_run set priority = 7 where id = (select max(id) from job_run)`;
    await scene.client.changeBulk(id, { priority: "system.low" });
    await scene.end(id, 3, "FAILED", 1);
    const runs = await scene.sql`select state, priority from job_run order by id`;
    assert.deepEqual(runs.map((run) => [run.state, run.priority]), [["RETRYING", 360], ["RETRYING", 360], [
      "RETRYING",
      7,
    ]]);
  }));

Deno.test("bulks of one serial key go one after another, their items in parallel; others go meanwhile", () =>
  withBulks(async (scene) => {
    const { client } = scene;
    const make = (serialKey?: string) => client.bulk("each", numbered(4), { parallel: 2, serialKey });
    const first = await make("tenant:a");
    const second = await make("tenant:a");
    const other = await make("tenant:b");
    const running = async () =>
      await Promise.all([first, second, other].map(async ({ id }) => (await scene.running(id)).length));
    await scene.round();
    assert.deepEqual(await running(), [2, 0, 2]);
    assert.equal((await scene.bulk(second.id)).wait_reason, `behind bulk ${first.id} of serial key "tenant:a"`);
    await scene.end(first.id, 2);
    await scene.round();
    await client.changeBulk(first.id, { state: "PAUSED" });
    await scene.end(first.id, 1);
    await scene.round();
    assert.deepEqual(await running(), [1, 0, 2], "one that is paused keeps its place");
    await client.changeBulk(first.id, { state: "RUNNING" });
    await scene.end(first.id, 1);
    await scene.round();
    assert.deepEqual(await running(), [0, 2, 2]);
  }));

Deno.test("a paused bulk keeps nobody else of its limit key waiting, and takes its place again when it is resumed", () =>
  withBulks(async (scene) => {
    const { client, sql } = scene;
    await aDefinition(sql, { name: "limited", concurrency_limit: 2, concurrency_key: "all" });
    const { id } = await client.bulk("limited", numbered(4), { parallel: 4 });
    await scene.round();
    assert.equal((await scene.running(id)).length, 2);
    const { id: other } = await client.enqueue("limited", {});
    await client.changeBulk(id, { state: "PAUSED" });
    await scene.end(id, 2);
    await scene.round();
    const [run] = await sql`select state from job_run where id = ${other}`;
    assert.equal(run?.state, "RUNNING");
    await client.changeBulk(id, { state: "RUNNING" });
    await scene.round();
    assert.equal((await scene.running(id)).length, 1);
    await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp() where id = ${other}`;
    await scene.round();
    assert.equal((await scene.running(id)).length, 2);
  }));
