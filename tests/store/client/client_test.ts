/** The client's promises, against a real Postgres and with the application's own `postgres`. */
import assert from "node:assert/strict";
import postgres from "postgres";
import { z } from "zod";
import { storable } from "../../../src/actions/args.ts";
import { createClient, EnqueueError, type EnqueueOptions } from "../../../src/client.ts";
import { defineJob, type Job, PRIORITIES, priorityNumber } from "../../../src/job.ts";
import { json } from "../../../src/postgres/connection.ts";
import { aDefinition } from "../../support/factories.ts";
import { type Stores, withStores } from "../../support/stores.ts";

// Here the file is named client_test, so that is the job's name.
const job = defineJob({
  args: z.object({ tenant: z.string(), copies: z.number().default(1) }),
  run: ({ args }) => args.copies,
});

async function withClient(test: (on: Stores & { client: ReturnType<typeof createClient> }) => Promise<void>) {
  await withStores(async (stores) => {
    await aDefinition(stores.sql, { name: "client_test", serial_key: "tenant:{tenant}", priority: 300 });
    const client = createClient({ databaseUrl: stores.database_url, maxConnections: 2 });
    try {
      await test({ ...stores, client });
    } finally {
      await client.close();
    }
  });
}

Deno.test("enqueue takes the job's type, its name and its defaults from the job file", async () => {
  await withClient(async ({ client, sql }) => {
    await sql`insert into node (node_id) values ('n1')`;
    const typed = await client.enqueue(job, { tenant: "acme" });
    const named = await client.enqueue("client_test", { tenant: "b" }, {
      priority: "admin.high+1",
      node: "n1",
      serialKey: "k",
    });
    const delayed = await job.delay({ tenant: "c" }, { runAt: new Date("2100-01-01T00:00:00Z") });
    const rows = await sql`select id, args_json, priority, serial_key, node, due_at from job_run order by id`;
    assert.deepEqual(rows.map((row) => [row.id, row.args_json.tenant, row.priority, row.serial_key, row.node]), [
      [typed.id, "acme", 300, "tenant:acme", null],
      [named.id, "b", 121, "k", "n1"],
      [delayed.id, "c", 300, "tenant:c", null],
    ]);
    assert.equal(rows[2]?.due_at.toISOString(), "2100-01-01T00:00:00.000Z");
  });
});

Deno.test("an idempotency key gives back the first run, and keys of other jobs do not clash", async () => {
  await withClient(async ({ client, sql }) => {
    await aDefinition(sql, { name: "other" });
    const first = await client.enqueue(job, { tenant: "a" }, { idempotencyKey: "k" });
    assert.deepEqual(await client.enqueue(job, { tenant: "b" }, { idempotencyKey: "k" }), {
      id: first.id,
      isNew: false,
    });
    assert.equal((await client.enqueue("other", {}, { idempotencyKey: "k" })).isNew, true);
  });
});

Deno.test("a key that one call gives twice makes one run, and items without a key a run each", async () => {
  await withClient(async ({ client, sql }) => {
    const args = { tenant: "a" };
    const keyed = { args, idempotencyKey: "twice" };
    const created = await client.enqueueMany(job, [{ args }, keyed, { args }, keyed, { args }]);
    assert.deepEqual(created.map(({ isNew }) => isNew), [true, true, true, false, true]);
    assert.equal(created[3]?.id, created[1]?.id);
    const rows = await sql<
      { id: number; key: string | null }[]
    >`select id, idempotency_key as key from job_run order by id`;
    assert.deepEqual(rows.map(({ key }) => key?.replace(/^enqueue:\d+:/, "") ?? null), [null, "twice", null, null]);
    assert.deepEqual(rows.map(({ id }) => id), [0, 1, 2, 4].map((place) => created[place]?.id));
    assert.notEqual((await client.enqueue(job, args)).id, (await client.enqueue(job, args)).id);
  });
});

Deno.test("enqueueMany is all or nothing, in the order given", async () => {
  await withClient(async ({ client, sql }) => {
    const items = Array.from({ length: 1_000 }, (_, place) => ({ args: { tenant: `t${place}` } }));
    const created = await client.enqueueMany(job, items);
    const rows = await sql`select id, args_json->>'tenant' as tenant from job_run order by id`;
    assert.deepEqual(created.map((one) => one.id), rows.map((row) => row.id));
    assert.equal(rows[999]?.tenant, "t999");
    const bad = [{ args: { tenant: "x" } }, { args: { tenant: 7 } }];
    await assert.rejects(
      client.enqueueMany(job as unknown as Job, bad),
      /Cannot enqueue "client_test": the args of item 2 do not fit: tenant: /,
    );
    const keyed = [{ args: { tenant: "x" } }, { args: { tenant: "x" }, serialKey: "" }];
    await assert.rejects(
      client.enqueueMany(job, keyed),
      /Cannot enqueue "client_test", item 2: serialKey has 1 to 500/,
    );
    const [count] = await sql`select count(*)::int as n from job_run`;
    assert.equal(count?.n, 1_000);
    assert.deepEqual(await client.enqueueMany(job, []), []);
  });
});

