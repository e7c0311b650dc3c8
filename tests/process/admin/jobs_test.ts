/** Jobs on the admin page: what is shown, a run from its form, options and schedules beside the file, and hostile texts everywhere. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { readDefinition } from "../../../src/definitions/definition_rows.ts";
import { z } from "zod";
import { fieldsOf, withAdmin } from "../../support/admin.ts";
import { cliWith } from "../../support/cli.ts";
import { aDefinition, aRun } from "../../support/factories.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)> ' & {{7*7}}`;

const SCHEMA = { type: "object", properties: { name: { type: "string" } } };

async function aJob(sql: Sql, columns: Record<string, unknown> = {}) {
  return await aDefinition(sql, { name: "greet", args_schema: SCHEMA, ...columns });
}

async function aSchedule(sql: Sql, job_definition_id: number, columns: Record<string, unknown> = {}): Promise<void> {
  const row = { schedule_id: "nightly", schedule_type: "daily_at", schedule_value: "02:30", timezone: "Europe/Berlin" };
  await sql`insert into job_schedule ${sql({ job_definition_id, ...row, ...columns })}`;
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
    assert.match(await browser.text("/jobs?q=nothing"), /No job matches/);
  });
});

Deno.test("of many jobs a page shows two hundred, with the way to the others, under the same filter", async () => {
  await withAdmin(async ({ sql, login }) => {
    await sql`insert into job_definition (name, command_name, type, digest)
              select 'job_' || lpad(n::text, 3, '0'), n || '.ts', 'demand', 'd' from generate_series(1, 401) n`;
    const browser = await login("viewer");
    const seen = async (query: string) => {
      const text = await browser.text(`/jobs${query}`);
      const names = [...text.matchAll(/href="\/jobs\/(\w+)"/g)].map(([, name]) => name);
      const steps = [...text.matchAll(/href="\/jobs\?([^"]*page=\d+)"/g)].map(([, step]) => step);
      return [names.length, names[0], text.match(/\d+ to \d+ of [\d,]+/)?.[0], ...steps];
    };
    assert.deepEqual(await seen(""), [200, "job_001", "1 to 200 of 401", "page=2"]);
    assert.deepEqual(await seen("?page=2"), [200, "job_201", "201 to 400 of 401", "page=1", "page=3"]);
    assert.deepEqual(await seen("?page=3"), [1, "job_401", "401 to 401 of 401", "page=2"]);
    assert.deepEqual(await seen("?page=77"), await seen("?page=3"), "the last where that one is gone");
    assert.deepEqual(await seen("?page=x"), await seen(""));
    assert.deepEqual(await seen("?q=job_&page=2"), [
      200,
      "job_201",
      "201 to 400 of 401",
      "q=job_&amp;page=1",
      "q=job_&amp;page=3",
    ]);
    assert.deepEqual(await seen("?q=job_4"), [2, "job_400", undefined]);
  });
});

Deno.test("what only its file can say of a job is shown, on the page and by the command line, by the names of the file", async () => {
  await withAdmin(async ({ sql, login, database_url }) => {
    await aJob(sql, {
      serial_key: "tenant:{tenant}",
      on_failure: "block",
      resources: { license: 2 },
      retry_on: { ConnectError: { max: 3, backoffSeconds: 30, otherNode: true } },
      event_types: ["device.changed"],
      event_rules: { "device.changed": { debounce_seconds: 30, key: "{device}" } },
      permissions: { net: ["db.internal:5432"], unsafe: { run: true } },
    });
    const page = await (await login("viewer")).text("/jobs/greet");
    const { out } = await cliWith({ DATABASE_URL: database_url })("jobs", "show", "greet");
    for (
      const [name, text] of [
        ["serialKey", "tenant:{tenant}"],
        ["onFailure", "block"],
        ["resources", "license 2"],
        ["retry.on", "ConnectError: max 3, otherNode true, backoffSeconds 30"],
        ["on", "device.changed: key {device}, debounce_seconds 30"],
        ["memoryMb", "512"],
      ] as const
    ) {
      const [inPage, inText] = [text.replaceAll('"', "&quot;"), `  ${name}: ${text}\n`];
      assert(page.includes(`<dt>${name}</dt><dd>${inPage}</dd>`), name);
      assert(out.includes(inText), name);
    }
    assert.doesNotMatch(page, /<dt>(retry.factor|isolation.reuse)</, "what nobody asked for is left out");
    assert.match(out, /permissions: net db\.internal:5432; unsafe\.run anything/);
  });
});

Deno.test("messages, deadline, calls and the jobs before and after it are shown, on the page and by the command line", async () => {
  await withAdmin(async ({ sql, login, database_url }) => {
    const schema = z.toJSONSchema(z.object({ approved: z.boolean(), comment: z.string().optional() }));
    await aJob(sql, {
      messages: { approval: { schema }, ping: { schema: null, from: "emit" } },
      after_jobs: ["load_orders", "load_users"],
      after_when: "end",
      deadline_seconds: 86_400,
      on_change: "fail",
      permissions: { call: ["resize", "mail_*"] },
    });
    await aDefinition(sql, { name: "report", after_jobs: ["greet"] });
    await aDefinition(sql, { name: "gone", after_jobs: ["greet"], enabled: false, removed_at: new Date() });
    const page = await (await login("viewer")).text("/jobs/greet");
    const cli = cliWith({ DATABASE_URL: database_url });
    const { out } = await cli("jobs", "show", "greet");
    for (
      const [name, text] of [
        ["messages", "ping (emit), approval"],
        ["after", "load_orders, load_users"],
        ["after.when", "end"],
        ["deadlineSeconds", "86400"],
        ["onChange", "fail"],
      ] as const
    ) {
      assert(page.includes(`<dt>${name}</dt><dd>${text}</dd>`), name);
      assert(out.includes(`  ${name}: ${text}\n`), name);
    }
    assert.match(page, /<dt>Followed by<\/dt><dd><a href="[^"]*\/jobs\/report">report<\/a><\/dd>/);
    assert.match(
      page,
      /Schema of message ping<\/summary><p>any JSON<\/p>.*Schema of message approval<\/summary>.*approved/s,
    );
    assert.match(page, /resize, mail_\*/);
    assert.match(out, /permissions: call resize,mail_\*/);
    assert.match(out, / starts after load_orders, load_users \(end\)\n/);
    assert.match(out, / followed by: report\n/);
    assert.match(
      out,
      /message approval: an object\nfield +type .*\napproved +true or false +refused/,
    );
    assert.match(out, /message ping \(tokens of scope emit may send it\): any JSON/);
    const shown = JSON.parse((await cli("jobs", "show", "greet", "--json")).out);
    assert.deepEqual([shown.followers, shown.after_jobs, Object.keys(shown.messages)], [
      ["report"],
      ["load_orders", "load_users"],
      ["ping", "approval"],
    ]);
  });
});

