/** Job files to definitions, against a real Postgres and with a real sandbox. */
import assert from "node:assert/strict";
import { reportText } from "../../../src/sync/plan_text.ts";
import { readDefinition, readDefinitions } from "../../../src/definitions/definition_rows.ts";
import { dueSchedules } from "../../../src/definitions/due_schedules.ts";
import { aRun } from "../../support/factories.ts";
import { assertApplied, job, withSync } from "../../support/job_files/bench.ts";

const names = (changes: { name: string }[]) => changes.map((change) => change.name);

const EXPORT = {
  "export_devices.ts": job(`description: "Export devices",
  schedule: [{ id: "nightly", dailyAt: "02:30", timezone: "asia/tokyo", misfire: { all: true, within: 60 }, args: { tenant: "t" } }],
  on: ["device.export", "device.export"],
  args: z.object({ tenant: z.string() }),
  priority: "admin.medium+2", serialKey: "tenant:{tenant}", timeoutSeconds: 600,
  retry: { max: 3, factor: 3, on: { ConnectError: { max: 5, backoffSeconds: 1 } } },
  concurrency: "forbid", onFailure: "block", resources: { license: 2 }, rate: { count: 60 }, memoryMb: 128, permissions: { net: ["db.internal:5432"], unsafe: { run: ["git"] } },
  isolation: { reuse: 10 },`),
  "nested/plain.ts": job(),
};

/** Of a job that says nothing of messages, other jobs and changes of its code. */
const NO_WORKFLOW = {
  messages: {},
  on_change: "continue",
  after_jobs: [],
  after_when: "success",
  deadline_seconds: null,
};

Deno.test("job files become definitions and schedules, with the file's values and the defaults", async () => {
  await withSync(EXPORT, async ({ sql, sync }) => {
    const report = await sync();
    assertApplied(report);
    assert.deepEqual(names(report.plan?.added ?? []), ["export_devices", "plain"]);
    assert.deepEqual(
      report.plan?.added[0]?.permissions_gained.map(({ permission, what, unsafe }) => [permission, what, unsafe]),
      [
        ["net", "db.internal:5432", false],
        ["run", "git", true],
      ],
    );
    const { id: _, digest, schedules, args_schema, ...definition } = await readDefinition(sql, "export_devices") ?? {};
    assert.match(digest as string, /^[0-9a-f]{64}$/);
    assert.deepEqual((args_schema as { required: string[] }).required, ["tenant"]);
    assert.deepEqual(definition, {
      name: "export_devices",
      command_name: "export_devices.ts",
      type: "time",
      enabled: true,
      removed_at: null,
      description: "Export devices",
      event_types: ["device.export"],
      event_rules: {},
      priority: 222,
      serial_key: "tenant:{tenant}",
      node: null,
      timeout_seconds: 600,
      kill_grace_seconds: 10,
      max_retries: 3,
      retry_backoff_seconds: 30,
      retry_factor: 3,
      retry_jitter: 0.1,
      retry_on: { ConnectError: { max: 5, backoffSeconds: 1 } },
      max_interruptions: 3,
      on_failure: "block",
      resources: { license: 2 },
      rate_count: 60,
      rate_seconds: 1,
      concurrency_limit: null,
      concurrency_key: null,
      concurrency_policy: "forbid",
      memory_mb: 128,
      permissions: { net: ["db.internal:5432"], unsafe: { run: ["git"] } },
      isolation_reuse: 10,
      ...NO_WORKFLOW,
    });
    const { id: __, last_slot, next_slot, ...schedule } = schedules?.[0] ?? {};
    assert.deepEqual(schedule, {
      schedule_id: "nightly",
      schedule_type: "daily_at",
      schedule_value: "02:30",
      timezone: "Asia/Tokyo",
      args_json: { tenant: "t" },
      misfire: { policy: "all", within_seconds: 60, max: 100 },
      dst_gap: "after",
      dst_overlap: "first",
      exclude: [],
      jitter_seconds: 0,
      paused_at: null,
      paused_by: null,
      paused_reason: null,
      enabled: true,
    });
    assert.equal(String(next_slot), report.plan?.added[0]?.schedules[0]?.fires_after[0]);
    assert(Temporal.Instant.compare(last_slot as Temporal.Instant, next_slot as Temporal.Instant) < 0);
    const again = await sync();
    assert.deepEqual([again.drift, again.applied, again.plan?.unchanged.length], [false, false, 2]);
  });
});