Deno.test("inside the application's own transaction a run exists exactly when that commits", async () => {
  await withClient(async ({ client, sql, database_url }) => {
    const app = postgres(database_url, { max: 1 });
    try {
      const kept = await app.begin(async (tx) => {
        await client.within(tx).emit("order.placed", { order: 1 });
        return await client.within(tx).enqueue(job, { tenant: "kept" });
      });
      await assert.rejects(app.begin(async (tx) => {
        await client.within(tx).emit("order.placed", { order: 2 });
        await client.within(tx).enqueue(job, { tenant: "lost" });
        throw new Error("rolled back");
      }));
      const runs = await sql`select id, args_json->>'tenant' as tenant from job_run`;
      assert.deepEqual([...runs], [{ id: kept.id, tenant: "kept" }]);
      const [events] = await sql`select count(*)::int as n from event`;
      assert.equal(events?.n, 1);
    } finally {
      await app.end();
    }
  });
});

Deno.test("inside the application's own transaction ids are numbers, whatever its connection makes of a bigint", async () => {
  await withClient(async ({ client, sql, database_url }) => {
    await aDefinition(sql, {
      name: "report",
      args_schema: z.toJSONSchema(z.object({ bulk_id: z.number() }), { io: "input" }),
    });
    const app = postgres(database_url, { max: 1 });
    try {
      const { made, progress } = await app.begin(async (tx) => {
        const made = await client.within(tx).bulk(job, [{ tenant: "a" }, { tenant: "b" }], { onFinish: "report" });
        return { made, progress: await client.within(tx).bulkProgress(made.id) };
      });
      assert.deepEqual(made, { id: made.id, isNew: true, items: 2 });
      assert.equal(typeof made.id, "number");
      const { done_from: _, done_to: __, ...outside } = await client.bulkProgress(made.id) ?? {};
      const { done_from: ___, done_to: ____, ...inside } = progress ?? {};
      assert.deepEqual({ ...inside, waits: null, wait_reason: null }, { ...outside, waits: null, wait_reason: null });
    } finally {
      await app.end();
    }
  });
});

Deno.test("what Postgres would refuse in words of its own is refused at the door", async () => {
  await withClient(async ({ client, sql }) => {
    const args = { tenant: "a" };
    for (const text of ["a\0b", "a\ud800"]) {
      for (const option of ["idempotencyKey", "serialKey", "node"]) {
        await assert.rejects(client.enqueue(job, args, { [option]: text }), EnqueueError);
      }
      await assert.rejects(client.enqueue(text, args), EnqueueError);
      await assert.rejects(client.emit(text), EnqueueError);
      await assert.rejects(client.emit("a", {}, { dedupeKey: text }), EnqueueError);
      await assert.rejects(async () => await client.bulk(job, [args], { name: text }), EnqueueError);
      await assert.rejects(client.changeBulk(1, { state: "PAUSED", reason: text }), EnqueueError);
    }
    await assert.rejects(client.emit("long".repeat(200)), EnqueueError);
    for (const year of ["+010000", "0000", "-000001"]) {
      await assert.rejects(client.enqueue(job, args, { runAt: new Date(`${year}-06-01T00:00:00Z`) }), EnqueueError);
    }
    await assert.rejects(client.enqueue(job, args, { runAt: "2026-01-01" as never }), EnqueueError);
    await client.enqueue(job, args, { runAt: new Date("9999-12-31T23:59:59.999Z") });
    await client.enqueue(job, args, { runAt: new Date("0001-01-01T00:00:00Z") });
    assert.equal((await sql`select from job_run`).length, 2);
  });
});

Deno.test("a primary and its standbys are one address, and who is away is passed over", async () => {
  await withStores(async ({ sql, database_url }) => {
    await aDefinition(sql, { name: "export" });
    const { host } = new URL(database_url);
    const databaseUrl = `${database_url.replace(host, `127.0.0.1:1,${host}`)}?target_session_attrs=read-write`;
    const client = createClient({ databaseUrl });
    try {
      assert((await client.enqueue("export", {})).id > 0);
    } finally {
      await client.close();
    }
  });
});

Deno.test("a client that could never connect is refused", () => {
  for (const databaseUrl of ["", "127.0.0.1/x", "postgres://a:b@h:port/x", "postgres://h:1,h:port/x", "mysql://h/x"]) {
    assert.throws(() => createClient({ databaseUrl }), EnqueueError, databaseUrl);
  }
  for (const maxConnections of [0, -1, 1.5, NaN]) {
    assert.throws(() => createClient({ databaseUrl: "postgres://localhost/none", maxConnections }), EnqueueError);
  }
});

