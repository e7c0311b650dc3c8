/** Bulks of which something fails, and what is refused at the door. */
import assert from "node:assert/strict";
import postgres from "postgres";
import { z } from "zod";
import { EnqueueError } from "../../../src/client.ts";
import { defineJob } from "../../../src/job.ts";
import { roomFor, throttleFor } from "../../../src/leader/bulks.ts";
import { forecast, forecastBulk, readBulk } from "../../../src/bulks/bulk_view.ts";
import type { BulkState } from "../../../src/bulks/bulk_dispatch.ts";
import { type BulkScene, numbered, withBulks } from "../../support/bulk_scene.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";

// Here the file is named bulk_failures_test, so that is the job's name.
const job = defineJob({ args: z.object({ n: z.number() }), run: ({ args }) => args.n });

/** Ends one run after another, as `fails` says of each in turn, until the bulk stops or so many have ended. Each second one that fails was too slow. */
async function go(scene: BulkScene, id: number, most: number, fails: (turn: number) => boolean): Promise<number> {
  let failed = 0;
  for (let turn = 0; turn < most; turn++) {
    await scene.round();
    if ((await scene.running(id)).length === 0) return turn;
    await scene.end(id, 1, !fails(turn) ? "SUCCEEDED" : failed++ % 2 === 0 ? "TIMED_OUT" : "FAILED");
  }
  await scene.round();
  return most;
}

Deno.test("more failures than maxFailures pause it with the reason, and are counted anew when it is resumed", () =>
  withBulks(async (scene) => {
    const { id } = await scene.client.bulk("each", numbered(30), { parallel: 2, maxFailures: 2 });
    await go(scene, id, 6, (turn) => turn % 2 === 0);
    assert.equal((await scene.runs(id, ["FAILED", "TIMED_OUT"])).length, 3);
    const paused = await scene.bulk(id);
    assert.deepEqual([paused.state, paused.changed_by], ["PAUSED", "system"]);
    assert.match(
      paused.wait_reason ?? "",
      /paused by system: more than 2 of its runs failed \(max_failures\); resume it/,
    );
    const [noted] = await scene.sql`select actor, reason from admin_action_log where action = 'bulk.pause'`;
    assert.deepEqual(noted, { actor: "system", reason: paused.reason });
    await scene.client.changeBulk(id, { state: "RUNNING" });
    await go(scene, id, 2, () => true);
    assert.equal((await scene.bulk(id)).state, "RUNNING", "two more are allowed");
    await go(scene, id, 1, () => true);
    assert.equal((await scene.bulk(id)).state, "PAUSED");
  }));

Deno.test("a failure among the last items ends the bulk rather than pausing it", () =>
  withBulks(async (scene) => {
    const { id } = await scene.client.bulk("each", numbered(1), { maxFailures: 0 });
    await go(scene, id, 1, () => true);
    assert.equal((await scene.bulk(id)).state, "FINISHED");
  }));

Deno.test("what runs at once is halved while too much fails, and comes back one by one", () =>
  withBulks(async (scene) => {
    const { id } = await scene.client.bulk("each", numbered(200), { parallel: 4, throttleAbove: 0.6 });
    await go(scene, id, 20, () => true);
    const throttled = await scene.bulk(id);
    assert.deepEqual([throttled.parallel, throttled.running_limit, throttled.throttled], [4, 2, 2]);
    await go(scene, id, 21, () => false);
    assert.deepEqual((await scene.bulk(id)).throttled, 3);
    await go(scene, id, 21, () => false);
    const back = await scene.bulk(id);
    assert.deepEqual([back.running_limit, back.throttled], [4, null]);
    assert.equal((await scene.running(id)).length, 4);
  }));

Deno.test("only what failed is done again, once, in a new bulk whose runs name those that they repeat", () =>
  withBulks(async (scene) => {
    const { client, sql } = scene;
    const { id } = await client.bulk("each", numbered(6), { parallel: 3, name: "wipe", maxFailures: 9 });
    assert.equal(await client.retryBulk(id), undefined);
    await go(scene, id, 6, (turn) => turn % 2 === 0);
    const failed = await scene.runs(id, ["FAILED", "TIMED_OUT"]);
    await scene.round();
    assert.deepEqual([failed.length, (await scene.bulk(id)).state, (await scene.bulk(id)).failed], [3, "FINISHED", 3]);
    const [again, twice] = await Promise.all([client.retryBulk(id), client.retryBulk(id)]);
    assert.equal([again, twice].filter((one) => one === undefined).length, 1, "of two at once one finds nothing left");
    const made = again ?? twice;
    assert.equal(made?.items, 3);
    await scene.round();
    const view = await scene.bulk(made?.id as number);
    assert.deepEqual([view.retry_of, view.name, view.parallel, view.max_failures, view.running], [id, "wipe", 3, 9, 3]);
    const repeats = await sql`
      select r.rerun_of, r.args_json = o.args_json as same from job_run r join job_run o on o.id = r.rerun_of
       where r.bulk_id = ${view.id} order by r.id`;
    assert.deepEqual([...repeats], failed.map((rerun_of) => ({ rerun_of, same: true })));
    await assert.rejects(client.retryBulk(999), /Cannot retry bulk 999: there is none/);
  }));