Deno.test("a limit of its own for each key, and no second try for work that was lost", async () => {
  const limited = job('concurrency: { limit: 3, key: "{tenant}" }, retry: { interruptions: 0 },');
  await withSync({ "deep/limited.ts": limited }, async ({ sql, sync }) => {
    assertApplied(await sync());
    const definition = await readDefinition(sql, "limited");
    assert.deepEqual([definition?.concurrency_policy, definition?.concurrency_limit], ["allow", 3]);
    assert.deepEqual([definition?.concurrency_key, definition?.max_interruptions], ["{tenant}", 0]);
    assert.deepEqual([definition?.command_name, definition?.type, definition?.priority], [
      "deep/limited.ts",
      "demand",
      240,
    ]);
  });
});

Deno.test("the fields of a job's args stay in the order of its file", async () => {
  const files = { "ordered.ts": job(`args: z.object({ zone: z.string(), amount: z.number(), b: z.boolean() }),`) };
  await withSync(files, async ({ sql, sync }) => {
    assertApplied(await sync());
    const { args_schema } = await readDefinition(sql, "ordered") ?? {};
    assert.deepEqual(Object.keys((args_schema as { properties: object }).properties), ["zone", "amount", "b"]);
  });
});

Deno.test("plan and check show what would change, and change nothing", async () => {
  await withSync({ "a.ts": job("priority: 100,"), "b.ts": job() }, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    assert.equal((await sync("check")).drift, false);
    const before = await readDefinitions(sql);
    const { id } = await readDefinition(sql, "a") as { id: number };
    await aRun(sql, { job_definition_id: id, state: "PENDING" });
    await aRun(sql, { job_definition_id: id, state: "SUCCEEDED" });
    jobs.write(
      "a.ts",
      job('priority: 120, permissions: { net: ["a:1"], unsafe: { ffi: true } }, schedule: { dailyAt: "02:30" },'),
    );
    jobs.write("c.ts", job());
    jobs.remove("b.ts");
    for (const mode of ["plan", "check"] as const) {
      const report = await sync(mode);
      assert.deepEqual([report.problems, report.applied, report.drift], [[], false, true]);
      const { added, changed, removed, unchanged } = report.plan as NonNullable<typeof report.plan>;
      assert.deepEqual([names(added), names(changed), names(removed), unchanged], [["c"], ["a"], ["b"], []]);
      const change = changed[0] as typeof changed[0];
      assert.deepEqual(change.fields.map(({ field }) => field).sort(), ["code", "permissions", "priority", "type"]);
      assert.equal(change.waiting_runs, 1);
      assert.deepEqual(change.permissions_gained.map(({ what, unsafe }) => [what, unsafe]), [["a:1", false], [
        "*",
        true,
      ]]);
      assert.equal(change.schedules[0]?.fires_after.length, 5);
      const text = reportText(report, { color: false });
      for (
        const said of [
          "+ c  c.ts",
          "~ a  a.ts  (1 waiting run affected)",
          "priority: 100 -> 120",
          "UNSAFE",
          "- b  b.ts",
        ]
      ) {
        assert(text.includes(said), `${said} in\n${text}`);
      }
    }
    assert.deepEqual(await readDefinitions(sql), before);
    jobs.write("a.ts", 'throw new Error("\\u009b2J\\u001b[31mred");');
    const broken = await sync("plan");
    assert.match(
      reportText(broken, { color: true }),
      /: \ufffd2J\ufffd\[31mred\n/,
    );
  });
});

