/** Events with a rule: which count, which are put together, which come too soon; and that none is lost without a trace. */
import assert from "node:assert/strict";
import { json, type Sql } from "../../../src/postgres/connection.ts";
import { readDefinition } from "../../../src/definitions/definition_rows.ts";
import { emitEvent, listEvents, takeEvents } from "../../../src/events/events.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { wake } from "../../../src/runs/key_queues.ts";
import { requestCancel } from "../../../src/runs/requests.ts";
import { readDispatchSnapshot } from "../../../src/dispatch/dispatch_queues.ts";
import { cliWith } from "../../support/cli.ts";
import { aDefinition, aTerm } from "../../support/factories.ts";
import { job, withSync } from "../../support/job_files/bench.ts";
import { withStores } from "../../support/stores.ts";

interface Scene {
  sql: Sql;
  database_url: string;
  /** Emits events with these payloads, lets the leader take them, and gives their ids. */
  happen(...payloads: Record<string, unknown>[]): Promise<number[]>;
  runs(): Promise<{ id: number; args_json: unknown; seconds: number; held: boolean }[]>;
  outcomes(event_id: number | undefined): Promise<[string, number | null][]>;
  term: Term;
}

async function withRule(rule: Record<string, unknown>, test: (scene: Scene) => Promise<void>): Promise<void> {
  await withStores(async ({ sql, database_url }) => {
    await aDefinition(sql, {
      name: "sync_device",
      event_types: ["changed"],
      event_rules: { changed: rule },
      serial_key: "d:{d}",
    });
    const term = await aTerm(sql);
    await test({
      sql,
      database_url,
      term,
      async happen(...payloads) {
        const ids: number[] = [];
        for (const payload of payloads) ids.push(await emitEvent(sql, { event_type: "changed", payload }));
        assert.equal((await takeEvents(sql, term)).events, payloads.length);
        return ids;
      },
      async runs() {
        const rows = await sql<{ id: number; args_json: unknown; seconds: number; held: boolean; agree: boolean }[]>`
          select id, args_json, held, round(extract(epoch from wakes_at - clock_timestamp()))::int as seconds,
                 coalesce(abs(extract(epoch from wakes_at - due_at)) < 5, true) as agree from job_run order by id`;
        assert(rows.every(({ agree }) => agree), "a run is let go at wakes_at, and no run starts before its due_at");
        return rows;
      },
      outcomes: async (id) =>
        (await listEvents(sql, { id, most: 1 }))[0]?.outcomes.map((one) => [one.outcome, one.job_run_id]) ?? [],
    });
  });
}

Deno.test("debounced: one run for each key, put off by every further event, with the last payload", async () => {
  await withRule({ debounce_seconds: 60, key: "{d}" }, async ({ sql, happen, runs, outcomes, term }) => {
    const [first, other, second] = await happen({ d: 1, n: 1 }, { d: 2, n: 1 }, { d: 1, n: 2 });
    const [of_two, of_one] = await runs();
    assert.deepEqual([of_one?.args_json, of_one?.held, of_one?.seconds], [{ d: 1, n: 2 }, true, 60]);
    assert.deepEqual(await outcomes(first), [["debounced", of_one?.id]]);
    assert.deepEqual(await outcomes(other), [["run", of_two?.id]]);

    await sql`update job_run set due_at = due_at - interval '50 s', wakes_at = wakes_at - interval '50 s'`;
    const [third] = await happen({ d: 1, n: 3 });
    assert.deepEqual((await runs()).map(({ args_json, seconds }) => [args_json, seconds]), [[{ d: 2, n: 1 }, 10], [{
      d: 1,
      n: 3,
    }, 60]]);
    assert.deepEqual([await outcomes(second), await outcomes(third)], [[["debounced", of_one?.id]], [[
      "run",
      of_one?.id,
    ]]]);

    await sql`update job_run set due_at = clock_timestamp(), wakes_at = clock_timestamp()`;
    await wake(sql, term);
    const [fourth] = await happen({ d: 1, n: 4 });
    const after = await runs();
    assert.deepEqual([after.length, after[1]?.args_json, after[2]?.args_json], [3, { d: 1, n: 3 }, { d: 1, n: 4 }]);
    assert.deepEqual(await outcomes(fourth), [["run", after[2]?.id]]);
  });
});

Deno.test("debounced: not put off beyond the longest wait, and what is being canceled is left alone", async () => {
  await withRule({ debounce_seconds: 60, max_wait_seconds: 90 }, async ({ sql, happen, runs }) => {
    await happen({ n: 1 });
    await sql`update job_run set created_at = created_at - interval '80 s'`;
    await happen({ n: 2 });
    const [run] = await runs();
    assert.deepEqual([run?.seconds, run?.args_json], [10, { n: 2 }]);
    await requestCancel(sql, run?.id ?? 0, { actor: "test", reason: "test" });
    await happen({ n: 3 });
    assert.deepEqual((await runs()).map((one) => one.args_json), [{ n: 2 }, { n: 3 }]);
  });
});

