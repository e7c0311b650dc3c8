/** Args and payloads that are taken and will fail, or are not what was meant: said, and not refused. */
import assert from "node:assert/strict";
import { z } from "zod";
import { reportText } from "../../../src/sync/plan_text.ts";
import { unknownKeys, unknownKeyText } from "../../../src/sync/unknown_keys.ts";
import type { Json } from "../../../src/job.ts";
import { startBulk } from "../../../src/actions/bulk.ts";
import { readDefinition } from "../../../src/definitions/definition_rows.ts";
import { withApi } from "../../support/api_scene.ts";
import { cliWith } from "../../support/cli.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { assertApplied, job, withSync } from "../../support/job_files/bench.ts";
import { createClient } from "../../../src/client.ts";

const schemaOf = (schema: z.ZodType) => z.toJSONSchema(schema, { io: "input" }) as Json;
const unknownIn = (schema: z.ZodType, args: unknown) => unknownKeys(schemaOf(schema), args).map(({ path }) => path);

Deno.test("a key that no part of the schema knows is unknown, at any depth; what a schema lets through is not", () => {
  const device = z.object({ id: z.number(), name: z.string().optional() });
  const args = z.object({ name: z.string(), devices: z.array(device).optional() });
  assert.deepEqual(unknownIn(args, { name: "x", devices: [{ id: 1 }, { id: 2, nmae: "y" }], zone: 1 }), [
    "devices.1.nmae",
    "zone",
  ]);
  assert.deepEqual(unknownIn(args, { name: "x" }), []);
  assert.deepEqual(unknownIn(z.looseObject({ a: z.string() }), { a: "", b: 1 }), []);
  assert.deepEqual(unknownIn(z.record(z.string(), device), { any: { id: 1, x: 2 } }), ["any.x"]);
  assert.deepEqual(unknownIn(z.any(), { a: 1 }), []);
  const either = z.union([z.object({ a: z.string() }), z.object({ b: z.string() }), z.string()]);
  assert.deepEqual(unknownIn(either, { b: "", c: 1 }), ["c"]);
  assert.deepEqual(unknownIn(z.object({ a: z.string() }).and(z.object({ b: z.string() })), { a: "", b: "", c: 1 }), [
    "c",
  ]);
  assert.deepEqual(unknownIn(z.tuple([device]), [{ id: 1, x: 2 }]), ["0.x"]);
  assert.deepEqual(unknownIn(device.nullable(), { id: 1, x: 2 }), ["x"]);
  const [like, other] = unknownKeys(schemaOf(args), { nmae: "x", "\u001b[31m": 1 });
  assert.equal(unknownKeyText(like!), 'unknown key "nmae": did you mean "name"?');
  assert.equal(unknownKeyText(other!), 'unknown key "\u001b[31m": the schema of args does not have it');
});

Deno.test("a schema that refers to itself in many ways takes no longer than another", () => {
  interface Tree {
    next?: Tree;
  }
  const Tree: z.ZodType<Tree> = z.lazy(() => z.object({ next: z.union([Tree, Tree, Tree, Tree]).optional() }));
  let args: Tree & { extra?: number } = { extra: 1 };
  for (let level = 0; level < 90; level++) args = { next: args };
  assert.deepEqual(unknownIn(Tree, args), [], "it gives up");
  assert.deepEqual(unknownIn(Tree, { next: { extra: 1 } as Tree }), ["next.extra"]);
  assert.deepEqual(unknownKeys({ $ref: "#" }, { a: 1 }), []);
});

