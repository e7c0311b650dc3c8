/** Schedules and options of jobs over HTTP. */
import assert from "node:assert/strict";
import { type ApiScene, withApi } from "../../support/api_scene.ts";
import { aDefinition } from "../../support/factories.ts";

/** A job `report` with two schedules, and one without any. */
async function aReport({ sql }: ApiScene): Promise<void> {
  const { id } = await aDefinition(sql, { name: "report" });
  await aDefinition(sql, { name: "plain" });
  for (const [schedule_id, value] of [["daily", "02:30"], ["spread", "03:00"]] as const) {
    await sql`insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, timezone, args_json)
              values (${id}, ${schedule_id}, 'daily_at', ${value}, 'Asia/Tokyo', ${sql.json({ of: schedule_id })})`;
  }
}

Deno.test("schedules are listed, stopped one by one or all, and go on", async () => {
  await withApi(async (scene) => {
    const { call } = scene;
    await aReport(scene);
    const stopped = async () => {
      const { body } = await call("GET", "/schedules?job_name=report", { as: "read" });
      return body.items?.map((one) => [one.schedule_id, one.paused_by]);
    };
    const [daily, spread] = ["daily", "spread"];
    const steps: [string, Record<string, unknown>, unknown[], unknown[]][] = [
      ["pause", { schedule_id: daily }, [[daily, true]], [[daily, "token:operate"], [spread, null]]],
      ["pause", { schedule_id: daily }, [[daily, false]], [[daily, "token:operate"], [spread, null]]],
      ["pause", {}, [[daily, false], [spread, true]], [[daily, "token:operate"], [spread, "token:operate"]]],
      ["resume", {}, [[daily, true], [spread, true]], [[daily, null], [spread, null]]],
    ];
    for (const [verb, which, moved, after] of steps) {
      const body = { job_name: "report", ...which, reason: "a test" };
      const said = await call("POST", `/schedules/${verb}`, { as: "operate", body });
      assert.deepEqual([said.status, said.body.items?.map((one) => [one.schedule_id, one.changed])], [200, moved]);
      assert.deepEqual(await stopped(), after);
    }
    assert.equal((await call("GET", "/schedules")).body.items?.length, 2);
  });
});

Deno.test("a run now has the args of its schedule", async () => {
  await withApi(async (scene) => {
    const { call } = scene;
    await aReport(scene);
    const body = { job_name: "report", schedule_id: "spread" };
    const { status, body: made } = await call("POST", "/schedules/run", { as: "operate", body });
    assert.equal(status, 201);
    assert.deepEqual((await call("GET", `/runs/${made.id}`)).body.args, { of: "spread" });
  });
});

Deno.test("a backfill says what it would make, makes it, and again makes nothing", async () => {
  await withApi(async (scene) => {
    const { sql, call } = scene;
    await aReport(scene);
    const range = { from: "2026-01-01T00:00:00Z", to: "2026-01-05T00:00:00Z" };
    const body = { job_name: "report", schedule_id: "daily", ...range, parallel: 2, reason: "lost disk" };
    const share = { schedule: "report/daily", slots: 4, first: "2026-01-01T17:30:00Z", last: "2026-01-04T17:30:00Z" };
    const open = { ...share, exist: 0, skipped: 0, forgotten: 0, to_make: 4 };
    const backfill = (more: Record<string, unknown> = {}) =>
      call("POST", "/schedules/backfill", { as: "operate", body: { ...body, ...more } });
    const dry = await backfill({ dry_run: true });
    assert.deepEqual([dry.status, dry.body], [200, { dry_run: true, plan: [open], bulk_id: null, runs: 4 }]);
    assert.equal((await sql`select from bulk`).length, 0);
    const made = await backfill();
    const { bulk_id } = made.body;
    assert.deepEqual([made.status, made.body], [201, { dry_run: false, plan: [open], bulk_id, runs: 4 }]);
    const { body: bulk } = await call("GET", `/bulks/${bulk_id}`);
    assert.deepEqual([bulk.items, bulk.parallel, bulk.priority, bulk.created_by], [4, 2, 360, "token:operate"]);
    const done = { ...share, exist: 4, skipped: 0, forgotten: 0, to_make: 0 };
    const again = await backfill();
    assert.deepEqual([again.status, again.body], [200, { dry_run: false, plan: [done], bulk_id: null, runs: 0 }]);
    const acts = await sql`select action, actor, reason from admin_action_log order by id`;
    assert.deepEqual(acts.map(({ action, actor }) => [action, actor]), [
      ["bulk.start", "token:operate"],
      ["schedule.backfill", "token:operate"],
    ]);
    assert.equal(acts[1]?.reason, "lost disk");
  });
});

