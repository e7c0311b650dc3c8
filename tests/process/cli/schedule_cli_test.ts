/** `deno task schedule`, as people use it: looked at, stopped and let go, run now, filled in, and refused with the way to do it. */
import assert from "node:assert/strict";
import { cliWith, type Said } from "../../support/cli.ts";
import { type Cluster, withProcesses } from "../../support/cluster.ts";
import { aRun } from "../../support/factories.ts";
import { waitFor } from "../../support/waiting.ts";
import { stored } from "../../../src/locale/message.ts";

const JOBS = {
  "report.ts": `
    import { defineJob } from "dandori";
    export default defineJob<{ of?: string }>({
      schedule: [
        { id: "daily", dailyAt: "02:30", timezone: "Asia/Tokyo", exclude: ["2026-01-03", "12-29/01-01"], args: { of: "day" } },
        { id: "spread", cron: "0 * * * *", jitterSeconds: 1800, args: { of: "hour" } },
      ],
      isolation: { reuse: 1000 },
      run: ({ args, scheduledFor }) => args.of + " " + scheduledFor,
    });`,
  "beat.ts": `
    import { defineJob } from "dandori";
    export default defineJob({ schedule: { cron: "* * * * * *" }, isolation: { reuse: 1000 }, run: () => "beat" });`,
};

type Cli = (...args: string[]) => Promise<Said>;

async function preview(cli: Cli, ...args: string[]): Promise<string[]> {
  const { code, out, err } = await cli("schedule", "preview", ...args, "--json");
  assert.equal(code, 0, err);
  return JSON.parse(out);
}

function refuses(said: Said, code: number, message: RegExp): void {
  assert.equal(said.code, code, said.out + said.err);
  assert.match(said.err, message);
}

const DAYS = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-06T00:00:00Z"];