Deno.test("waiting runs that a changed schema refuses are named in the plan: how many, which, and why", async () => {
  await withSync({ "a.ts": job("args: z.object({ n: z.number() }),"), "b.ts": job() }, async (bench) => {
    const { sql, jobs, sync } = bench;
    assertApplied(await sync());
    const { id } = await readDefinition(sql, "a") as { id: number };
    const waits = async (args: Json, state: "PENDING" | "RETRYING" | "SUCCEEDED" = "PENDING") =>
      (await aRun(sql, { job_definition_id: id, args_json: args, state })).id;
    const bad: number[] = [];
    for (let n = 0; n < 7; n++) bad.push(await waits({ n }, n === 3 ? "RETRYING" : "PENDING"));
    await waits({ n: 1, tenant: "acme" });
    await waits({ n: 1 }, "SUCCEEDED");
    jobs.write("a.ts", job("priority: 1, args: z.object({ n: z.number() }),"));
    assert.equal((await sync("plan")).plan?.changed[0]?.misfits, undefined, "the schema is the same");
    jobs.write("a.ts", job("args: z.object({ n: z.number(), tenant: z.string() }),"));
    const report = await sync("plan");
    const { why, ...found } = report.plan?.changed[0]?.misfits ?? {};
    assert.deepEqual(found, { runs: 7, of: 8, more: false, first: bad.slice(0, 5) });
    assert.match(why ?? "", /^tenant: .*expected string/);
    assert.match(
      reportText(report, { color: false }),
      new RegExp(
        `7 of 8 waiting runs do not fit the new args and will fail: ${
          bad.slice(0, 5).join(", ")
        }, ... \\(2 more\\); the first: tenant`,
      ),
    );
  });
});

Deno.test("items of bulks that are no runs yet are named as well where a changed schema refuses them, and what that costs has bounds", async () => {
  await withSync({ "a.ts": job("args: z.object({ n: z.number() }),") }, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    const bulkOf = async (items: Json[], next_seq = 1) => {
      const { id } = await startBulk(sql, { job: "a", items, options: {}, actor: "test" });
      await sql`update bulk set next_seq = ${next_seq} where id = ${id}`;
      return id;
    };
    const items = (count: number, fits: (n: number) => boolean) =>
      Array.from({ length: count }, (_, n) => ({ n, ...fits(n + 1) && { tenant: "acme" } }));
    const id = await bulkOf(items(40, (n) => n < 31 || n % 2 === 0), 21);
    await bulkOf(items(3, () => true));
    const over = await bulkOf(items(3, () => false));
    await sql`update bulk set state = 'CANCELED' where id = ${over}`;
    await bulkOf(items(3, () => false), 4); // all of it is runs
    const large = await bulkOf(items(6_000, () => false));
    jobs.write("a.ts", job("args: z.object({ n: z.number(), tenant: z.string() }),"));
    const report = await sync("plan");
    const found = report.plan?.changed[0]?.bulk_misfits ?? [];
    assert.deepEqual(found.map(({ why: _, ...one }) => one), [
      { bulk_id: id, items: 5, of: 20, left: 20, first: 31 },
      { bulk_id: large, items: 4_977, of: 4_977, left: 6_000, first: 1 },
    ]);
    const text = reportText(report, { color: false });
    assert(text.includes(`bulk ${id}: 5 of 20 items not yet made do not fit, first at item 31: tenant: `));
    assert(
      text.includes(`bulk ${large}: 4,977 of the first 4,977 of 6,000 items not yet made do not fit, first at item 1`),
    );
  });
});

Deno.test("args with an unknown key are taken with a warning: run, retry, bulk, and what a schedule gives", async () => {
  const options =
    'args: z.object({ name: z.string().optional() }), schedule: { id: "s", dailyAt: "02:00", args: { nam: "x" } },';
  await withSync({ "greet.ts": job(options) }, async ({ database_url, jobs, sync }) => {
    const report = await sync();
    assertApplied(report);
    assert.deepEqual(report.plan?.warnings, [
      { job: "greet", warning: 'schedule "s" gives args with an unknown key "nam": did you mean "name"?' },
    ]);
    const cli = cliWith({ DATABASE_URL: database_url });
    const told = 'warning: unknown key "nmae": did you mean "name"?\n';
    const run = await cli("run", "greet", "--args", '{"nmae":"x"}', "--json");
    assert.deepEqual([run.code, run.err], [0, told]);
    const { id } = JSON.parse(run.out);
    assert.equal((await cli("run", "greet", "--args", '{"name":"x"}')).err, "");
    await cli("runs", "close", `${id}`, "--reason", "a test", "--yes");
    const retry = await cli("runs", "retry", `${id}`, "--args", '{"nmae":"x"}');
    assert.deepEqual([retry.code, retry.err], [0, told]);
    jobs.write("../items", '{"nmae":1}\n{"nmae":2,"zone":1}\n{"name":"x"}\n');
    const bulk = await cli("bulk", "start", "greet", "--items", `${jobs.dir}/../items`);
    const in_two = 'warning: unknown key "nmae" in 2 items: did you mean "name"?\n';
    assert.deepEqual([bulk.code, bulk.err], [
      0,
      `${in_two}warning: unknown key "zone": the schema of args does not have it\n`,
    ]);
    const query = `select '{"nmae": 1}'::jsonb as args from generate_series(1, 2)`;
    assert.equal((await cli("bulk", "start", "greet", "--sql", query)).err, in_two);
  });
});