Deno.test("what cannot be enqueued is refused with the reason and the fix", async () => {
  await withClient(async ({ client }) => {
    const refused = (message: RegExp, act: Promise<unknown>) =>
      assert.rejects(act, (error) => {
        assert(error instanceof Error);
        assert.match(error.message, message);
        return true;
      });
    await refused(/"nobody": no such job, known are client_test; .*deno task sync/, client.enqueue("nobody", {}));
    await refused(
      /no such job, known are client_test; did you mean "client_test"\? a new one .*sync/,
      client.enqueue("clinet_test", {}),
    );
    for (const option of ["idempotencyKey", "serialKey", "node"]) {
      const empty = { [option]: null } as unknown as EnqueueOptions;
      const says = new RegExp(`"client_test": ${option} is a text, or left out: current value is null`);
      await refused(says, client.enqueue(job, { tenant: "a" }, empty));
    }
    const nobody = { ...job, name: "nobody" } as unknown as typeof job;
    await refused(
      /"nobody": no such job, known are client_test; .*deno task sync/,
      client.enqueue(nobody, { tenant: "a" }),
    );
    await refused(/whole number from 0 to 999/, client.enqueue(job, { tenant: "a" }, { priority: "admin" as never }));
    for (const runAt of [new Date("never"), new Date("0000-01-01"), new Date("+010000-01-01")]) {
      await refused(/runAt is an invalid date/, client.enqueue(job, { tenant: "a" }, { runAt }));
    }
    await refused(/idempotencyKey has 1 to 500/, client.enqueue(job, { tenant: "a" }, { idempotencyKey: "" }));
    for (const levels of [101, 6_000]) {
      const tenant = JSON.parse("[".repeat(levels) + "]".repeat(levels));
      await refused(/nested more than 100 levels deep/, client.emit("device.added", tenant));
      await refused(/nested more than 100 levels deep/, client.enqueue("client_test", { tenant: "a", more: tenant }));
    }
    const flat = { tenant: "[{".repeat(200) + '\\"[', more: Array.from({ length: 200 }, () => [{}]) };
    await client.emit("flat", { flat, deep: JSON.parse("[".repeat(99) + "]".repeat(99)) });
    await refused(/at most 262144; enqueue a reference/, client.enqueue(job, { tenant: "x".repeat(300_000) }));
    await refused(/which Postgres refuses/, client.enqueue(job, { tenant: "a\0" }));
    await refused(/event without a type/, client.emit(""));
    await client.emit("placed", {}, { dedupeKey: "k" });
    await assert.rejects(client.emit("shipped", {}, { dedupeKey: "k" }), EnqueueError);
  });
});

Deno.test("what JSON would lose without a word is refused, with its place", async () => {
  await withClient(async ({ client, sql }) => {
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    const lost: [unknown, RegExp][] = [
      [{ n: NaN }, /args\.n is NaN; give null/],
      [{ list: [1, -Infinity] }, /args\.list\[1\] is -Infinity/],
      [{ seen: new Map([["a", 1]]) }, /args\.seen is a Map; give Object\.fromEntries/],
      [{ list: [() => 1] }, /args\.list\[0\] is a function/],
      [{ act: () => 1 }, /args\.act is a function; give data/],
      [{ n: 1n }, /args\.n is a BigInt/],
      [{ at: new Date(NaN) }, /args\.at is an invalid date/],
      [cyclic, /args\.self holds itself/],
    ];
    for (const [args, says] of lost) {
      await assert.rejects(client.enqueue("client_test", args), says);
      const items = [{}, args as Record<string, unknown>];
      await assert.rejects(async () => await client.bulk("client_test", items), says);
      await assert.rejects(client.emit("seen", args), new RegExp(says.source.replace("args", "payload")));
    }
    assert.equal((await sql`select from job_run union all select from event union all select from bulk`).length, 0);
    class Itself {
      n = 1;
      toJSON() {
        return this;
      }
    }
    assert.doesNotThrow(() => storable("it", new Itself()));
    const kept = { none: null, empty: {}, text: "null {}", at: new Date(0) };
    const { id } = await client.enqueue("client_test", { tenant: "a", ...kept });
    const [stored] = await sql`select args_json from job_run where id = ${id}`;
    assert.deepEqual(stored?.args_json, { tenant: "a", ...kept, at: "1970-01-01T00:00:00.000Z" });
  });
});