Deno.test("a removed file disables its definition and keeps it; a file that comes back is the same definition, from now on", async () => {
  const source = job("schedule: { everyNMinutes: 1 },");
  await withSync({ "a.ts": source, "b.ts": job() }, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    const first = await readDefinition(sql, "a") as NonNullable<Awaited<ReturnType<typeof readDefinition>>>;
    const run = await aRun(sql, { job_definition_id: first.id, state: "SUCCEEDED" });
    jobs.remove("a.ts");
    assertApplied(await sync());
    const gone = await readDefinition(sql, "a");
    assert.deepEqual([gone?.id, gone?.enabled, gone?.schedules[0]?.enabled], [first.id, false, false]);
    assert(gone?.removed_at);
    assert.equal((await sync("check")).drift, false, "what is removed already is no drift");
    await sql`update job_schedule set last_slot = '2020-01-01', next_slot = '2020-01-01 00:01'`;
    assert.deepEqual((await dueSchedules(sql, 10)).schedules, []);
    jobs.write("a.ts", source);
    const back = await sync();
    assertApplied(back);
    assert.deepEqual(back.plan?.added.map(({ name, returns }) => [name, returns]), [["a", true]]);
    const again = await readDefinition(sql, "a");
    assert.deepEqual([again?.id, again?.enabled, again?.removed_at], [first.id, true, null]);
    assert.deepEqual([again?.schedules[0]?.id, again?.schedules[0]?.enabled], [first.schedules[0]?.id, true]);
    const since = again?.schedules[0]?.last_slot as Temporal.Instant;
    assert(
      Temporal.Instant.compare(since, first.schedules[0]?.last_slot as Temporal.Instant) > 0,
      "nothing for the past",
    );
    assert.equal((await sql`select count(*)::int as runs from job_run where id = ${run.id}`)[0]?.runs, 1);
  });
});

Deno.test("a schedule goes on from its last slot unless its times change; then it counts from now", async () => {
  const schedule = (text: string) => job(`schedule: { id: "s", ${text} },`);
  await withSync({ "a.ts": schedule('dailyAt: "02:30"') }, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    await sql`update job_schedule set last_slot = '2026-01-01 02:30Z', next_slot = '2026-01-02 02:30Z'`;
    const slots = async () => {
      const found = (await readDefinition(sql, "a"))?.schedules.map((
        one,
      ) => [one.id, String(one.last_slot), String(one.next_slot)]);
      return found?.[0] as [number, string, string];
    };
    const before = await slots();
    jobs.write("a.ts", schedule('dailyAt: "02:30", misfire: "skip", args: { n: 1 }'));
    assertApplied(await sync());
    assert.deepEqual(await slots(), before);
    jobs.write("a.ts", schedule('dailyAt: "02:31", misfire: "skip", args: { n: 1 }'));
    assertApplied(await sync());
    const [id, last, next] = await slots();
    assert.equal(id, before[0]);
    assert(last > before[1] && next > last && next.includes("T02:31:00"), `${last} ${next}`);
    jobs.write("a.ts", job('schedule: { id: "other", dailyAt: "02:31" },'));
    assertApplied(await sync());
    assert.notEqual((await slots())[0], id);
  });
});

Deno.test("what an operator switched off stays off through a sync", async () => {
  await withSync({ "a.ts": job("schedule: { everyNMinutes: 5 },") }, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    await sql`update job_definition set enabled = false`;
    await sql`update job_schedule set enabled = false`;
    jobs.write("a.ts", job("schedule: { everyNMinutes: 6 },"));
    assertApplied(await sync());
    const { enabled, schedules } = await readDefinition(sql, "a") as NonNullable<
      Awaited<ReturnType<typeof readDefinition>>
    >;
    assert.deepEqual([enabled, schedules[0]?.enabled, schedules[0]?.schedule_value], [false, false, "6"]);
  });
});

Deno.test("syncs at once take turns: all end with what the files say", async () => {
  const files = Object.fromEntries(Array.from({ length: 5 }, (_, n) => [`j${n}.ts`, job(`priority: ${n},`)]));
  await withSync(files, async ({ sql, sync }) => {
    const reports = await Promise.all([sync(), sync(), sync()]);
    assert.deepEqual(reports.flatMap((report) => report.problems), []);
    assert.equal(reports.filter((report) => report.applied).length, 1);
    assert.deepEqual((await readDefinitions(sql)).map(({ name, priority }) => [name, priority]), [
      ["j0", 0],
      ["j1", 1],
      ["j2", 2],
      ["j3", 3],
      ["j4", 4],
    ]);
  });
});

