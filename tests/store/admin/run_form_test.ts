/** The form from which a job is run: drawn from a schema, read back, checked, and nothing of what was typed lost. */
import assert from "node:assert/strict";
import { z } from "zod";
import { draftOf, freshDraft, withItem } from "../../../src/admin/args/draft.ts";
import { fieldOf } from "../../../src/admin/args/fields.ts";
import { valueOf } from "../../../src/admin/args/reading.ts";
import type { Json } from "../../../src/job.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { fieldsOf, withAdmin } from "../../support/admin.ts";
import { aDefinition } from "../../support/factories.ts";

const ALL_KINDS = z.object({
  name: z.string().min(1).max(20).default("world").describe("Who is greeted"),
  count: z.int().min(1).max(10),
  share: z.number().optional(),
  dry: z.boolean().default(true),
  loud: z.boolean().optional(),
  color: z.enum(["red", "green"]),
  mode: z.union([z.literal(1), z.literal("auto")]).optional(),
  day: z.iso.date().optional(),
  at: z.iso.datetime().optional(),
  note: z.string().nullable(),
  tags: z.array(z.string().min(2)).min(1),
  where: z.object({ node: z.string(), deep: z.object({ "a/b~c": z.int() }).optional() }).optional(),
  more: z.record(z.string(), z.number()).optional(),
});

function schemaOf(schema: z.ZodType): Json {
  return z.toJSONSchema(schema, { io: "input" }) as Json;
}

async function aJob(sql: Sql) {
  return await aDefinition(sql, { name: "greet", args_schema: schemaOf(ALL_KINDS) });
}

Deno.test("a form of every kind of field comes to args that the schema takes, once for each time it was opened", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aJob(sql);
    const browser = await login("operator");
    browser.cookies.set("dandori_zone", encodeURIComponent("Asia/Tokyo"));
    const opened = await browser.text("/jobs/greet/run");
    assert.match(opened, /Who is greeted/);
    const form = fieldsOf(opened);
    assert.equal(form["a/name"], "world");
    assert.equal(form["n/tags"], "1", "as many items as there must be");
    const filled = {
      ...form,
      "a/count": "3",
      "a/color": "1",
      "a/mode": "1",
      "a/day": "2026-12-24",
      "a/at": "2026-12-24T09:00",
      "a/tags/0": "ab",
      "a/where/node": "n1",
      "a/where/deep/a~1b~0c": "7",
      "a/more": '{"x": 1}',
      priority: "user.high",
      delay: "2",
      unit: "h",
      reason: "to see it",
    };
    const done = await browser.post("/jobs/greet/run", filled);
    const to = done.headers.get("location") ?? "";
    assert.equal(done.status, 303);
    assert.match(to, /^\/runs\/\d+$/);
    const [run] = await sql`
      select args_json, priority, held, due_at - created_at > interval '119 minutes' as late from job_run`;
    assert.deepEqual(run?.args_json, {
      name: "world",
      count: 3,
      dry: true,
      color: "green",
      mode: "auto",
      day: "2026-12-24",
      at: "2026-12-24T00:00:00Z",
      note: null,
      tags: ["ab"],
      where: { node: "n1", deep: { "a/b~c": 7 } },
      more: { x: 1 },
    });
    assert.deepEqual([run?.priority, run?.held, run?.late], [140, true, true]);
    const [act] = await sql`select actor, action, reason from admin_action_log where action = 'run.enqueue'`;
    assert.deepEqual({ ...act }, { actor: "user:operator", action: "run.enqueue", reason: "to see it" });
    const again = await browser.post("/jobs/greet/run", filled);
    assert.equal(again.headers.get("location"), to, "sent twice, it is the first one");
    assert.equal((await sql`select from job_run`).length, 1);
  });
});

