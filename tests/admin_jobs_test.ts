/** Jobs on the admin page: what is shown, a run from its form, options and schedules beside the file, and hostile texts everywhere. */
import assert from "node:assert/strict";
import { z } from "zod";
import { draftOf, freshDraft } from "../src/admin/args/draft.ts";
import { fieldOf } from "../src/admin/args/fields.ts";
import { valueOf } from "../src/admin/args/reading.ts";
import type { Json } from "../src/job.ts";
import type { Sql } from "../src/store/db.ts";
import { readDefinition } from "../src/store/definitions.ts";
import { withAdmin } from "./support/admin.ts";
import { aDefinition, aRun } from "./support/factories.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)> ' & {{7*7}}`;

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

async function aJob(sql: Sql, columns: Record<string, unknown> = {}) {
  return await aDefinition(sql, { name: "greet", args_schema: schemaOf(ALL_KINDS), ...columns });
}

async function aSchedule(sql: Sql, job_definition_id: number, columns: Record<string, unknown> = {}): Promise<void> {
  const row = { schedule_id: "nightly", schedule_type: "daily_at", schedule_value: "02:30", timezone: "Europe/Berlin" };
  await sql`insert into job_schedule ${sql({ job_definition_id, ...row, ...columns })}`;
}

/** The fields of a form as a browser would send them back, untouched. */
function fieldsOf(html: string): Record<string, string> {
  const form = /<form class="form".*?<\/form>/s.exec(html)?.[0] ?? "";
  const text = (coded: string) =>
    coded.replaceAll("&quot;", '"').replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&#39;", "'").replaceAll(
      "&amp;",
      "&",
    );
  const fields: Record<string, string> = {};
  for (const [tag] of form.matchAll(/<(input|select)[^>]*>/g)) {
    const attribute = (name: string) => new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1];
    const name = attribute("name");
    if (name === undefined || (attribute("type") === "checkbox" && !/ checked/.test(tag))) continue;
    const rest = form.slice(form.indexOf(tag) + tag.length);
    const chosen = tag.startsWith("<select")
      ? /<option value="([^"]*)" selected/.exec(rest.slice(0, rest.indexOf("</select>")))?.[1]
      : attribute("value");
    fields[text(name)] = text(chosen ?? "");
  }
  for (const [, name = "", value = ""] of form.matchAll(/<textarea[^>]* name="([^"]*)"[^>]*>\n?(.*?)<\/textarea>/gs)) {
    fields[text(name)] = text(value);
  }
  return fields;
}

Deno.test("jobs are listed with what waits, runs, comes next and is out of the ordinary, and found by a filter", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("viewer");
    assert.match(await browser.text("/jobs"), /deno task new my_job/);
    const daily = await aDefinition(sql, { name: "daily", type: "time", description: "Every night" });
    await aSchedule(sql, daily.id, { next_slot: new Date(Date.UTC(2031, 0, 2, 3)) });
    const risky = await aDefinition(sql, {
      name: "risky",
      permissions: { unsafe: { run: true } },
      paused_at: new Date(0),
    });
    await aDefinition(sql, { name: "gone", enabled: false, removed_at: new Date(0) });
    await aRun(sql, { job_definition_id: risky.id, held: true });
    await aRun(sql, { job_definition_id: risky.id });
    await aRun(sql, { job_definition_id: risky.id, state: "RUNNING", scheduled_for: new Date(0) });
    const failed = await aRun(sql, { job_definition_id: daily.id, state: "FAILED" });
    const list = await browser.text("/jobs");
    assert.match(list, /href="\/jobs\/daily".*Every night.*2031-01-02/s);
    assert.match(list, new RegExp(`href="/runs/${failed.id}".*FAILED`, "s"));
    assert.match(list, /risky.*paused.*unsafe/s);
    assert.match(list, /state=PENDING&amp;state=RETRYING&amp;state=ORPHANED">2</);
    assert.match(list, /state=ASSIGNED&amp;state=RUNNING">1</);
    assert.doesNotMatch(list, /jobs\/gone|Run now/, "removed ones are left out, and a viewer has nothing to press");
    const names = async (query: string) =>
      [...(await browser.text(`/jobs?${query}`)).matchAll(/href="\/jobs\/(\w+)"/g)].map(([, name]) => name);
    assert.deepEqual(await names("state=unsafe"), ["risky"]);
    assert.deepEqual(await names("q=NIGHT"), ["daily"]);
    assert.deepEqual(await names("type=time&state=failed_last"), ["daily"]);
    assert.deepEqual(await names("state=removed"), ["gone"]);
    assert.match(await browser.text("/jobs?q=nothing"), /No job fits/);
  });
});

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