Deno.test("items come from iterables, from programs that take their time and from queries, and are typed and checked", () =>
  withBulks(async ({ client, sql }) => {
    await aDefinition(sql, { name: "bulk_failures_test", priority: 300 });
    async function* slowly() {
      for (const item of numbered(3)) {
        await Promise.resolve();
        yield item;
      }
    }
    const typed = await client.bulk(job, slowly(), { serialKey: "k", intervalSeconds: 1.5, throttleAbove: 0.5 });
    const query = "select jsonb_build_object('n', n) as args from generate_series(1, 4) n -- as in a file;\n;\n";
    const queried = await client.bulk(job, { sql: query }, { priority: "admin.high" });
    assert.deepEqual([typed.items, queried.items], [3, 4]);
    const items = await sql`select seq, args_json from bulk_item where bulk_id = ${queried.id} order by seq`;
    assert.deepEqual(items.map((item) => [item.seq, item.args_json.n]), [[1, 1], [2, 2], [3, 3], [4, 4]]);
    const given = await sql`select seq, args_json from bulk_item where bulk_id = ${typed.id} order by seq`;
    assert.deepEqual(given.map((item) => [item.seq, item.args_json.n]), [[1, 1], [2, 2], [3, 3]]);
    const rows =
      await sql`select serial_key, interval_seconds::float8, throttle_above::float8, priority, parallel from bulk order by id`;
    assert.deepEqual([...rows], [
      { serial_key: "k", interval_seconds: 1.5, throttle_above: 0.5, priority: 300, parallel: 10 },
      { serial_key: null, interval_seconds: 0, throttle_above: null, priority: 120, parallel: 10 },
    ]);
  }));

Deno.test("a bulk is made whole or not at all, also inside the caller's transaction, and once for a key", () =>
  withBulks(async ({ client, sql }) => {
    await aDefinition(sql, { name: "bulk_failures_test" });
    const wrong = [...numbered(3), { n: "four" as unknown as number }];
    await assert.rejects(
      client.bulk(job, wrong),
      (error) => error instanceof EnqueueError && /item 4 of a bulk .* args do not fit: n: /.test(error.message),
    );
    await sql.begin(async (tx) => {
      const within = client.within(tx);
      await assert.rejects(within.bulk(job, wrong), EnqueueError);
      await within.bulk("each", numbered(2), { name: "kept" });
    });
    await sql.begin(async (tx) => {
      await client.within(tx).bulk("each", numbered(2));
      throw new Error("no");
    }).catch(() => {});
    const bulks = await sql`select name from bulk`;
    assert.deepEqual([...bulks], [{ name: "kept" }]);
    const keyed = { idempotencyKey: "2026-11" };
    const [one, two] = await Promise.all([client.bulk("each", [{}], keyed), client.bulk("each", [{}], keyed)]);
    assert.equal(one.id, two.id);
    assert.deepEqual([one.isNew, two.isNew].sort(), [false, true]);
    assert.deepEqual(await client.bulk("each", [{}], keyed), { id: one.id, isNew: false, items: 0 });
    assert.equal((await client.bulk(job, [{ n: 1 }], keyed)).isNew, true);
  }));

Deno.test("the application's own postgres can carry a bulk in its transaction", () =>
  withBulks(async ({ client, sql, database_url }) => {
    const own = postgres(database_url, { max: 1 });
    try {
      await own.begin((tx) => client.within(tx).bulk("each", numbered(2)));
      assert.equal((await sql`select from bulk_item`).length, 2);
    } finally {
      await own.end();
    }
  }));

