/** The calendar: what was expected against what came, in somebody's zone, and runs for slots that have none. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { withAdmin } from "../../support/admin.ts";
import { aDefinition, aRun } from "../../support/factories.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)> ' & {{7*7}}`;

async function aSchedule(sql: Sql, columns: Record<string, unknown>): Promise<number> {
  const [row] = await sql<{ id: number }[]>`insert into job_schedule ${
    sql({ schedule_id: "s", ...columns })
  } returning id`;
  return (row as { id: number }).id;
}

/** A run of a slot, with the key that the leader gives it. */
function aSlotRun(sql: Sql, of: { job_definition_id: number; job_schedule_id: number }, slot: string, columns: object) {
  const scheduled_for = new Date(slot);
  const idempotency_key = `time:${of.job_schedule_id}:${slot}`;
  return aRun(sql, { ...of, source: "schedule", scheduled_for, due_at: scheduled_for, idempotency_key, ...columns });
}

/** The marks of a schedule's row: what their titles say. */
function marks(page: string): string[] {
  return [...page.matchAll(/class="slot [a-z]+"(?: href="[^"]*")? title="([^"]+)"/g)].map(([, title]) =>
    title as string
  );
}

Deno.test("a day says of each slot which run came, which were late, skipped, repeated or missed, and which are to come", async () => {
  await withAdmin(async ({ sql, login }) => {
    const of = await aDefinition(sql, { name: "nightly", type: "time", created_at: new Date("2026-01-01T04:30:00Z") });
    const schedule_value = "0 0-11 * * *";
    const id = await aSchedule(sql, {
      job_definition_id: of.id,
      schedule_type: "cron",
      schedule_value,
      schedule_id: EVIL,
    });
    await sql`update job_schedule set last_slot = '2026-01-05T00:00:00Z'`;
    const slot = { job_definition_id: of.id, job_schedule_id: id };
    const ran = (started: string, state = "SUCCEEDED") => ({
      state,
      started_at: new Date(started),
      finished_at: new Date("2026-01-01T12:00:00Z"),
    });
    const good = await aSlotRun(sql, slot, "2026-01-01T05:00:00Z", ran("2026-01-01T05:00:02Z"));
    await aSlotRun(sql, slot, "2026-01-01T06:00:00Z", ran("2026-01-01T06:10:00Z"));
    await aSlotRun(sql, slot, "2026-01-01T07:00:00Z", ran("2026-01-01T07:00:01Z", "FAILED"));
    const skipped = await aSlotRun(sql, slot, "2026-01-01T08:00:00Z", { state: "SKIPPED" });
    await aSlotRun(sql, slot, "2026-01-01T09:00:00Z", { state: "SKIPPED" });
    const again = await aRun(sql, {
      job_definition_id: of.id,
      rerun_of: skipped.id,
      scheduled_for: new Date("2026-01-01T08:00:00Z"),
      state: "SUCCEEDED",
    });
    const browser = await login("viewer");
    const page = await browser.text("/calendar?from=2026-01-01");
    assert.deepEqual(marks(page), [
      ...["00:00", "01:00", "02:00", "03:00", "04:00"].map((time) => `${time} · before the job was synced`),
      "05:00 · SUCCEEDED",
      "06:00 · SUCCEEDED, late by 10m 00s",
      "07:00 · FAILED",
      `08:00 · SUCCEEDED, retried as run ${again.id}`,
      "09:00 · SKIPPED",
      "10:00 · no run: missed or skipped",
      "11:00 · no run: missed or skipped",
    ]);
    assert(page.includes(`href="/runs/${good.id}"`));
    assert.doesNotMatch(page, /<script>|<img/);
    const tomorrow = new Date(Date.UTC(2190, 0, 1)).toISOString().slice(0, 10);
    assert(marks(await browser.text(`/calendar?from=${tomorrow}`)).every((title) => / · expected$/.test(title)));
    const tokyo = await browser.text("/calendar?from=2026-01-01&zone=Asia/Tokyo");
    assert.match(marks(tokyo)[0] ?? "", /^09:00 · /, "00:00 UTC");
    const slots = await browser.text(`/calendar/${id}?from=2026-01-01T05:00:00Z&until=2026-01-01T12:00:00Z`);
    assert.match(slots, /late by 10m 00s/);
    assert.doesNotMatch(slots, /<script>|<img/);
    assert.doesNotMatch(slots, /data-opens/, "a viewer makes no runs");
    for (const bad of ["", "?from=x&until=y", "?from=2026-01-01T00:00:00Z&until=2036-01-01T00:00:00Z"]) {
      assert.equal((await browser.get(`/calendar/${id}${bad}`)).status, 400);
    }
    assert.equal((await browser.get("/calendar/999?from=2026-01-01T05:00:00Z&until=2026-01-01T12:00:00Z")).status, 404);
    assert.match(await browser.text("/calendar?from=nonsense&zone=Moon/Base&span=age"), /nightly/, "as if not said");
  });
});

Deno.test("a week leaves out the days that are excluded; many slots are counted by their state; a day may have 23 hours", async () => {
  await withAdmin(async ({ sql, login }) => {
    const daily = await aDefinition(sql, { name: "daily", type: "time", created_at: new Date("2025-01-01") });
    await aSchedule(sql, {
      job_definition_id: daily.id,
      schedule_type: "daily_at",
      schedule_value: "12:00",
      exclude: ["2026-03-29"],
      last_slot: new Date("2026-06-01"),
    });
    const often = await aDefinition(sql, { name: "often", type: "time", created_at: new Date("2025-01-01") });
    const id = await aSchedule(sql, {
      job_definition_id: often.id,
      schedule_type: "every_n_minutes",
      schedule_value: "1",
      last_slot: new Date("2026-06-01"),
    });
    await sql`insert into job_run (job_definition_id, job_schedule_id, source, idempotency_key, scheduled_for, due_at, state, started_at, finished_at)
      select ${often.id}, ${id}, 'schedule', 'time:' || ${id}::text || ':' || n, at, at, case when n < 7 then 'FAILED' else 'SUCCEEDED' end, at, at
        from (select n, timestamptz '2026-03-29T10:00:00Z' + n * interval '1 minute' as at from generate_series(0, 49) n) s`;
    const browser = await login("viewer");
    const week = await browser.text("/calendar?span=week&from=2026-03-27");
    assert.equal([...week.matchAll(/<th scope="col"[^>]*>\d\d-\d\d</g)].length, 7);
    assert.equal([...week.matchAll(/class="off" title="No slots on this day"/g)].length, 1);
    const day = await browser.text("/calendar?from=2026-03-29&job=often");
    for (const title of ["43 SUCCEEDED", "7 FAILED", "10 no run: missed or skipped"]) {
      assert(marks(day).includes(title));
    }
    assert.doesNotMatch(day, />daily</);
    const berlin = await browser.text("/calendar?from=2026-03-29&zone=Europe/Berlin");
    assert.equal([...berlin.matchAll(/<th scope="col"[^>]*>\d\d</g)].length, 23);
  });
});

Deno.test("slots without a run get one from the calendar, once, as a bulk", async () => {
  await withAdmin(async ({ sql, login }) => {
    const of = await aDefinition(sql, { name: "daily", type: "time", created_at: new Date("2025-01-01") });
    const id = await aSchedule(sql, {
      job_definition_id: of.id,
      schedule_type: "daily_at",
      schedule_value: "12:00",
      last_slot: new Date("2026-06-01"),
    });
    await aSlotRun(sql, { job_definition_id: of.id, job_schedule_id: id }, "2026-01-03T12:00:00Z", {
      state: "SUCCEEDED",
    });
    await aSlotRun(sql, { job_definition_id: of.id, job_schedule_id: id }, "2026-01-04T12:00:00Z", {
      state: "SKIPPED",
    });
    const browser = await login("operator");
    const path = `/calendar/${id}?from=2026-01-01T00:00:00Z&until=2026-01-06T00:00:00Z`;
    const page = await browser.text(path);
    assert.match(page, /Create 3 runs for daily\/s\?/);
    const value = (name: string) => new RegExp(`name="${name}" value="([^"]+)"`).exec(page)?.[1] ?? "";
    const form = { from: value("from"), until: value("until"), parallel: "2", reason: "it was down" };
    const made = await browser.post(`/calendar/${id}/backfill`, form);
    assert.match(made.headers.get("location") ?? "", /^\/bulks\/\d+$/);
    const twice = await browser.post(`/calendar/${id}/backfill`, form);
    assert.match(twice.headers.get("location") ?? "", /^\/calendar\//);
    assert.match(await browser.text(path), /every slot now has its run/);
    const slots = await sql<
      { slot: string }[]
    >`select left(scheduled_for::text, 10) as slot from job_run where bulk_id is not null order by 1`;
    assert.deepEqual(slots.map(({ slot }) => slot), ["2026-01-01", "2026-01-02", "2026-01-05"]);
    const again = await browser.post(`/calendar/${id}/backfill`, { ...form, skipped: "yes" });
    assert.match(again.headers.get("location") ?? "", /^\/bulks\/\d+$/, "the one that was skipped");
    assert.equal((await sql`select from job_run where bulk_id is not null`).length, 4);
    const acts = await sql<
      { actor: string; reason: string }[]
    >`select actor, reason from admin_action_log where action = 'schedule.backfill'`;
    assert.deepEqual(
      acts.map(({ actor, reason }) => [actor, reason]),
      [1, 2].map(() => ["user:operator", "it was down"]),
    );
    await browser.post(`/calendar/${id}/backfill`, { ...form, parallel: "0" });
    assert.match(await browser.text(path), /number from 1 to 10000/);
    assert.equal(
      (await browser.post(`/calendar/${id}/backfill`, { ...form, until: "2190-01-01T00:00:00Z" })).status,
      400,
    );
  });
});