Deno.test("what is wrong is said beside its box, nothing starts, and nothing typed is lost", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aJob(sql);
    const browser = await login("operator");
    const form = fieldsOf(await browser.text("/jobs/greet/run"));
    const typed = {
      ...form,
      "a/name": "a name that is far too long for it",
      "a/count": "eleven",
      "a/tags/0": EVIL.slice(0, 1),
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
    assert.match(html, /Give a number from 0, up to a year/);
    assert.deepEqual(fieldsOf(html), typed);
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
    freshDraft(fieldOf(odd));
  }
});

Deno.test("options are set beside the file with what it says shown, refused with every reason, and reset", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aJob(sql, { priority: 240, timeout_seconds: 600 });
    const browser = await login("operator");
    const form = fieldsOf(await browser.text("/jobs/greet/options"));
    assert.deepEqual([form.priority, form.timeoutSeconds, form.rate, form.enabled], ["240", "600", "", "true"]);
    const wrong = { ...form, priority: "urgent", timeoutSeconds: "0", reason: "kept" };
    const refused = await browser.post("/jobs/greet/options", wrong);
    assert.equal(refused.status, 400);
    const html = await refused.text();
    assert.match(html, /priority.*timeoutSeconds/s);
    assert.deepEqual(fieldsOf(html), wrong);
    const done = await browser.post("/jobs/greet/options", {
      ...form,
      priority: "admin.high",
      rate: "60/1",
      reason: "busy",
    });
    assert.equal(done.headers.get("location"), "/jobs/greet");
    const [row] = await sql`select priority, timeout_seconds, rate_count from job_definition`;
    assert.deepEqual({ ...row }, { priority: 120, timeout_seconds: 600, rate_count: 60 });
    const page = await browser.text("/jobs/greet");
    assert.match(page, /<strong>120<\/strong>.*?240.*?user:operator.*?busy/s);
    assert.equal((await sql`select from job_override`).length, 2, "only what was changed");
    await browser.post("/jobs/greet/reset", { option: "priority", reason: "calm" });
    const [now] = await sql`select priority from job_definition`;
    assert.equal(now?.priority, 240);
    const again = await browser.post("/jobs/greet/reset", { option: "priority" });
    assert.equal(again.status, 303);
    assert.match(await browser.text("/jobs/greet"), /priority is not set beside the file/);
    assert.equal((await sql`select from admin_action_log where action in ('job.set', 'job.reset')`).length, 3);
  });
});

Deno.test("a schedule is previewed as it is typed, saved beside the file, refused when it is none, and paused", async () => {
  await withAdmin(async ({ sql, login }) => {
    const job = await aJob(sql, { type: "time" });
    await aSchedule(sql, job.id, { exclude: ["12-24"] });
    const browser = await login("operator");
    const path = "/jobs/greet/schedules/nightly";
    const opened = await browser.text(path);
    assert.match(opened, /02:30\+0[12]:00 Europe\/Berlin/);
    assert.match(
      opened,
      /does not exist in Europe\/Berlin.*exists twice in Europe\/Berlin|exists twice.*does not exist/s,
    );
    const preview = (query: Record<string, string>) =>
      browser.text(`${path}?${new URLSearchParams(query)}`, { "hx-request": "true" });
    const tokyo = await preview({ kind: "cron", value: "0 9 * * 1-5", timezone: "Asia/Tokyo" });
    assert.match(tokyo, /09:00\+09:00 Asia\/Tokyo/);
    assert.doesNotMatch(tokyo, /exists twice/);
    assert.match(await preview({ kind: "dailyAt", value: "9:00", timezone: "Asia/Tokyo" }), /write &quot;09:00&quot;/);
    assert.match(await preview({ kind: "cron", value: "0 0 24 12 *", timezone: "UTC" }), /every day .* is excluded/);
    const wrong = await browser.post(path, { kind: "dailyAt", value: "25:00", timezone: "Asia/Tokio", reason: EVIL });
    assert.equal(wrong.status, 400);
    assert.deepEqual(
      (({ kind, value, timezone, reason }) => [kind, value, timezone, reason])(fieldsOf(await wrong.text())),
      ["dailyAt", "25:00", "Asia/Tokio", EVIL],
    );
    const never = await browser.post(path, { kind: "cron", value: "0 0 24 12 *", timezone: "Europe/Berlin" });
    assert.equal(never.status, 400, "saving knows of the excluded days as well");
    assert.equal((await sql`select from job_override`).length, 0);
    await browser.post(path, { kind: "everyNMinutes", value: "15", timezone: "Europe/Berlin", reason: "more often" });
    const [row] = await sql`select schedule_type, schedule_value, next_slot from job_schedule`;
    assert.deepEqual([row?.schedule_type, row?.schedule_value], ["every_n_minutes", "15"]);
    assert.equal(row?.next_slot.getUTCMinutes() % 15, 0);
    assert.match(await browser.text("/jobs/greet"), /everyNMinutes 15.*dailyAt 02:30.*more often/s);
    await browser.post(`${path}/pause`, { reason: "a minute" });
    assert.match(await browser.text("/jobs/greet"), /Paused by user:operator/);
    await browser.post(`${path}/resume`, {});
    await browser.post("/jobs/greet/pause", {});
    assert.match(await browser.text("/jobs/greet/run"), /the run waits until it is resumed/);
    await browser.post("/jobs/greet/resume", {});
    const acts = await sql`select action from admin_action_log where target_type in ('job', 'schedule') order by id`;
    assert.deepEqual(acts.map(({ action }) => action), [
      "job.set",
      "schedule.pause",
      "schedule.resume",
      "job.pause",
      "job.resume",
    ]);
    for (const missing of ["/jobs/none", "/jobs/none/run", "/jobs/none/options", "/jobs/greet/schedules/none"]) {
      assert.equal((await browser.get(missing)).status, 404, missing);
    }
    assert.equal((await browser.post("/jobs/none/pause", {})).status, 404);
  });
});