Deno.test("a schedule without the args that its job needs is warned of, and so is a night that it meets", async () => {
  const options =
    'schedule: { id: "n", dailyAt: "02:30", timezone: "America/New_York" }, args: z.object({ tenant: z.string() }),';
  await withSync({ "a.ts": job(options) }, async ({ sync }) => {
    const report = await sync("plan");
    const warnings = report.plan?.warnings.map(({ warning }) => warning) ?? [];
    assert(warnings.some((warning) => /"n" gives no args/.test(warning)), warnings.join("\n"));
    assert(warnings.some((warning) => /02:30 does not exist in America\/New_York/.test(warning)), warnings.join("\n"));
  });
});

Deno.test("a field that the args do not have is warned of, wherever a job names one; what a schema leaves open may be there", async () => {
  const named = `serialKey: "d:{devce}", concurrency: { limit: 1, key: "{device.id}{tenant}" }, node: "{host}",
    on: { type: "a.b", debounceSeconds: 1, key: "{devise}", where: { "site.name": "x", device: 7 } },`;
  const files = {
    "closed.ts": job(`args: z.object({ device: z.any() }), ${named}`),
    "open.ts": job(`args: z.looseObject({ device: z.any() }), ${named}`),
    "none.ts": job(named),
  };
  await withSync(files, async ({ sync }) => {
    const warned = (await sync("plan")).plan?.warnings.map(({ job, warning }) => `${job}: ${warning}`) ?? [];
    const missing = "which the schema of args does not have: it is empty where nobody gives it";
    assert.deepEqual(warned.filter((one) => one.includes("the schema of args")), [
      `closed: serialKey names {devce}, ${missing}; did you mean {device}?`,
      `closed: concurrency.key names {tenant}, ${missing}`,
      `closed: node names {host}, ${missing}`,
      `closed: the key on "a.b" names {devise}, ${missing}; did you mean {device}?`,
      `closed: where on "a.b" names {site.name}, ${missing}`,
    ]);
  });
});

Deno.test("a jobs folder that is missing is a problem; an empty one is a warning, since it switches everything off", async () => {
  await withSync({ "a.ts": job() }, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    jobs.remove("a.ts");
    const report = await sync("plan");
    assert.match(report.plan?.warnings[0]?.warning ?? "", /holds no job/);
    await Deno.remove(jobs.dir);
    assert.match((await sync()).problems[0]?.reason ?? "", /no jobs folder/);
    assert.equal((await readDefinition(sql, "a"))?.enabled, true);
  });
});

Deno.test("a job that needs what there is not is taken, with a warning for as long as that is so", async () => {
  const files = {
    "a.ts": job('node: "gpu=a100",'),
    "b.ts": job('node: "gpu-1", resources: { license: 2 },'),
    "c.ts": job('node: "{host}",'),
  };
  await withSync(files, async ({ sql, sync }) => {
    const warned = async () => {
      const report = await sync();
      return report.plan?.warnings.map(({ job, warning }) => `${job}: ${warning}`) ?? [];
    };
    const [a, b, ...others] = await warned();
    assert.match(a as string, /^a: its runs will wait: no node has the labels gpu=a100: none was ever here/);
    assert.match(b as string, /^b: its runs will wait: no node has the name "gpu-1"/);
    assert.deepEqual(others, []);
    await sql`insert into node (node_id, labels) values ('gpu-1', '{"gpu": "a100"}')`;
    await sql`insert into resource (name, capacity) values ('license', 1)`;
    assert.deepEqual((await warned()).map((one) => one.slice(0, 70)), [
      'b: its runs will wait: a run takes 2 of resource "license", and there are 1'.slice(0, 70),
    ]);
    await sql`update resource set capacity = 2`;
    assert.deepEqual(await warned(), []);
  });
});