Deno.test("a run can be given the node that must run it, and one that is nowhere is refused with nothing lost", async () => {
  await withAdmin(async ({ sql, login }) => {
    await sql`insert into node (node_id, labels) values ('gpu-1', '{"gpu": "a100"}'), ('gpu-2', '{}')`;
    await aDefinition(sql, { name: "plain", args_schema: null, node: "gpu-2" });
    const browser = await login("operator");
    const html = await browser.text("/jobs/plain/run");
    for (const name of ["gpu-1", "gpu-2", "gpu=a100"]) assert.match(html, new RegExp(`<option value="${name}"`));
    assert.match(html, /empty: as the job says, gpu-2/);
    const typed: Record<string, string> = { ...fieldsOf(html), json: "{}", node: "gpu-9" };
    const refused = await browser.post("/jobs/plain/run", typed);
    assert.equal(refused.status, 400);
    const again = await refused.text();
    assert.match(again, /gpu-9/);
    assert.deepEqual({ ...fieldsOf(again), csrf: typed.csrf }, typed); // each page masks its token anew
    assert.equal((await browser.post("/jobs/plain/run", { ...typed, node: " gpu=a100 " })).status, 303);
    const [run] = await sql`select node from job_run`;
    assert.equal(run?.node, "gpu=a100");
  });
});

Deno.test("what is wrong is said beside its box, nothing starts, and nothing typed is lost", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aJob(sql);
    const browser = await login("operator");
    const form = fieldsOf(await browser.text("/jobs/greet/run"));
    const typed: Record<string, string> = {
      ...form,
      "a/name": "a name that is far too long for it",
      "a/count": "eleven",
      "a/tags/0": "x",
      "a/more": "{",
      priority: "urgent",
      delay: "-1",
    };
    const first = await browser.post("/jobs/greet/run", typed);
    assert.equal(first.status, 400);
    const html = await first.text();
    assert.match(html, /id="arg-%2Fcount-said"[^>]*><span>Give a number/);
    assert.match(html, /id="arg-%2Fcolor-said"[^>]*><span>Choose one/);
    assert.match(html, /id="arg-%2Fmore-said"[^>]*><span>This is no JSON/);
    assert.match(html, /Give a delay from 0 to one year/);
    assert.deepEqual({ ...fieldsOf(html), csrf: typed.csrf }, typed); // each page masks its token anew
    const second = await browser.post("/jobs/greet/run", {
      ...typed,
      "a/count": "11",
      "a/color": "0",
      "a/more": '{"x": "y"}',
      priority: "",
      delay: "",
    });
    assert.equal(second.status, 400);
    const judged = await second.text();
    for (const path of ["name", "count", "tags%2F0", "more"]) {
      assert.match(judged, new RegExp(`id="arg-%2F${path}-said"[^>]*><span>[^<]`), path);
    }
    assert.match(judged, /\/x: Invalid input/, "inside of a box of JSON with the place in it");
    assert.equal((await sql`select from job_run`).length, 0);
    const japanese = await browser.post("/jobs/greet/run", { ...typed, "a/count": "11" }, { "accept-language": "ja" });
    assert.match(await japanese.text(), /選択してください/);
  });
});