Deno.test("what cannot work is refused at the door", () =>
  withBulks(async ({ client, sql }) => {
    const refused = async (
      expected: RegExp,
      ...[name, items, options]: [string, unknown, Record<string, unknown>?]
    ) => {
      await assert.rejects(
        () => Promise.resolve().then(() => client.bulk(name, items as [], options)),
        (error) => error instanceof EnqueueError && expected.test(error.message),
        String(expected),
      );
    };
    await refused(/Cannot start a bulk of "nobody": no such job, known are/, "nobody", []);
    await refused(/Cannot run at the end of a bulk "nobody": no such job, known are/, "each", [], {
      onFinish: "nobody",
    });
    await refused(/onFailure is that job itself; name another/, "each", [], { onFailure: "each" });
    for (const parallel of [0, -1, 1.5, NaN]) {
      await refused(/parallel is a whole number from 1/, "each", [], { parallel });
    }
    await refused(/intervalSeconds is a number from 0/, "each", [], { intervalSeconds: -1 });
    await refused(/maxFailures is a whole number from 0/, "each", [], { maxFailures: -1 });
    await refused(/throttleAbove is a share between 0 and 1/, "each", [], { throttleAbove: 1 });
    await refused(/serialKey has 1 to 500 characters/, "each", [], { serialKey: "" });
    await refused(/Cannot start a bulk of "each": .*urgent/, "each", [], { priority: "urgent" });
    await refused(/no iterable and no \{ sql/, "each", "text");
    await refused(/its query failed: .*q\.args.*; name its column: select/, "each", { sql: "select 1 as n" });
    await refused(/its query failed: .*syntax/, "each", { sql: "selec" });
    await refused(/item 1 of a bulk of "each": .*not JSON/, "each", [() => 1]);
    const schema = { type: "object", properties: { n: { type: "integer", maximum: 2 } }, required: ["n"] };
    await sql`update job_definition set args_schema = ${sql.json(schema)} where name = 'each'`;
    const numbers = "select jsonb_build_object('n', n) as args from generate_series(1, 3) n";
    await refused(/Cannot start a bulk of "each": the args of item 3 of its query do not fit: n: /, "each", {
      sql: numbers,
    });
    await refused(/Cannot start a bulk of "each": the args of item 2 do not fit: n: /, "each", [{ n: 1 }, {}]);
    await sql`update job_definition set args_schema = null where name = 'each'`;
    await aDefinition(sql, { name: "report", args_schema: { ...schema, required: ["bulk_id", "n"] } });
    await refused(/run at the end of a bulk "report": the args that it would get do not fit: n: /, "each", [], {
      onFinish: "report",
    });
    await sql`update job_definition set node = '{host}' where name = 'each'`;
    const hosts = [{ host: "here" }, {}, { host: "there" }];
    await refused(/Cannot start a bulk of "each": no node has the name "there"; there are here/, "each", hosts);
    await sql`update job_definition set node = null, resources = '{"license": 1}' where name = 'each'`;
    await refused(/Cannot start a bulk of "each": resource "license" is not known; add it/, "each", []);
    await sql`update job_definition set resources = '{}' where name = 'each'`;
    assert.equal((await sql`select from bulk`).length, 0);
    await assert.rejects(client.changeBulk(7, { parallel: 3 }), /Cannot change bulk 7: there is none/);
    await assert.rejects(client.changeBulk(7, { parallel: 0 }), /Cannot change bulk 7: parallel is a whole number/);
    await assert.rejects(
      sql`insert into bulk (job_definition_id, parallel) select id, 0 from job_definition`,
      /parallel/,
    );
  }));

Deno.test("how many are fed, and how throttling moves", () => {
  const bulk = {
    state: "RUNNING",
    parallel: 10,
    running_limit: 10,
    throttled: null,
    throttle_above: 0.5,
    next_seq: 1,
    last_seq: 100,
    live: 0,
    retrying: 0,
    suspended: 0,
    behind: false,
    recent: 20,
    recent_failures: 10,
  } as BulkState;
  assert.equal(roomFor(bulk), 10);
  assert.equal(roomFor({ ...bulk, live: 15, retrying: 12 }), 5);
  assert.equal(roomFor({ ...bulk, live: 500, suspended: 497 }), 7, "those that wait within their bodies make room");
  assert.equal(roomFor({ ...bulk, last_seq: 3 }), 3);
  assert.equal(roomFor({ ...bulk, behind: true }), 0);
  assert.equal(roomFor({ ...bulk, state: "PAUSED" }), 0);
  assert.equal(throttleFor(bulk), null, "as much as it says is not more");
  assert.equal(throttleFor({ ...bulk, recent_failures: 11 }), 5);
  assert.equal(throttleFor({ ...bulk, running_limit: 1, recent_failures: 20 }), 1);
  assert.equal(throttleFor({ ...bulk, throttled: 5, running_limit: 5 }), 6);
  assert.equal(throttleFor({ ...bulk, throttled: 7, recent: 19, recent_failures: 19 }), 7, "too few to tell");
  assert.equal(throttleFor({ ...bulk, throttled: 5, throttle_above: null }), null);
});

Deno.test("a forecast is a band, at this pace or at another, and none where nothing is known", () => {
  const now = new Date(Date.UTC(2026, 0, 1, 12));
  const row = {
    items: 110,
    succeeded: 10,
    failed: 0,
    canceled: 0,
    parallel: 5,
    slots: 20,
    per_minute: 60,
    seconds_p25: 2,
    seconds_p75: 4,
    interval_seconds: 0,
    rate_each_seconds: null as number | null,
    finished_at: null,
    now,
  };
  const band = (parallel: number, more: Partial<typeof row> = {}) => {
    const { at_once, done_from, done_to } = forecast({ ...row, ...more }, parallel);
    return [at_once, ...[done_from, done_to].map((at) => at && (at.getTime() - now.getTime()) / 1000)];
  };
  assert.deepEqual(band(5), [5, 40, 100], "so far it was slower than its runs alone would be");
  assert.deepEqual(band(10), [10, 20, 50]);
  assert.deepEqual(band(50), [20, 10, 25], "more than there are slots does not help");
  assert.deepEqual(band(5, { interval_seconds: 30 }), [5, 600, 600]);
  assert.deepEqual(band(50, { interval_seconds: 30 }), [20, 60, 60], "fed fifty at a time, whatever slots there are");
  assert.deepEqual(band(5, { seconds_p25: null as unknown as number }), [5, null, null]);
  assert.deepEqual(band(5, { rate_each_seconds: 3 }), [5, 300, 300], "its rate lets no more begin");
  assert.deepEqual(band(50, { rate_each_seconds: 0.01 }), [20, 10, 25]);
});

Deno.test("how many end in a minute is not what a wave that ends within a moment would make in one", () =>
  withBulks(async ({ sql, client }) => {
    const { id } = await client.bulk("each", numbered(400), { parallel: 150 });
    const [{ id: job_definition_id }] = await sql<[{ id: number }]>`select id from job_definition where name = 'each'`;
    const wave = async (count: number) => {
      for (let n = 0; n < count; n++) {
        const finished_at = new Date(Date.UTC(2026, 0, 1) + 2_000 + n);
        const started_at = new Date(finished_at.getTime() - 2_000);
        await aRun(sql, { job_definition_id, bulk_id: id, state: "SUCCEEDED", started_at, finished_at });
      }
      return Math.round((await readBulk(sql, id))?.per_minute ?? 0);
    };
    assert.equal(await wave(3), 90, "three in two seconds");
    assert.equal(await wave(147), 4_500, "as many as 150 at once of two seconds each can be");
    await sql`update bulk set interval_seconds = 60`;
    assert.equal(await wave(1), 150, "a wave a minute");
  }));

Deno.test("a forecast counts the slots that its runs can have: by limit, resources, nodes, and not those of a leader that works for none", () =>
  withBulks(async ({ sql, client }) => {
    const { id } = await client.bulk("each", numbered(100), { parallel: 5 });
    const at = async (job: string) => {
      await sql.unsafe(`update job_definition set ${job}`);
      return (await forecastBulk(sql, id, 400))?.at.at_once;
    };
    await sql`update worker set slots = 30`;
    for (const [worker_id, node_id] of [["leader", "a"], ["w-a", "a"], ["w-b", "b"], ["w-c", "c"]]) {
      await aWorker(sql, { worker_id, node_id, slots: 20 });
    }
    await sql`update node set status = 'available', checked_at = now(), labels = '{"gpu": "x"}' where node_id in ('a', 'b')`;
    await sql`update node set is_active = false where node_id = 'c'`;
    await sql`update node set max_concurrent = 7 where node_id = 'b'`;
    await sql`insert into resource values ('license', 9)`;
    const all = 30 + 20 + 7;
    assert.equal(await at("node = null"), all);
    assert.equal(await at("node = '{where}'"), all, "each item may name another");
    assert.equal(await at("node = 'a'"), 20);
    assert.equal(await at("node = 'gpu=x'"), 27);
    assert.equal(await at("node = 'gpu=y'"), 400, "nobody knows");
    assert.equal(await at(`node = null, resources = '{"license": 2}'`), 4);
    assert.equal(await at("concurrency_limit = 3"), 3);
    assert.equal(await at("concurrency_key = '{n}'"), 4);
    assert.equal(await at("concurrency_policy = 'forbid'"), 1);
    await at("concurrency_policy = 'allow', concurrency_limit = null, concurrency_key = null, resources = '{}'");
    await sql`insert into scheduler_settings (name, value) values ('leader_runs_jobs', '"always"')`;
    assert.equal(await at("node = 'a'"), 40);
    await sql`update worker set state = 'DEAD' where worker_id = 'w-a'`;
    await sql`update scheduler_settings set value = '"alone"'`;
    assert.equal(await at("node = 'a'"), 20, "the leader stands in");
    assert.equal(await at("node = null"), 37);
    await sql`update scheduler_settings set value = '"never"'`;
    assert.equal(await at("node = 'a'"), 400);
  }));
