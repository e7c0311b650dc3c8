/** What an operator sets beside a job's file: checked like the file, kept by every sync, shown, audited, and taken back. */
import assert from "node:assert/strict";
import { optionsOf } from "../../../src/job_options/overridable.ts";
import { type OverrideAnswer, resetOverrides, setOverrides } from "../../../src/sync/overrides.ts";
import { complaintLine } from "../../../src/job_options/complaint.ts";
import { reportText } from "../../../src/sync/plan_text.ts";
import type { Json } from "../../../src/job.ts";
import { readDefinition, type StoredDefinition } from "../../../src/definitions/definition_rows.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { checkLines } from "../../../src/runs/key_queues.ts";
import { assignRuns } from "../../../src/runs/states.ts";
import { readDispatchSnapshot } from "../../../src/dispatch/dispatch_queues.ts";
import { readOverrides } from "../../../src/definitions/override_rows.ts";
import { renewAndReadWork } from "../../../src/dispatch/pending_work.ts";
import { followPriority } from "../../../src/runs/requests.ts";
import { cliWith } from "../../support/cli.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { job, withSync } from "../../support/job_files/bench.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const BY = { actor: "ann", reason: "month end" };
const NIGHTLY = `schedule: { id: "nightly", dailyAt: "02:30", timezone: "Asia/Tokyo" },`;

async function stored(sql: Sql): Promise<StoredDefinition> {
  const definition = await readDefinition(sql, "a");
  assert(definition);
  return definition;
}

async function set(sql: Sql, wishes: Record<string, Json>): Promise<OverrideAnswer> {
  return await setOverrides(sql, "a", wishes, BY) as OverrideAnswer;
}

/** The option as it holds, what the file says if that is something else, and who said so. */
async function option(sql: Sql, name: string): Promise<[Json, Json | undefined, string | undefined] | undefined> {
  const found = optionsOf(await stored(sql), await readOverrides(sql)).find((one) => one.name === name);
  return found && [found.value, found.file_value, found.override?.set_by];
}

Deno.test("an operator's value holds through every sync, which says so, until it is reset to what the file says by then", async () => {
  await withSync({ "a.ts": job(`priority: 200, ${NIGHTLY}`) }, async ({ sql, jobs, sync }) => {
    await sync();
    const set_at_once = await set(sql, { priority: "admin.high", "schedule.nightly.dailyAt": "04:00", enabled: false });
    assert.deepEqual(set_at_once.ok && set_at_once.changed.map(({ name }) => name), [
      "priority",
      "enabled",
      "schedule.nightly.time",
    ]);
    const next = (await stored(sql)).schedules[0]?.next_slot;
    assert.equal(next?.toZonedDateTimeISO("Asia/Tokyo").hour, 4);

    const same = await sync();
    assert.equal(same.drift, false);
    assert.match(reportText(same, { color: false }), /= a: the file says priority 200; 120 by ann stays/);

    jobs.write("a.ts", job(`priority: 300, timeoutSeconds: 60, ${NIGHTLY.replace("02:30", "05:00")}`));
    const changed = await sync();
    assert.equal(changed.applied, true);
    assert.deepEqual(changed.plan?.changed[0]?.fields.filter(({ field }) => field !== "code"), [
      { field: "priority", before: 200, after: 300 },
      { field: "timeout_seconds", before: 3600, after: 60 },
    ]);
    assert.deepEqual(await option(sql, "priority"), [120, 300, "ann"]);
    assert.deepEqual(await option(sql, "schedule.nightly.time"), [{ dailyAt: "04:00" }, { dailyAt: "05:00" }, "ann"]);
    const definition = await stored(sql);
    assert.deepEqual([definition.enabled, definition.timeout_seconds], [false, 60]);
    assert.deepEqual(definition.schedules[0]?.next_slot, next, "the schedule that holds has not changed");

    jobs.remove("a.ts");
    await sync();
    jobs.write("a.ts", job(`priority: 310, ${NIGHTLY}`));
    await sync();
    assert.deepEqual([(await stored(sql)).enabled, await option(sql, "priority")], [false, [120, 310, "ann"]]);

    const reset = await resetOverrides(sql, "a", "all", BY);
    assert.equal(reset?.ok && reset.changed.length, 3);
    const back = await stored(sql);
    assert.deepEqual([back.enabled, back.priority, back.schedules[0]?.schedule_value], [true, 310, "02:30"]);
    assert.equal(back.schedules[0]?.next_slot?.toZonedDateTimeISO("Asia/Tokyo").hour, 2);
    assert.equal((await sync()).drift, false);
  });
});