Deno.test("debounced: where and behind whom the run goes is said by the last payload", async () => {
  await withRule({ debounce_seconds: 60 }, async ({ sql, happen }) => {
    await happen({ d: 1 });
    await happen({ d: 2 });
    const keys = await sql<{ serial_key: string }[]>`select serial_key from job_run`;
    assert.deepEqual(keys.map((one) => one.serial_key), ["d:2"]);
  });
});

Deno.test("throttled: the first of a key at once, the others name that run until the window is over", async () => {
  await withRule({ throttle_seconds: 60, key: "{d}" }, async ({ sql, happen, runs, outcomes }) => {
    const [first, second, other] = await happen({ d: 1, n: 1 }, { d: 1, n: 2 }, { d: 2, n: 1 });
    const [of_one, of_two] = await runs();
    assert.deepEqual((await runs()).map(({ args_json, held }) => [args_json, held]), [[{ d: 1, n: 1 }, false], [{
      d: 2,
      n: 1,
    }, false]]);
    assert.deepEqual(await outcomes(first), [["run", of_one?.id]]);
    assert.deepEqual(await outcomes(second), [["throttled", of_one?.id]]);
    assert.deepEqual(await outcomes(other), [["run", of_two?.id]]);
    const [third] = await happen({ d: 1, n: 3 });
    assert.deepEqual(await outcomes(third), [["throttled", of_one?.id]]);
    await sql`update job_run set created_at = created_at - interval '60 s'`;
    const [fourth, fifth] = await happen({ d: 1, n: 4 }, { d: 1, n: 5 });
    const newest = (await runs()).at(-1);
    assert.deepEqual([newest?.args_json, await outcomes(fourth), await outcomes(fifth)], [
      { d: 1, n: 4 },
      [["run", newest?.id]],
      [["throttled", newest?.id]],
    ]);
  });
});

Deno.test("only payloads with the values that are asked for start a run", async () => {
  const where = { platform: ["ios", "ipados"], "device.level": 1, deleted: null };
  await withRule({ where }, async ({ happen, runs, outcomes }) => {
    const fits = { platform: "ios", device: { level: 1 }, n: 1 };
    const [, no] = await happen(
      fits,
      { ...fits, platform: "android" },
      { ...fits, device: { level: "1" } },
      { ...fits, deleted: true },
      { platform: "ipados", device: { level: 1 }, deleted: null, n: 2 },
      {},
    );
    assert.deepEqual((await runs()).map((one) => (one.args_json as { n: number }).n), [1, 2]);
    assert.deepEqual(await outcomes(no), []);
  });
});

Deno.test("a field that is missing is null to a rule: asked for, it fits; where a value is asked for, it does not", async () => {
  const cases: [where: Record<string, unknown>, payload: Record<string, unknown>, fits: boolean][] = [
    [{ gone: null }, {}, true],
    [{ gone: null }, { gone: null }, true],
    [{ gone: null }, { gone: false }, false],
    [{ gone: ["a", null] }, {}, true],
    [{ gone: ["a", null] }, { gone: "b" }, false],
    [{ "a.b": null }, { a: {} }, true],
    [{ "a.b": null }, { a: { b: 0 } }, false],
    [{ kind: "a" }, {}, false],
    [{ kind: ["a", "b"] }, {}, false],
    [{ "a.b": 1 }, { a: {} }, false],
    [{ kind: "a", gone: null }, { kind: "a" }, true],
    [{ kind: "a", gone: null }, {}, false],
  ];
  await withStores(async ({ sql }) => {
    for (const [where, payload, fits] of cases) {
      const [row] = await sql`select event_matches(${json(sql, { where })}, ${json(sql, payload)}) as fits`;
      assert.equal(row?.fits, fits, `${JSON.stringify(where)} of ${JSON.stringify(payload)}`);
    }
  });
});

Deno.test("a value that looks like a field of a key is a value: nobody gets into the line of another by it", async () => {
  await withRule({}, async ({ sql }) => {
    const filled = async (template: string, args: Record<string, unknown>) =>
      (await sql<{ key: string }[]>`select fill_template(${template}, ${json(sql, args)}) as key`)[0]?.key;
    assert.equal(await filled("{tenant}:{device}", { tenant: "{device}", device: "x" }), "{device}:x");
    assert.equal(await filled("{device}:{tenant}", { tenant: "{device}", device: "x" }), "x:{device}");
    assert.equal(await filled("a{b.c}-{gone}d{n}", { b: { c: "\\1&" }, n: 7 }), "a\\1&-d7");
    assert.equal(await filled("日{本}}{", { 本: "語" }), "日語}{");
    assert.equal(await filled("{t}", { t: "" }), "");
    assert.equal((await filled("k:{t}", { t: "x".repeat(9_000) }))?.length, 450 + 33);
  });
});