Deno.test("emit says when a payload fits none of the jobs that listen, and why; one that fits is enough", async () => {
  await withSync({
    "schema.ts": job('on: "a.b", args: z.object({ n: z.number() }),'),
    "where.ts": job('on: { type: "a.b", where: { zone: "tokyo" } },'),
  }, async ({ sql, database_url, sync }) => {
    assertApplied(await sync());
    const cli = cliWith({ DATABASE_URL: database_url });
    const emitted = async (payload: string) => (await cli("emit", "a.b", "--payload", payload)).err;
    assert.match(
      await emitted('{"n":"x"}'),
      /^warning: the payload fits none of the 2 jobs for this type: schema: n: .*expected number.*; where: its condition \(where\) does not match\n$/,
    );
    assert.equal(await emitted('{"n":1}'), "");
    assert.equal(await emitted('{"zone":"tokyo"}'), "");
    assert.match(await emitted("7"), /fits none/);
    await sql`update job_definition set enabled = false where name = 'where'`;
    assert.match(await emitted('{"zone":"tokyo"}'), /fits none of the 1 job for this type: schema: n: /);
    const keyed = ["emit", "a.b", "--dedupe-key", "k", "--payload", '{"n":"x"}'];
    assert.match((await cli(...keyed)).err, /fits none/);
    assert.equal((await cli(...keyed)).err, "", "it was emitted before");
    await using client = {
      ...createClient({ databaseUrl: database_url }),
      [Symbol.asyncDispose]: () => client.close(),
    };
    for (const calls of [client, sql.begin.bind(sql)]) {
      const emit = async (payload: unknown, checkPayload?: boolean) =>
        typeof calls === "function"
          ? await calls((tx) => client.within(tx).emit("a.b", payload, { checkPayload }))
          : await calls.emit("a.b", payload, { checkPayload });
      const said = await emit({ n: "x" }, true);
      assert.match(said.unfit ?? "", /^the payload fits none of the 1 job for this type: schema: n: /);
      assert.equal((await sql`select from event where id = ${said.id}`).length, 1, "emitted all the same");
      assert.deepEqual(Object.keys(await emit({ n: 1 }, true)), ["id"]);
      assert.deepEqual(Object.keys(await emit({ n: "x" })), ["id"], "not asked for, it costs nothing");
    }
  });
});

Deno.test("the API tells the same as warnings, which are left out when there are none", async () => {
  await withApi(async ({ sql, call }) => {
    const args_schema = schemaOf(z.object({ name: z.string().optional(), n: z.number().optional() }));
    await aDefinition(sql, { name: "greet", event_types: ["a.b"], args_schema });
    const like = ['unknown key "nmae": did you mean "name"?'];
    const warned = async (path: string, body: Record<string, unknown>) => {
      const said = await call("POST", path, { body });
      assert.equal(said.status, 201, JSON.stringify(said.body));
      return said.body.warnings;
    };
    assert.deepEqual(await warned("/runs", { job_name: "greet", args: { nmae: 1 } }), like);
    assert.equal(await warned("/runs", { job_name: "greet", args: { name: "x" } }), undefined);
    assert.deepEqual(await warned("/bulks", { job_name: "greet", items: [{ nmae: 1 }] }), like);
    assert.equal(await warned("/bulks", { job_name: "greet", items: [{ name: "x" }] }), undefined);
    const [unfit] = await warned("/events", { event_type: "a.b", payload: { n: "x" } }) as string[];
    assert.match(unfit ?? "", /fits none of the 1 job for this type: greet: n: /);
    assert.equal(await warned("/events", { event_type: "a.b", payload: { n: 1 } }), undefined);
  });
});