Deno.test("a schedule whose file drops it and brings it back has what the operator set again", async () => {
  await withSync({ "a.ts": job(NIGHTLY) }, async ({ sql, jobs, sync }) => {
    await sync();
    await set(sql, { "schedule.nightly.timezone": "Europe/Oslo", "schedule.nightly.enabled": false });
    jobs.write("a.ts", job("timeoutSeconds: 5,"));
    await sync();
    assert.deepEqual(await option(sql, "schedule.nightly.timezone"), ["Europe/Oslo", null, "ann"]);
    jobs.write("a.ts", job(NIGHTLY));
    await sync();
    const [schedule] = (await stored(sql)).schedules;
    assert.deepEqual([schedule?.timezone, schedule?.enabled], ["Europe/Oslo", false]);
    const reset = await resetOverrides(sql, "a", ["schedule.nightly"], BY);
    assert.equal(reset?.ok && reset.changed.length, 2);
    const [back] = (await stored(sql)).schedules;
    assert.deepEqual([back?.timezone, back?.enabled], ["Asia/Tokyo", true]);
  });
});

const EVERYTHING: Record<string, [Json, Partial<StoredDefinition>]> = {
  timeoutSeconds: [5, { timeout_seconds: 5 }],
  "retry.max": [7, { max_retries: 7 }],
  "retry.backoffSeconds": [0.5, { retry_backoff_seconds: 0.5 }],
  concurrency: ["queueOne", { concurrency_policy: "queue_one" }],
  "concurrency.limit": [3, { concurrency_limit: 3 }],
  rate: [{ count: 60, seconds: 30 }, { rate_count: 60, rate_seconds: 30 }],
  node: ["gpu=a100", { node: "gpu=a100" }],
};

Deno.test("a file whose jitter or days off do not go with the times that an operator has set is taken with a warning", async () => {
  const file = (more: string) => job(`schedule: { id: "nightly", dailyAt: "02:30"${more} },`);
  await withSync({ "a.ts": file("") }, async ({ sql, jobs, sync }) => {
    await sync();
    await set(sql, { "schedule.nightly.cron": "*/30 * 25 12 *" });
    const warnings = async (more: string) => {
      jobs.write("a.ts", file(more));
      return (await sync()).plan?.warnings.map(({ warning }) => warning);
    };
    assert.deepEqual(await warnings(", jitterSeconds: 600"), []);
    assert.match(
      (await warnings(", jitterSeconds: 1800"))?.join() ?? "",
      /operator has set.* may start out of their order/,
    );
    assert.match((await warnings(', exclude: "12-25"'))?.join() ?? "", /operator has set, cron .* it never comes/);
  });
});