Deno.test("many events, taken a few at a time, are each dealt with once", async () => {
  await withRule({ debounce_seconds: 60, key: "{d}" }, async ({ sql, term, runs }) => {
    for (let n = 0; n < 40; n++) await emitEvent(sql, { event_type: "changed", payload: { d: n % 4, n } });
    const taken: number[] = [];
    for (let most = 7; taken.at(-1) !== 0; most++) {
      const { events, more } = await takeEvents(sql, term, { most });
      assert.equal(more, events === most);
      taken.push(events);
    }
    assert.equal(taken.reduce((sum, events) => sum + events, 0), 40);
    assert.deepEqual((await runs()).map((one) => (one.args_json as { n: number }).n).sort(), [36, 37, 38, 39]);
    assert.equal((await sql`select from event_suppressed`).length, 36);
  });
});

Deno.test("events that start more runs than one statement can bear are taken some at a time", async () => {
  await withRule({}, async ({ sql, term }) => {
    await sql`
      insert into job_definition (name, command_name, type, digest, event_types)
      select 'wide_' || n, 'wide.ts', 'event', 'digest', '{wide}' from generate_series(1, 400) n`;
    for (let n = 0; n < 20; n++) await emitEvent(sql, { event_type: "wide", payload: { n } });
    assert.deepEqual(await takeEvents(sql, term), { events: 12, runs: 4_800, absorbed: 0, more: true });
    assert.deepEqual(await takeEvents(sql, term), { events: 8, runs: 3_200, absorbed: 0, more: false });

    const payload = { text: Array.from({ length: 6_000 }, () => crypto.randomUUID()).join() };
    for (let n = 0; n < 60; n++) await emitEvent(sql, { event_type: "changed", payload });
    const { events, more } = await takeEvents(sql, term);
    assert(events > 10 && events < 60 && more, `${events} large events were taken at once`);
    for (let left = 60 - events; left > 0;) left -= (await takeEvents(sql, term)).events;
  });
});

Deno.test("a dedupe key makes one event of two, and is refused for another type, whose event would be lost", async () => {
  await withRule({}, async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const emit = (type: string) => cli("emit", type, "--dedupe-key", "device-7", "--json");
    const first = JSON.parse((await emit("changed")).out);
    assert.deepEqual(JSON.parse((await emit("changed")).out), first);
    const refused = await emit("removed");
    assert.equal(refused.code, 1);
    assert.match(
      refused.out + refused.err,
      /Cannot emit \\?"removed\\?": the dedupe key \\?"device-7\\?" belongs to event \d+ of type \\?"changed/,
    );
    assert.equal((await sql`select from event`).length, 1);
    assert.match((await cli("events", "ls")).out, /changed .* not processed by the leader yet/);
  });
});

Deno.test("a job file says its rules, and is told what is wrong with them", async () => {
  const good =
    `on: ["plain", { type: "a", where: { x: [1, "2"] }, key: "{d}", debounceSeconds: 30, maxWaitSeconds: 300 }],`;
  await withSync({ "a.ts": job(good) }, async ({ sql, jobs, sync }) => {
    assert.deepEqual((await sync()).problems, []);
    const { event_types, event_rules } = await readDefinition(sql, "a") ?? {};
    assert.deepEqual(event_types, ["a", "plain"]);
    assert.deepEqual(event_rules, {
      a: { where: { x: [1, "2"] }, key: "{d}", debounce_seconds: 30, max_wait_seconds: 300 },
    });
    const bad: [string, RegExp][] = [
      [`{ type: "a", debounceSeconds: 3, throttleSeconds: 3 }`, /throttleSeconds stands beside debounceSeconds/],
      [`{ type: "a", maxWaitSeconds: 3 }`, /maxWaitSeconds needs a debounceSeconds/],
      [`{ type: "a", debounceSeconds: 30, maxWaitSeconds: 3 }`, /maxWaitSeconds needs a debounceSeconds/],
      [`{ type: "a", key: "{d}" }`, /key says nothing without/],
      [`{ type: "a", debounceSeconds: 0 }`, /debounceSeconds must be a number from 0.1/],
      [`{ type: "a", where: { x: {} } }`, /where must name fields/],
      [`{ type: "a", debounce: 3 }`, /on.debounce is no option/],
      [`{ debounceSeconds: 3 }`, /on\.type must be an event type/],
      [`["a", { type: "a", throttleSeconds: 3 }]`, /names "a" twice, differently/],
    ];
    for (const [on, problem] of bad) {
      jobs.write("a.ts", job(`on: ${on} as never,`));
      assert.match((await sync()).problems.map((one) => one.reason).join("\n"), problem);
    }
  });
});

Deno.test("debounced: it is not given to a worker before its time, which every further event moves", async () => {
  await withRule({ debounce_seconds: 0.8 }, async ({ sql, happen, runs }) => {
    await happen({ d: "one" });
    assert.deepEqual((await readDispatchSnapshot(sql, 5)).near, []);
    assert.equal((await runs()).length, 1);
  });
});