Deno.test("args are checked as the run will get them, after JSON: a Date is a text there", async () => {
  await withClient(async ({ client, sql }) => {
    const at = new Date("2026-11-23T00:00:00Z");
    const asked = (args: z.ZodType<{ at: Date }>) => {
      const dated = defineJob({ args, run() {} });
      return [client.enqueue(dated, { at }), client.bulk(dated, [{ at }])];
    };
    for (const act of asked(z.object({ at: z.date() }))) {
      await assert.rejects(act, /its args do not fit: at: .*expected date, received string/);
    }
    await Promise.all(asked(z.object({ at: z.coerce.date() }) as unknown as z.ZodType<{ at: Date }>));
    const [run] = await sql`select args_json from job_run`;
    assert.deepEqual(run?.args_json, { at: at.toISOString() });
  });
});

Deno.test("by its name alone a job's args are held against the schema as it is synced now", async () => {
  await withClient(async ({ client, sql }) => {
    const say = (args_schema: unknown) =>
      sql`update job_definition set args_schema = ${json(sql, args_schema)} where name = 'client_test'`;
    await say(z.toJSONSchema(z.object({ tenant: z.string(), devices: z.array(z.object({ id: z.int() })).optional() })));
    const unfit = { tenant: "a", devices: [{ id: 1 }, { id: "x" }] };
    const error = await client.enqueue("client_test", unfit).catch((error) => error);
    assert(error instanceof EnqueueError);
    assert.match(error.message, /Cannot enqueue "client_test": its args do not fit: devices\.1\.id: .*number/);
    assert.deepEqual(error.issues.map((issue) => issue.path), ["devices.1.id"]);
    const items = [{ args: { tenant: "a" } }, { args: {} }];
    await assert.rejects(client.enqueueMany("client_test", items), /the args of item 2 do not fit: tenant: /);
    await sql.begin(async (tx) => {
      await assert.rejects(client.within(tx as never).enqueue("client_test", { tenant: 7 }), /tenant: /);
    });
    await say(z.toJSONSchema(z.object({ tenant: z.number() })));
    await assert.rejects(client.enqueue("client_test", { tenant: "a" }), /tenant: .*number/);
    await client.enqueue("client_test", { tenant: 7 });
    await say({ if: { required: ["x"] }, then: { required: ["y"] } }); // of another library, in words that are not read here
    await client.enqueue("client_test", { tenant: "a" });
    const [count] = await sql`select count(*)::int as n from job_run`;
    assert.equal(count?.n, 2);
  });
});

Deno.test("a node that nobody has, and labels that none carries, are refused with those that there are", async () => {
  await withClient(async ({ client, sql }) => {
    const to = (node: string) => client.enqueue(job, { tenant: "a" }, { node });
    await assert.rejects(to("gpu-1"), /no node has the name "gpu-1": none was ever here; start a worker on it/);
    await sql`insert into node (node_id, is_active, labels)
      values ('a', false, '{}'), ('b', true, '{"gpu": "a100", "zone": "tokyo"}')`;
    await to("a"); // in maintenance, and so it waits and says why
    await to("gpu=a100, zone=tokyo");
    await assert.rejects(to("c"), /Cannot enqueue "client_test": no node has the name "c"; there are a, b; name one/);
    const labels = /labels gpu=h100; there are a \(no labels\), b \(gpu=a100,zone=tokyo\); .* nodes set NODE --label/;
    await assert.rejects(to("gpu=h100"), labels);
    await assert.rejects(client.enqueue("client_test", { tenant: "a" }, { node: "gpu=h100" }), labels);

    await sql`update job_definition set node = '{host}' where name = 'client_test'`;
    const items = [{ args: { host: "a" } }, { args: { host: "b" } }, { args: {} }];
    await client.enqueueMany("client_test", items);
    await assert.rejects(
      client.enqueueMany("client_test", [...items, { args: { host: "nobody" } }]),
      /no node has the name "nobody"/,
    );
    const runs = await sql`select node, count(*)::int as n from job_run group by node order by node`;
    assert.deepEqual(runs.map(({ node, n }) => [node, n]), [["a", 2], ["b", 1], ["gpu=a100, zone=tokyo", 1], [
      null,
      1,
    ]]);
  });
});

Deno.test("delay without a client says what to do", async () => {
  await assert.rejects(job.delay({ tenant: "a" }), /no client yet, call createClient/);
});

Deno.test("priorities: the nine names, offsets, and numbers within their range", () => {
  for (const [name, number] of Object.entries(PRIORITIES)) {
    assert.equal(priorityNumber(name as keyof typeof PRIORITIES), number);
  }
  assert.equal(priorityNumber("user.low-2"), 338);
  assert.equal(priorityNumber(0), 0);
  for (const bad of [-1, 1000, 1.5, NaN, "user", "user.low+", "user.low+9999", ""]) {
    assert.throws(() => priorityNumber(bad as number), RangeError, String(bad));
  }
});