Deno.test("each option can be set, and each set and reset is audited with what was before", async () => {
  await withSync({ "a.ts": job() }, async ({ sql, sync }) => {
    await sync();
    const before = await stored(sql);
    const nowhere = await set(sql, { node: "gpu=a100", "retry.max": 9 });
    assert(
      !nowhere.ok &&
        /no node has the labels gpu=a100: none was ever here/.test(nowhere.complaints.map(complaintLine).join()),
    );
    assert.deepEqual(await stored(sql), before);
    await sql`insert into node (node_id, labels) values ('n', '{"gpu": "a100"}')`;
    for (const [name, [value, columns]] of Object.entries(EVERYTHING)) {
      assert.equal((await set(sql, { [name]: value })).ok, true, name);
      const is = await stored(sql);
      for (const [column, expected] of Object.entries(columns)) {
        assert.deepEqual(is[column as keyof typeof is], expected);
      }
      assert.deepEqual((await option(sql, name))?.[0], value);
    }
    assert.deepEqual(await set(sql, { "retry.max": 7 }), { ok: true, changed: [] });
    await set(sql, { rate: null, node: null });
    const { rate_count, rate_seconds, node } = await stored(sql);
    assert.deepEqual([rate_count, rate_seconds, node], [null, null, null]);
    await resetOverrides(sql, "a", Object.keys(EVERYTHING), { actor: "bob", reason: "over" });
    assert.deepEqual(await stored(sql), before);
    const acts = await sql`select actor, action, before_json, after_json, reason from admin_action_log
      where target_type = 'job' and target_id = 'a' and before_json ? 'retry.max' order by id`;
    assert.deepEqual([...acts], [
      {
        actor: "ann",
        action: "job.set",
        before_json: { "retry.max": { max_retries: 0 } },
        after_json: { "retry.max": { max_retries: 7 } },
        reason: "month end",
      },
      {
        actor: "bob",
        action: "job.reset",
        before_json: { "retry.max": { max_retries: 7 } },
        after_json: { "retry.max": { max_retries: 0 } },
        reason: "over",
      },
    ]);
  });
});

Deno.test("what a file could not say is refused, with all that is wrong, and nothing is set", async () => {
  await withSync({ "a.ts": job(NIGHTLY) }, async ({ sql, sync }) => {
    await sync();
    const refusals: [Record<string, Json>, RegExp][] = [
      [{ priority: "admin.hihg" }, /priority "admin.hihg" is no priority/],
      [{ priority: null }, /priority cannot be none/],
      [{ timeoutSeconds: 0 }, /timeoutSeconds must be a whole number from 1 to 604800/],
      [{ timeout: 5, priority: 1 }, /timeout is nothing that can be set beside the file/],
      [{ timeoutsSeconds: 5 }, /did you mean timeoutSeconds\?/],
      [{ "retry.max": -1 }, /retry.max must be/],
      [{ concurrency: "sometimes" }, /concurrency must be one of/],
      [{ concurrency: { limit: 1 } }, /set concurrency.limit/],
      [{ "concurrency.limit": 0 }, /concurrency.limit must be/],
      [{ rate: { count: 0 } }, /rate.count must be/],
      [{ rate: "often" }, /rate says how many may start/],
      [{ enabled: "no" }, /enabled must be true or false/],
      [{ node: "" }, /node must be a text/],
      [{ "schedule.nightly.dailyAt": "25:00" }, /schedule.nightly.dailyAt must be a time/],
      [{ "schedule.nightly.dailyAt": "03:00", "schedule.nightly.cron": "* * * * *" }, /has 2 times/],
      [{ "schedule.nightly.monthlyOn": { day: 32, at: "02:30" } }, /schedule.nightly.monthlyOn has a wrong day/],
      [{ "schedule.nightly.timezone": "Asia/Tokio" }, /"Asia\/Tokio" is no IANA time zone/],
      [{ "schedule.nightly.cron": "0 0 30 2 *" }, /never comes/],
      [{ "schedule.weekly.dailyAt": "03:00" }, /no schedule "weekly"; it has "nightly"/],
      [{ "schedule.nightly.dailAt": "03:00" }, /did you mean schedule.nightly.dailyAt\?/],
      [{ constructor: 1 }, /nothing that can be set/],
    ];
    for (const [wishes, problem] of refusals) {
      const answer = await set(sql, wishes);
      assert(!answer.ok, JSON.stringify(wishes));
      assert.match(answer.complaints.map(complaintLine).join("\n"), problem);
      const [silent] = answer.complaints.filter(({ says }) => says === undefined);
      assert.equal(silent, undefined, "each has a code, for whoever reads another language");
    }
    const unset = await resetOverrides(sql, "a", ["priority"], BY);
    assert(
      unset && !unset.ok &&
        /priority is not set beside the file; nothing of this job is/.test(unset.complaints.map(complaintLine).join()),
    );
    assert.equal(await setOverrides(sql, "nonsense", { priority: 1 }, BY), undefined);
    const acts = await sql`select from admin_action_log where action <> 'job.sync'`;
    assert.deepEqual([(await readOverrides(sql)).length, acts.length], [0, 0]);
  });
});