Deno.test("schedules that are not there, and ranges that cannot be, are refused", async () => {
  await withApi(async (scene) => {
    const { sql, call } = scene;
    await aReport(scene);
    const range = { from: "2026-01-01T00:00:00Z", to: "2026-01-05T00:00:00Z" };
    const refusals: [string, Record<string, unknown>, number, RegExp][] = [
      ...["pause", "resume", "run", "backfill"].flatMap((
        verb,
      ): [string, Record<string, unknown>, number, RegExp][] => {
        const more = verb === "backfill" ? range : {};
        return [
          [verb, { job_name: "nobody", ...more }, 404, /no job "nobody" with a schedule/],
          [verb, { job_name: "plain", ...more }, 404, /no job "plain" with a schedule/],
          [
            verb,
            { job_name: "report", schedule_id: "x", ...more },
            404,
            /no schedule "x", but report\/daily, report\/spr/,
          ],
          [verb, { ...more }, 422, /job_name/],
          [verb, { job_name: "report", schedule: "daily", ...more }, 422, /schedule: there is no such field/],
        ];
      }),
      ["run", { job_name: "report" }, 422, /name one of report\/daily, report\/spread/],
      ["backfill", { job_name: "report", from: range.to, to: range.from }, 422, /is not before its end/],
      ["backfill", { job_name: "report", ...range, to: "2999-01-01T00:00:00Z" }, 422, /what is to come/],
      ["backfill", { job_name: "report", ...range, from: "1970-01-01T00:00:00Z" }, 422, /more than 10000 slots/],
      ["backfill", { job_name: "report", ...range, parallel: 0 }, 422, /parallel/],
      ["backfill", { job_name: "report", ...range, priority: "boss" }, 422, /priority/],
      ["backfill", { job_name: "report", from: "yesterday", to: range.to }, 422, /from/],
    ];
    for (const [verb, body, status, text] of refusals) {
      const said = await call("POST", `/schedules/${verb}`, { as: "operate", body });
      assert.equal(said.status, status, `${verb} ${JSON.stringify(body)}: ${JSON.stringify(said.body)}`);
      assert.match(String(said.body.detail), text);
    }
    assert.equal((await sql`select from job_run`).length + (await sql`select from admin_action_log`).length, 0);
  });
});

Deno.test("options of a job are set beside its file, all or none, and reset", async () => {
  await withApi(async (scene) => {
    const { call } = scene;
    await aReport(scene);
    const path = "/jobs/report/options";
    const named = async (name: string) =>
      (await call("GET", path, { as: "read" })).body.items?.find((one) => one.name === name);
    const set = (values: unknown) => call("PATCH", path, { as: "operate", body: { values, reason: "month end" } });
    const before = await named("priority");
    assert.deepEqual([before?.value, before?.file_value, before?.override], [240, null, null]);
    const said = await set({ priority: "admin.high", "schedule.daily.dailyAt": "04:00" });
    assert.equal(said.status, 200);
    assert.deepEqual(said.body.items?.find((one) => one.name === "priority"), {
      name: "priority",
      before: 240,
      value: 120,
      file_value: 240,
    });
    const after = await named("priority");
    const { set_by, reason } = after?.override as { set_by: string; reason: string };
    assert.deepEqual([after?.value, after?.file_value, set_by, reason], [120, 240, "token:operate", "month end"]);
    assert.equal((await call("GET", "/jobs/report")).body.priority, 120);
    const wrong: [unknown, RegExp][] = [
      [{ priority: 9999, nope: 1 }, /9999 is no priority.*\n.*nope is nothing that can be set/],
      [{ priority: 5, "schedule.daily.dailyAt": "25:00" }, /25:00/],
      [{ "schedule.x.dailyAt": "03:00" }, /no schedule "x"; it has "daily", "spread"/],
      [{}, /at least one option/],
      [[], /values/],
    ];
    for (const [values, text] of wrong) {
      const refused = await set(values);
      assert.equal(refused.status, 422, JSON.stringify(values));
      assert.match(String(refused.body.detail), text);
    }
    assert.equal((await named("priority"))?.value, 120);
    const reset = (body?: unknown) => call("POST", `${path}/reset`, { as: "operate", body });
    assert.equal((await reset({ names: ["rate"] })).status, 422);
    assert.deepEqual((await reset({ names: ["priority"] })).body.items?.map(({ name, value }) => [name, value]), [
      ["priority", null],
    ]);
    assert.equal((await named("priority"))?.value, 240);
    assert.equal((await reset()).body.items?.length, 1);
    assert.deepEqual((await reset()).body.items, []);
    const nowhere = [["GET", ""], ["PATCH", ""], ["POST", "/reset"]] as const;
    for (const [method, end] of nowhere) {
      const body = method === "PATCH" ? { values: { priority: 1 } } : undefined;
      assert.equal((await call(method, `/jobs/reprot/options${end}`, { body })).status, 404, method);
    }
    assert.equal((await call("PATCH", path, { as: "read", body: { values: { priority: 1 } } })).status, 403);
  });
});