const STEPS: Record<string, (cluster: Cluster, cli: Cli) => Promise<void>> = {
  "preview: each kind, strictly after an instant that may have an offset": async (_, cli) => {
    const from = ["--from", "2027-03-14T00:00:00+02:00", "--count", "2"];
    const zone = ["--timezone", "America/New_York"];
    const asked: [string[], string[]][] = [
      [["--every-n-minutes", "30", ...from], ["2027-03-13T22:30:00Z", "2027-03-13T23:00:00Z"]],
      [["--hourly-at-minute", "0", ...from], ["2027-03-13T23:00:00Z", "2027-03-14T00:00:00Z"]],
      [["--daily-at", "02:30", ...zone, ...from], ["2027-03-14T07:30:00Z", "2027-03-15T06:30:00Z"]],
      [["--daily-at", "02:30", ...zone, ...from, "--gap", "skip"], ["2027-03-15T06:30:00Z", "2027-03-16T06:30:00Z"]],
      [["--monthly-on", "last 02:30", ...from], ["2027-03-31T02:30:00Z", "2027-04-30T02:30:00Z"]],
      [["--monthly-on", '{ "day": { "nth": 2, "weekday": "sun" }, "at": "02:30" }', ...zone, ...from], [
        "2027-03-14T07:30:00Z",
        "2027-04-11T06:30:00Z",
      ]],
      [["--cron", "30 2 * * 0", ...zone, ...from], ["2027-03-14T07:30:00Z", "2027-03-21T06:30:00Z"]],
      [["--daily-at", "02:30", ...zone, ...from, "--exclude", "2027-03-14"], [
        "2027-03-15T06:30:00Z",
        "2027-03-16T06:30:00Z",
      ]],
      [["report/daily", "--from", "2026-01-01T00:00:00Z", "--count", "2"], [
        "2026-01-01T17:30:00Z",
        "2026-01-03T17:30:00Z",
      ]],
    ];
    const found = await Promise.all(asked.map(([args]) => preview(cli, ...args)));
    assert.deepEqual(found, asked.map(([, slots]) => slots));
  },

  "preview in words: the change of a clock, seconds, jitter": async (_, cli) => {
    const night = await cli(
      "schedule",
      "preview",
      "--daily-at",
      "01:30",
      "--timezone",
      "America/New_York",
      "--from",
      "2026-11-01T00:00:00Z",
      "--count",
      "1",
    );
    assert.match(
      night.err,
      /^warning: 2026-11-01 01:30 exists twice .* it runs at the first \(2026-11-01T05:30:00Z\)$/m,
    );
    assert.match(night.out, /^2026-11-01T05:30:00Z {2}2026-11-01 01:30-04:00 America\/New_York$/m);
    const seconds = await cli(
      "schedule",
      "preview",
      "--cron",
      "*/30 * * * * *",
      "--from",
      "2026-11-01T00:00:00Z",
      "--count",
      "1",
    );
    assert.match(seconds.out, /2026-11-01 00:00:30\+00:00 UTC/);
    const spread = await cli("schedule", "preview", "report/spread", "--from", "2026-11-01T00:00:00Z", "--count", "1");
    assert.match(spread.out, /^report\/spread \(cron 0 \* \* \* \* UTC, misfire last, jitter 1800 s, args .*\)$/m);
    const [, start = ""] = /^2026-11-01T01:00:00Z .* starts (2026-11-01T01:\S+Z)$/m.exec(spread.out) ?? [];
    assert(start >= "2026-11-01T01:00:00" && start <= "2026-11-01T01:30:00", spread.out);
  },

  "schedules are listed, stopped one by one, and go on": async ({ sql }, cli) => {
    const list = async () => JSON.parse((await cli("schedule", "ls", "--json")).out) as Record<string, unknown>[];
    assert.deepEqual((await list()).map((one) => `${one.job_name}/${one.schedule_id}`), [
      "beat/cron",
      "report/daily",
      "report/spread",
    ]);
    assert.match(
      (await cli("schedule", "ls")).out,
      /^report\/daily +daily at 02:30 Asia\/Tokyo, misfire last, not on 2026-01-03 12-29\/01-01/m,
    );
    await waitFor("a beat", async () => (await list())[0]?.last_run ?? undefined);
    assert.match(
      (await cli("schedule", "pause", "beat/cron", "--reason", "too loud")).out,
      /^schedule beat\/cron is paused/,
    );
    assert.match((await cli("schedule", "pause", "beat")).out, /already paused/);
    assert.match((await cli("schedule", "ls", "--job", "beat")).out, /paused by cli:/);
    const [last] = await sql`select max(scheduled_for) as at from job_run where source = 'schedule'`;
    const { id } = JSON.parse((await cli("schedule", "run", "beat", "--json")).out);
    await waitFor(
      "a run by hand",
      async () => (await sql`select from job_run where id = ${id} and state = 'SUCCEEDED'`).length || undefined,
    );
    const [still] = await sql`select max(scheduled_for) as at from job_run where source = 'schedule'`;
    assert.deepEqual(still, last, "a paused schedule had a slot");
    assert.match((await cli("schedule", "resume", "beat/cron")).out, /^schedule beat\/cron is resumed/);
    await waitFor(
      "the next beat",
      async () =>
        (await sql`select from job_run where source = 'schedule' and scheduled_for > ${last?.at}`).length || undefined,
    );
    await cli("schedule", "pause", "beat");
    const acts =
      await sql`select action, target_id, reason from admin_action_log where target_type = 'schedule' order by id limit 1`;
    assert.deepEqual([...acts], [{ action: "schedule.pause", target_id: "beat/cron", reason: "too loud" }]);
  },

  "run now: with the args of the schedule": async (cluster, cli) => {
    refuses(await cli("schedule", "run", "report"), 2, /name one of report\/daily, report\/spread/);
    const { id } = JSON.parse((await cli("schedule", "run", "report/daily", "--json")).out);
    assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    assert.match(JSON.parse((await cli("runs", "show", String(id), "--json")).out).result, /^day /);
  },

  "a backfill says what it would do, does it in order, and again does nothing": async ({ sql }, cli) => {
    const asked = await cli("schedule", "backfill", "report/daily", ...DAYS, "--utc");
    refuses(asked, 2, /This would create 4 runs; add --yes/);
    assert.match(asked.out, /^report\/daily +4 +2026-01-01 17:30:00Z +2026-01-05 17:30:00Z +0 +0 +4$/m);
    const made = JSON.parse((await cli("schedule", "backfill", "report/daily", ...DAYS, "--yes", "--json")).out);
    assert.equal(made.runs, 4);
    await waitFor(
      "the bulk's end",
      async () => (await sql`select from bulk where id = ${made.bulk_id} and state = 'FINISHED'`).length || undefined,
    );
    const runs = await sql`select result, state from job_run where bulk_id = ${made.bulk_id} order by started_at`;
    assert.deepEqual(runs.map(({ result }) => result), [1, 3, 4, 5].map((day) => `day 2026-01-0${day}T17:30:00.000Z`));
    const shown = JSON.parse((await cli("bulk", "show", String(made.bulk_id), "--json")).out);
    assert.deepEqual([shown.items, shown.succeeded, shown.progress], [4, 4, 1]);
    assert.match(
      (await cli("schedule", "backfill", "report/daily", ...DAYS)).out,
      /4 +0 +0\nnothing to do: every slot has its run/,
    );
  },

  "a backfill of many runs as many at once as it is told": async ({ sql }, cli) => {
    const range = ["--from", "2026-02-01T00:00:00Z", "--to", "2026-02-09T08:00:00Z"];
    const made = JSON.parse(
      (await cli("schedule", "backfill", "report/spread", ...range, "--parallel", "3", "--yes", "--json")).out,
    );
    assert.equal(made.runs, 200);
    let most = 0;
    await waitFor("the bulk's end", async () => {
      const [now] =
        await sql`select count(*)::int as n from job_run where bulk_id = ${made.bulk_id} and state in ('ASSIGNED', 'RUNNING')`;
      most = Math.max(most, now?.n);
      return (await sql`select from bulk where id = ${made.bulk_id} and state = 'FINISHED' and succeeded = 200`)
        .length || undefined;
    }, 60_000);
    assert(most >= 1 && most <= 3, `${most} at once`);
  },

  "a late slot is found, explained and repeated for the same slot": async (cluster, cli) => {
    const [job] = await cluster.sql<{ id: number }[]>`select id from job_definition where name = 'report'`;
    const late = { job_definition_id: job?.id, source: "schedule", state: "SKIPPED", args_json: { of: "day" } };
    const why = { error_name: "Late", error_summary: stored("runs.end.late", { seconds: 3600 }) };
    const { id } = await aRun(cluster.sql, { ...late, ...why, scheduled_for: new Date("2026-03-01T17:30:00Z") });
    const found = JSON.parse((await cli("runs", "ls", "--where", "job=report", "state=SKIPPED", "--json")).out);
    assert.deepEqual(found.map((run: { id: number }) => run.id), [id]);
    assert.match(
      (await cli("explain", String(id))).out,
      new RegExp(`not started within 3600 s of its slot; to run it anyway: deno task runs retry ${id}$`, "m"),
    );
    const one = JSON.parse((await cli("runs", "retry", String(id), "--json")).out);
    const all = JSON.parse(
      (await cli("runs", "retry", "--where", "job=report", "state=SKIPPED", "--yes", "--json")).out,
    );
    for (const again of [one.id, ...all.ids]) {
      assert.equal((await cluster.ends(again)).state, "SUCCEEDED");
      const run = JSON.parse((await cli("runs", "show", String(again), "--json")).out);
      assert.deepEqual([run.result, run.rerun_of], ["day 2026-03-01T17:30:00.000Z", id]);
    }
  },

  "what cannot be is refused with the way to do it": async (_, cli) => {
    const backfill = (...args: string[]) => cli("schedule", "backfill", ...args);
    refuses(
      await backfill("nobody", ...DAYS),
      1,
      /no job "nobody" with a schedule is synced; `deno task schedule ls` shows/,
    );
    refuses(
      await backfill("report/nightly", ...DAYS),
      1,
      /has no schedule "nightly", but report\/daily, report\/spread/,
    );
    refuses(
      await backfill("report", "--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"),
      2,
      /is not before/,
    );
    refuses(
      await backfill("report", "--from", "2026-01-02T00:00:00Z", "--to", "2999-01-01T00:00:00Z"),
      2,
      /what is to come/,
    );
    refuses(
      await backfill("report", "--from", "yesterday", "--to", "2026-01-01T00:00:00Z"),
      2,
      /give an instant of the years 1 to 9999, such as/,
    );
    refuses(await backfill("beat", ...DAYS), 2, /holds more than 10000 slots; do it in shorter ranges/);
    refuses(await backfill("report", ...DAYS, "--parallel", "0"), 2, /at least 1/);
    refuses(await cli("schedule", "pause", "report/"), 2, /write JOB, or JOB\/ID/);
    refuses(await cli("schedule", "preview", "nobody"), 1, /no job "nobody" with a schedule/);
    refuses(await cli("schedule", "preview"), 2, /give either a job's name or one of/);
    refuses(
      await cli("schedule", "preview", "--daily-at", "02:30", "--timezone", "Tokyo"),
      2,
      /did you mean "Asia\/Tokyo"\?/,
    );
    refuses(
      await cli("schedule", "preview", "--daily-at", "02:30", "--exclude", "2026-02-30"),
      2,
      /names a day that does not exist/,
    );
  },
};

Deno.test("schedules from the command line", async (t) => {
  await withProcesses(1, async (cluster) => {
    const { stores, jobs_dir } = cluster;
    const cli = cliWith({
      DATABASE_URL: stores.database_url,
      REDIS_URL: stores.redis_url,
      SCHEDULER_JOBS_DIR: jobs_dir,
    });
    for (const [name, step] of Object.entries(STEPS)) await t.step(name, () => step(cluster, cli));
  }, { jobs: JOBS, env: { SCHEDULER_SLOTS: "10" } });
});