Deno.test("a sync that has made its plan when something is set plans again, and loses neither", async () => {
  await withSync({ "a.ts": job("priority: 200,") }, async ({ sql, jobs, sync }) => {
    await sync();
    jobs.write("a.ts", job("priority: 300,"));
    const synced = await sync("apply", () => set(sql, { priority: 1 }));
    assert.equal(synced.applied, true);
    assert.deepEqual(await option(sql, "priority"), [1, 300, "ann"]);
  });
});

Deno.test("runs that wait or go on with the priority of their job follow it; those that were given another do not", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id, name } = await aDefinition(sql, { name: "a" });
    const of_job = { job_definition_id: id };
    const plain = [
      await aRun(sql, of_job),
      await aRun(sql, { ...of_job, held: true }),
      await aRun(sql, { ...of_job, state: "RETRYING", node: "x" }),
      await aRun(sql, { ...of_job, state: "RUNNING" }),
    ];
    const others = [
      await aRun(sql, { ...of_job, priority: 7 }),
      await aRun(sql, { ...of_job, priority: 7, state: "RUNNING" }),
      await aRun(sql, { ...of_job, state: "FAILED" }),
      await aRun(sql),
    ];
    const priorities = async (runs: { id: number }[]) =>
      (await sql<{ priority: number }[]>`select priority from job_run where id = any(${
        runs.map((one) => one.id)
      }) order by id`)
        .map((row) => row.priority);
    await setOverrides(sql, name, { priority: 120 }, BY);
    assert.equal(await followPriority(sql, term, 2), true, "four runs, two at a time");
    while (await followPriority(sql, term, 2));
    assert.deepEqual([await priorities(plain), await priorities(others)], [[120, 120, 120, 120], [7, 7, 240, 240]]);
    await setOverrides(sql, name, { priority: 130 }, BY);
    await resetOverrides(sql, name, "all", BY);
    while (await followPriority(sql, term, 2));
    assert.deepEqual([await priorities(plain), await priorities(others)], [[240, 240, 240, 240], [7, 7, 240, 240]]);
    await waitFor("what others had under way to end", async () => {
      await followPriority(sql, term);
      return (await sql`select from priority_change`).length === 0 || undefined;
    });
  });
});

Deno.test("a move that was dumped and restored elsewhere, where transactions are counted anew, ends all the same", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id } = await aDefinition(sql, { priority: 120 });
    const waits = await aRun(sql, { job_definition_id: id, priority: 240 });
    await sql`insert into priority_change (job_definition_id, was, until_xid) values (${id}, 240, '9000000000000')`;
    const look = { lease_ms: 60_000, reassign_after_ms: 60_000, late_seconds: 0, ahead_seconds: 0 };
    assert((await renewAndReadWork(sql, term, look))?.pending.moves);
    await waitFor("the move to end", async () => {
      await followPriority(sql, term);
      return (await sql`select from priority_change`).length === 0 || undefined;
    });
    assert.deepEqual([...await sql`select priority from job_run where id = ${waits.id}`], [{ priority: 120 }]);
  });
});

Deno.test("a run that was made before its job's priority changed, and is committed after, follows as well", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id } = await aDefinition(sql, { name: "a" });
    const other = await aDefinition(sql, { name: "b" });
    const waits = await aRun(sql, { job_definition_id: other.id });
    const priorityOf = async (run_id: number) =>
      (await sql<{ priority: number }[]>`select priority from job_run where id = ${run_id}`)[0]?.priority;
    const late = await sql.begin(async (tx) => {
      const run = await aRun(tx as unknown as typeof sql, { job_definition_id: id });
      await setOverrides(sql, "a", { priority: 120 }, BY);
      while (await followPriority(sql, term));
      await setOverrides(sql, "b", { priority: 130 }, BY);
      while (await followPriority(sql, term));
      assert.equal(await priorityOf(waits.id), 130, "the open transaction keeps nobody else waiting");
      return run;
    });
    assert.equal(await priorityOf(late.id), 240);
    await waitFor("it to follow", async () => {
      await followPriority(sql, term);
      return await priorityOf(late.id) === 120 || undefined;
    });
  });
});