Deno.test("what a job file or an operator wrote is text wherever it is shown", async () => {
  await withAdmin(async ({ sql, login }) => {
    const schema = {
      type: "object",
      description: EVIL,
      properties: {
        [EVIL]: { type: "string", title: EVIL, description: EVIL, default: EVIL },
        choice: { enum: [EVIL, { [EVIL]: EVIL }], title: EVIL, default: EVIL },
        list: { type: "array", items: { type: "string", title: EVIL }, default: [EVIL], minItems: 1 },
        raw: { default: { [EVIL]: EVIL } },
      },
      required: ["choice"],
    };
    const job = await aDefinition(sql, {
      name: "evil",
      description: EVIL,
      command_name: EVIL,
      event_types: [EVIL],
      serial_key: EVIL,
      node: EVIL,
      digest: EVIL,
      paused_by: EVIL,
      paused_at: new Date(0),
      permissions: { net: [EVIL], unsafe: { run: [EVIL] } },
      args_schema: schema,
    });
    await aSchedule(sql, job.id, {
      schedule_value: EVIL,
      args_json: sql.json({ [EVIL]: EVIL }),
      paused_at: new Date(0),
      paused_by: EVIL,
    });
    await sql`insert into job_override ${
      sql({
        job_definition_id: job.id,
        name: "node",
        value: sql.json({ node: EVIL }),
        file_value: sql.json({ node: EVIL }),
        set_by: EVIL,
        reason: EVIL,
      })
    }`;
    await aRun(sql, { job_definition_id: job.id, state: "FAILED", error_summary: EVIL, scheduled_for: new Date(0) });
    assert(await readDefinition(sql, "evil"));
    const browser = await login("admin");
    const query = new URLSearchParams({ q: EVIL, type: EVIL, state: EVIL, kind: EVIL, value: EVIL, timezone: EVIL });
    const paths = [
      "/jobs",
      `/jobs?${query}`,
      "/jobs/evil",
      "/jobs/evil/run",
      "/jobs/evil/options",
      `/jobs/evil/schedules/nightly?${query}`,
    ];
    const posted = {
      [`a/${EVIL}`]: EVIL,
      "a/choice": EVIL,
      "a/raw": EVIL,
      "n/list": "1",
      "a/list/0": EVIL,
      mode: "fields",
    };
    const more = {
      priority: EVIL,
      delay: EVIL,
      unit: EVIL,
      reason: EVIL,
      wish: crypto.randomUUID(),
      node: EVIL,
      rate: EVIL,
    };
    const texts = [
      ...await Promise.all(paths.map((path) => browser.text(path))),
      ...await Promise.all(
        ["/jobs/evil/run", "/jobs/evil/options", "/jobs/evil/schedules/nightly"].map(async (path) =>
          await (await browser.post(path, { ...posted, ...more, kind: EVIL, value: EVIL, timezone: EVIL })).text()
        ),
      ),
    ];
    for (const [place, text] of texts.entries()) {
      assert.doesNotMatch(text, /<script>|<img/, `${place}`);
      if (place !== 1) assert.match(text, /&lt;script&gt;alert\(1\)/, `${place}`);
    }
  });
});