Deno.test("options are set beside the file with what it says shown, refused with every reason, and reset", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aJob(sql, { priority: 240, timeout_seconds: 600 });
    const browser = await login("operator");
    const form = fieldsOf(await browser.text("/jobs/greet/options"));
    assert.deepEqual([form.priority, form.timeoutSeconds, form.rate, form.enabled], ["240", "600", "", "true"]);
    const wrong: Record<string, string> = { ...form, priority: "urgent", timeoutSeconds: "0", reason: "kept" };
    const refused = await browser.post("/jobs/greet/options", wrong);
    assert.equal(refused.status, 400);
    const html = await refused.text();
    assert.match(html, /priority.*timeoutSeconds/s);
    assert.deepEqual({ ...fieldsOf(html), csrf: wrong.csrf }, wrong); // each page masks its token anew
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

Deno.test("a form sets what was changed in it and nothing else: what somebody else set meanwhile stays, or is told", async () => {
  await withAdmin(async ({ sql, login }) => {
    const job = await aJob(sql, { type: "time", priority: 240, timeout_seconds: 600 });
    await aSchedule(sql, job.id);
    const [browser, other] = [await login("operator"), await login("operator", "hanako")];
    const holds = async () => ({ ...(await sql`select enabled, priority, timeout_seconds from job_definition`)[0] });

    const path = "/jobs/greet/options";
    const { csrf: _, ...opened } = fieldsOf(await browser.text(path));
    await other.post(path, { ...opened, enabled: "false", timeoutSeconds: "60", reason: "it hurts" });
    assert.equal((await browser.post(path, { ...opened, priority: "120" })).status, 303);
    assert.deepEqual(await holds(), { enabled: false, priority: 120, timeout_seconds: 60 });

    const told = await browser.post(path, { ...opened, timeoutSeconds: "300", reason: "kept" });
    assert.equal(told.status, 400);
    const html = await told.text();
    assert.match(html, /timeoutSeconds is now 60 \(user:hanako\)\. Nothing was saved/);
    assert.deepEqual(await holds(), { enabled: false, priority: 120, timeout_seconds: 60 });
    const again = fieldsOf(html);
    assert.deepEqual([again.timeoutSeconds, again.enabled, again.priority, again.reason], [
      "300",
      "false",
      "120",
      "kept",
    ]);
    assert.equal((await browser.post(path, again)).status, 303);
    assert.deepEqual(await holds(), { enabled: false, priority: 120, timeout_seconds: 300 });

    const editor = "/jobs/greet/schedules/nightly";
    const { csrf: __, ...time } = fieldsOf(await browser.text(editor));
    const stored = async () => {
      const [row] = await sql`select schedule_type, schedule_value, timezone from job_schedule`;
      return [row?.schedule_type, row?.schedule_value, row?.timezone];
    };
    await other.post(editor, { ...time, value: "04:00" });
    assert.equal((await browser.post(editor, { ...time, timezone: "Asia/Tokyo" })).status, 303);
    assert.deepEqual(await stored(), ["daily_at", "04:00", "Asia/Tokyo"]);
    const late = await browser.post(editor, { ...time, value: "05:00" });
    assert.equal(late.status, 400);
    const form = await late.text();
    assert.match(form, /nightly is now dailyAt 04:00 Asia\/Tokyo\. Nothing was saved/);
    assert.equal((await browser.post(editor, fieldsOf(form))).status, 303);
    assert.deepEqual(await stored(), ["daily_at", "05:00", "Asia/Tokyo"]);
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
    const monthly = { kind: "monthlyOn", timezone: "Asia/Tokyo" };
    assert.match(await preview({ ...monthly, value: "last 09:00" }), /-(28|29|30|31) 09:00\+09:00 Asia\/Tokyo/);
    assert.match(await preview({ ...monthly, value: "32 09:00" }), /must be 1 to 31/);
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

async function anEvilJob(sql: Sql): Promise<void> {
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
    paused_reason: EVIL,
    paused_at: new Date(0),
    permissions: { net: [EVIL], unsafe: { run: [EVIL] } },
    args_schema: schema,
  });
  await aSchedule(sql, job.id, {
    schedule_value: EVIL,
    args_json: sql.json({ [EVIL]: EVIL }),
    paused_at: new Date(0),
    paused_by: EVIL,
    paused_reason: EVIL,
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
}

Deno.test("what a job file or an operator wrote is text wherever it is shown", async () => {
  await withAdmin(async ({ sql, login }) => {
    await anEvilJob(sql);
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