Deno.test("items are added and removed, and fields become JSON and fields again, with what was typed", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aJob(sql);
    const browser = await login("operator");
    let form: Record<string, string> = {
      ...fieldsOf(await browser.text("/jobs/greet/run")),
      "a/tags/0": "one",
      "a/count": "2",
    };
    const press = async (button: Record<string, string>) => {
      const answer = await browser.post("/jobs/greet/run", { ...form, ...button });
      assert.equal(answer.status, 200);
      form = fieldsOf(await answer.text());
    };
    await press({ add: "/tags" });
    form["a/tags/1"] = "two";
    await press({ add: "/tags" });
    form["a/tags/2"] = "three";
    await press({ remove: "/tags/1" });
    assert.deepEqual([form["n/tags"], form["a/tags/0"], form["a/tags/1"], form["a/tags/2"]], [
      "2",
      "one",
      "three",
      undefined,
    ]);
    form["a/color"] = "0";
    await press({ switch: "json" });
    assert.deepEqual(JSON.parse(form.json ?? ""), {
      name: "world",
      count: 2,
      dry: true,
      color: "red",
      note: null,
      tags: ["one", "three"],
    });
    await press({ switch: "fields" });
    assert.deepEqual([form["a/tags/1"], form["a/count"], form["a/color"]], ["three", "2", "0"]);
    await press({ switch: "json" });
    form.json = JSON.stringify({ ...JSON.parse(form.json ?? ""), unknown: 1 });
    await press({ switch: "fields" });
    assert.match(form.json ?? "", /unknown/, "what the fields cannot show stays JSON");
    const done = await browser.post("/jobs/greet/run", {
      ...form,
      json: '{"count": 1, "color": "red", "note": "n", "tags": ["ab"]}',
    });
    assert.equal(done.status, 303);
    const [run] = await sql`select args_json from job_run`;
    assert.deepEqual(run?.args_json, { count: 1, color: "red", note: "n", tags: ["ab"] });
    await browser.post("/jobs/greet/run", { ...form, add: "/tags/0/__proto__", mode: "fields", "n/tags": "1e9" });
  });
});

Deno.test("a value goes into the boxes and comes out the same, whatever the schema", () => {
  const values: [z.ZodType, Json][] = [
    [ALL_KINDS, { count: 1, color: "red", note: "x", tags: ["ab", "cd"], dry: false, loud: false, share: 0.5 }],
    [ALL_KINDS, { count: 1, color: "red", note: null, tags: ["ab"], at: "2026-10-25T00:30:00Z", where: { node: "n" } }],
    [z.object({ list: z.array(z.object({ id: z.int(), sub: z.array(z.string()) })) }), {
      list: [{ id: 1, sub: [] }, { id: 2, sub: ["a"] }],
    }],
    [
      z.object({
        tree: z.lazy(() =>
          z.object({
            get self() {
              return z.unknown();
            },
          })
        ),
      }),
      { tree: { self: [1] } },
    ],
    [z.object({ any: z.unknown(), pair: z.tuple([z.string(), z.int()]), many: z.union([z.string(), z.int()]) }), {
      any: null,
      pair: ["a", 1],
      many: 4,
    }],
  ];
  for (const [schema, value] of values) {
    const field = fieldOf(schemaOf(schema));
    const draft = draftOf(field, value, { zone: "Europe/London" });
    assert(draft, JSON.stringify(value));
    const problems = new Map();
    assert.deepEqual(valueOf(field, draft, { lang: "en", zone: "Europe/London", problems }), value);
    assert.deepEqual([...problems], []);
  }
  const self = {
    $ref: "#/$defs/node",
    $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } } } },
  };
  assert.equal(fieldOf(self).kind, "object", "a schema that names itself ends");
  for (
    const odd of [null, true, 7, [], {}, { type: "object", properties: null }, { $ref: "#" }, { enum: [] }] as Json[]
  ) {
    freshDraft(fieldOf(odd), { zone: "UTC" });
  }
});

Deno.test("a time that is a default is the same instant in the form of whoever looks, wherever they are", () => {
  const at = z.iso.datetime().default("2026-01-01T00:00:00Z");
  const field = fieldOf(schemaOf(z.object({ at, many: z.array(z.object({ at })).default([]) })));
  for (const zone of ["UTC", "Asia/Tokyo", "America/New_York"]) {
    const problems = new Map();
    const draft = withItem(field, freshDraft(field, { zone }), { path: "/many", zone });
    const value = valueOf(field, draft, { lang: "en", zone, problems }) as { at: string; many: { at: string }[] };
    assert.deepEqual([...problems], []);
    for (const said of [value.at, value.many[0]?.at ?? ""]) {
      assert.equal(Temporal.Instant.from(said).epochMilliseconds, Date.UTC(2026, 0, 1), `${zone}: ${said}`);
    }
  }
});