Deno.test("a higher limit lets go at once who waited behind the lower one", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id } = await aDefinition(sql, { name: "a", concurrency_limit: 1, concurrency_key: "{t}" });
    const of_key = { job_definition_id: id, limit_key: `${id}:x` };
    await aRun(sql, { ...of_key, state: "RUNNING" });
    const waits = await aRun(sql, { ...of_key, held: true });
    await checkLines(sql, term);
    const held = async () => (await sql<{ held: boolean }[]>`select held from job_run where id = ${waits.id}`)[0]?.held;
    assert.equal(await held(), true);
    await setOverrides(sql, "a", { "concurrency.limit": 2 }, BY);
    await checkLines(sql, term);
    assert.equal(await held(), false);
  });
});

Deno.test("a rate that is raised or taken away holds at once, not after what the old one had to wait", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id } = await aDefinition(sql, { name: "a", rate_count: 1, rate_seconds: 86_400 });
    await aWorker(sql, { worker_id: "w" });
    const first = await aRun(sql, { job_definition_id: id });
    await aRun(sql, { job_definition_id: id });
    assert.equal((await assignRuns(sql, term, [{ job_run_id: first.id, version: 0, worker_id: "w" }])).length, 1);
    const wait_ms = async () => (await readDispatchSnapshot(sql)).lanes[0]?.rate_wait_ms ?? NaN;
    assert(await wait_ms() > 80_000_000, "a day, of which a second is made up");
    await setOverrides(sql, "a", { rate: { count: 10, seconds: 5 } }, BY);
    assert(await wait_ms() <= 500);
    await setOverrides(sql, "a", { rate: null }, BY);
    assert(await wait_ms() < 0);
  });
});

Deno.test("jobs are listed, shown, set and reset from the command line", async () => {
  await withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const { id } = await aDefinition(sql, { name: "export", type: "time" });
    await sql`insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value)
      values (${id}, 'nightly', 'daily_at', '02:30')`;
    await aRun(sql, { job_definition_id: id });
    const said = await cli(
      "jobs",
      "set",
      "export",
      "priority=admin.high",
      "rate=60/30",
      "schedule.nightly.dailyAt=03:00",
      "--reason",
      "month end",
    );
    assert.match(said.out, /export: priority 240 -> 120, until it is reset\nexport: rate none -> count 60, seconds 30/);
    assert.match((await cli("jobs", "ls")).out, /export +on +120 +1 +0 +daily at 03:00 UTC .* 3$/m);
    assert.match((await cli("jobs", "show", "export")).out, /priority +120 +240 +cli:\S+ +\d{4}-\S+ \S+ +month end/);
    const monthly = await cli("jobs", "set", "export", "schedule.nightly.monthlyOn=31 or last 02:30");
    assert.match(monthly.out, /dailyAt 03:00 -> monthlyOn \{"day":31,"at":"02:30","ifMissing":"last"\}/);
    const [stored] = await sql`select schedule_type, schedule_value from job_schedule`;
    assert.deepEqual({ ...stored }, { schedule_type: "monthly_on", schedule_value: "31 or last 02:30" });
    assert.match((await cli("jobs", "ls")).out, /monthly on day 31 or the last at 02:30 UTC/);
    const shown = JSON.parse((await cli("jobs", "show", "export", "--json")).out);
    assert.equal(shown.options.find((one: { name: string }) => one.name === "rate").override.reason, "month end");
    const bad = await cli("jobs", "set", "export", "priority=first");
    assert.deepEqual([bad.code, /priority "first" is no priority; give a whole number/.test(bad.err)], [2, true]);
    assert.match((await cli("jobs", "set", "exprot", "priority=1")).err, /did you mean "export"\?/);
    const reset = JSON.parse((await cli("jobs", "reset", "export", "--json")).out);
    assert.deepEqual(reset.changed.map((one: { name: string }) => one.name), [
      "priority",
      "rate",
      "schedule.nightly.time",
    ]);
    assert.match((await cli("jobs", "reset", "export")).out, /the job has no overrides/);
  });
});
