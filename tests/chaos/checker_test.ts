/** The checker must be able to fail: for each invariant a history that breaks it, and one that breaks none. */
import assert from "node:assert/strict";
import { recordAudit } from "../../src/access/audit.ts";
import { done, OF_BULKS, OF_EVENTS, OF_LEADERS, OF_LIMITS } from "./breaches.ts";
import { A_JOURNEY, OF_STEPS } from "./breaches_steps.ts";
import { check, explain } from "./checker.ts";
import { INVARIANTS } from "./invariants.ts";
import { type Story, withStory, WORKER } from "./story.ts";

Deno.test("a history in which all went well breaks no invariant, and can be told", () =>
  withStory(async (story) => {
    const id = await story.created();
    await story.ended(await story.started(id), "FAILED");
    await story.ended(await story.started(id));
    assert.deepEqual(await check(story.sql, story.evidence), []);
    const told = await explain(story.sql, id, story.evidence.effects);
    assert.match(told, /PENDING -> ASSIGNED.*\n.*ASSIGNED -> RUNNING.*\n.*RUNNING -> RETRYING/);
    assert.match(told, /RUNNING -> SUCCEEDED/);
    assert.match(told, /body of attempt 2/);
  }));

Deno.test("a run that was suspended and went on, beside one of its serial key, breaks no invariant", () =>
  withStory(async (story) => {
    const id = await story.created({ serial_key: "k" });
    await story.suspended(await story.started(id));
    await story.ended(await story.started(id));
    await done(story, { serial_key: "k" });
    assert.deepEqual(await check(story.sql, story.evidence), []);
    assert.match(
      await explain(story.sql, id, story.evidence.effects),
      /RUNNING -> SUSPENDED.*\n(.*\n)*.*SUSPENDED -> ASSIGNED/,
    );
  }));

Deno.test("a run with steps, a message, a child and a bulk, that was suspended and went on, breaks no invariant", () =>
  withStory(async (story) => {
    await A_JOURNEY(story);
    assert.deepEqual(await check(story.sql, story.evidence), []);
  }));

export interface Breach {
  what: string;
  /** What is found, all of it. */
  broken: string[];
  detail: RegExp;
  spoil(story: Story): Promise<unknown>;
}

const OF_BODIES: Breach[] = [
  {
    what: "two bodies of one run overlap",
    broken: ["I1"],
    detail: /attempt 2 began 5.0 ms before/,
    async spoil(story) {
      const id = await story.created();
      const first = await story.started(id);
      await story.ended(first, "FAILED");
      const second = await story.started(id);
      await story.ended(second);
      second.started_ms = first.ended_ms as number - 5;
    },
  },
  {
    what: "an attempt has two bodies, one after the other",
    broken: ["I2", "fences"],
    detail: /attempt 1 had 2 bodies/,
    async spoil(story) {
      const body = await done(story);
      story.evidence.effects.push({ ...body, started_ms: 1_000, ended_ms: 1_001 });
    },
  },
  {
    what: "a body has another fence than its run",
    broken: ["I3"],
    detail: /with fence 999 on .* never became RUNNING so/,
    spoil: async (story) => (await done(story)).fence = 999,
  },
  {
    what: "a body runs on another worker than its run",
    broken: ["I3"],
    detail: /on w2 had a body/,
    spoil: async (story) => (await done(story)).worker_id = "w2",
  },
  {
    what: "a body goes on after its run has ended",
    broken: ["outlived"],
    detail: /it became SUCCEEDED, and the body of attempt 1 ended \d+/,
    async spoil(story) {
      const body = await done(story);
      const [clock] = await story.sql`select clock_timestamp() as now`;
      story.evidence.clock = { zero: clock?.now, tolerance_ms: 5 };
      body.ended_ms = 60_000;
    },
  },
  {
    what: "a body begins before its run is due",
    broken: ["early"],
    detail: /attempt 1 began \d+(\.\d+)? ms before it was due/,
    async spoil(story) {
      await done(story);
      story.evidence.clock = { zero: new Date(0), tolerance_ms: 5 };
    },
  },
  {
    what: "bodies of one serial key overlap",
    broken: ["I8"],
    detail: /began 5.0 ms before another of "k"/,
    async spoil(story) {
      const first = await done(story, { serial_key: "k" });
      (await done(story, { serial_key: "k" })).started_ms = first.ended_ms as number - 5;
    },
  },
  {
    what: "a failure that may be retried is final",
    broken: ["I10"],
    detail: /became FAILED with 1 of 2 retries used/,
    spoil: async (story) => await story.ended(await story.started(await story.created()), "FAILED", 0),
  },
  {
    what: "a failure that may not be retried is",
    broken: ["I10"],
    detail: /became RETRYING .* was not to be retried/,
    async spoil(story) {
      const id = await story.created();
      const body = await story.started(id);
      await story.ended(body, "FAILED");
      body.retryable = false;
      await story.ended(await story.started(id));
    },
  },
  {
    what: "a success is recorded as a failure",
    broken: ["I14"],
    detail: /attempt 1 succeeded, the run is FAILED/,
    async spoil(story) {
      const body = await story.started(await story.created());
      await story.ended(body, "FAILED", 0);
      body.outcome = "SUCCEEDED";
    },
  },
  {
    what: "a recorded result is called late",
    broken: ["audit"],
    detail: /called late in the audit, and it made the run SUCCEEDED/,
    async spoil(story) {
      const { job_run_id, attempt } = await done(story);
      const act = { actor: WORKER, action: "run.late_result", target_type: "run", target_id: job_run_id };
      await recordAudit(story.sql, { ...act, after: { attempt } });
    },
  },
  {
    what: "a body ran again and nothing says why",
    broken: ["repeats"],
    detail: /attempt 1 was followed by another/,
    async spoil(story) {
      const id = await story.created();
      await story.ended(await story.started(id), "FAILED");
      await story.ended(await story.started(id));
      await story.sql`delete from job_run_attempt`;
    },
  },
  {
    what: "a later start has a lower fence",
    broken: ["fences"],
    detail: /came after \d+ of the same serial key/,
    async spoil(story) {
      await done(story, { serial_key: "k" });
      const body = await done(story, { serial_key: "k" });
      await story.sql`update job_run_event set fence = fence - 100 where fence = ${body.fence}`;
      body.fence -= 100;
    },
  },
];

const OF_NEW_RUNS: Breach[] = [
  {
    what: "a slot has no run",
    broken: ["I5"],
    detail: /slot time:1:.* has no run/,
    spoil: (story) => Promise.resolve(story.evidence.new_runs.push("time:1:2026-01-01T00:00:00Z")),
  },
  {
    what: "a slot has two runs",
    broken: ["I5"],
    detail: /has 2 runs for the slot/,
    async spoil(story) {
      for (const id of [await story.created(), await story.created()]) {
        await story.sql`
          with s as (
            insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value)
            select id, 's', 'cron', '* * * * *' from job_definition
            on conflict (job_definition_id, schedule_id) do update set enabled = true returning id)
          update job_run set job_schedule_id = s.id, scheduled_for = '2026-01-01' from s where job_run.id = ${id}`;
        await story.ended(await story.started(id));
      }
    },
  },
  {
    what: "an enqueue has no run",
    broken: ["I6"],
    detail: /enqueue:1:lost has no run/,
    spoil: (story) => Promise.resolve(story.evidence.new_runs.push("enqueue:1:lost")),
  },
  {
    what: "an event was forgotten",
    broken: ["I6"],
    detail: /event 1 was never processed/,
    spoil: (story) => story.sql`select emit_event('something')`,
  },
  {
    what: "a run was not asked for",
    broken: ["I6"],
    detail: /nobody asked for enqueue:1:k0/,
    spoil: async (story) => (await done(story), story.evidence.new_runs = []),
  },
];

const OF_ROWS: Breach[] = [
  {
    what: "a run does not end",
    broken: ["I4"],
    detail: /it is still RUNNING/,
    spoil: async (story) => await story.started(await story.created()),
  },
  {
    what: "a live run belongs to a dead worker",
    broken: ["I4", "I13"],
    detail: /belongs to w1-0000000a, which is DEAD/,
    async spoil(story) {
      await story.started(await story.created());
      await story.sql`update worker set state = 'DEAD', ended_at = now()`;
    },
  },
  {
    what: "two runs of one serial key are held at once",
    broken: ["I8"],
    detail: /became ASSIGNED while another run held "k"/,
    async spoil(story) {
      await story.sql`drop index job_run_serial`;
      const ids = [await story.created({ serial_key: "k" }), await story.created({ serial_key: "k" })];
      const bodies = [await story.started(ids[0] as number), await story.started(ids[1] as number)];
      for (const body of bodies) await story.ended(body);
    },
  },
  {
    what: "a run of a serial key overtakes one that waits",
    broken: ["I9"],
    detail: /assigned before run 1 of "k"/,
    async spoil(story) {
      story.evidence.leader_lease_ms = 0;
      const [first, second] = [await story.created({ serial_key: "k" }), await story.created({ serial_key: "k" })];
      await story.ended(await story.started(second));
      await story.ended(await story.started(first));
    },
  },
  {
    what: "a failure is charged for nothing",
    broken: ["I11"],
    detail: /failures went from 0 to 1 when it became ASSIGNED/,
    async spoil(story) {
      const id = await story.created();
      await story.sql`update job_run set failures = 1, version = version + 1 where id = ${id}`;
      await story.sql`update job_run_event set to_state = 'PENDING', from_state = 'PENDING' where version = 1`;
      await story.ended(await story.started(id));
      await story.sql`update job_run_event set failures = 0 where version = 1`;
    },
  },
  {
    what: "an interruption is charged twice",
    broken: ["I11"],
    detail: /attempt 1 was LOST and charged 2/,
    async spoil(story) {
      const id = await story.created();
      await story.started(id);
      await story.sql`
        with lost as (update job_run set state = 'ORPHANED', interruptions = 2, version = version + 1 where id = ${id} returning id)
        insert into job_run_attempt (job_run_id, attempt, outcome) select id, 1, 'LOST' from lost`;
      await story.ended(await story.started(id));
    },
  },
  {
    what: "the history has a gap",
    broken: ["I12"],
    detail: /version 2 .* follows version 0/,
    spoil: async (story) => (await done(story), await story.sql`delete from job_run_event where version = 1`),
  },
  {
    what: "the row is not where its history ends",
    broken: ["I12", "I14"],
    detail: /its history ends otherwise/,
    spoil: async (story) => (await done(story), await story.sql`delete from job_run_event where version = 3`),
  },
  {
    what: "something leaves a terminal state",
    broken: ["transitions"],
    detail: /refused: it had ended as SUCCEEDED/,
    async spoil(story) {
      const { job_run_id } = await done(story);
      const again = await story.sql`
        update job_run set state = 'PENDING', finished_at = null, version = version + 1 where id = ${job_run_id} returning id`;
      assert.equal(again.length, 0);
    },
  },
  {
    what: "another run of its serial key goes on while one is suspended",
    broken: ["I8"],
    detail: /became ASSIGNED while another run held "k"/,
    async spoil(story) {
      await story.sql`drop index job_run_serial`;
      const id = await story.created({ serial_key: "k" });
      await story.suspended(await story.started(id));
      await done(story, { serial_key: "k" });
      await story.ended(await story.started(id));
    },
  },
  {
    what: "a suspension is counted when it begins",
    broken: ["transitions"],
    detail: /refused: suspensions went from 0 to 1 on the way to SUSPENDED/,
    async spoil(story) {
      const body = await story.started(await story.created());
      await story
        .sql`update job_run set state = 'SUSPENDED', held = true, suspensions = suspensions + 1, version = version + 1`;
      await story.ended(body);
    },
  },
  {
    what: "a worker takes a run by itself",
    broken: ["transitions"],
    detail: /PENDING -> ASSIGNED was made by somebody else/,
    spoil: async (story) => (await done(story), await story.sql`update job_run_event set by_leader = false`),
  },
  {
    what: "a leader takes a run from a worker that lives",
    broken: ["transitions"],
    detail: /made it CANCELED while it was RUNNING on a worker that was ACTIVE/,
    async spoil(story) {
      const { job_run_id } = await story.started(await story.created());
      await story.sql`
        with fence as materialized (select 1) update job_run set state = 'CANCELED', finished_at = now(), version = version + 1 where id = ${job_run_id}`;
    },
  },
];

for (
  const breach of [
    ...OF_BODIES,
    ...OF_NEW_RUNS,
    ...OF_ROWS,
    ...OF_LIMITS,
    ...OF_EVENTS,
    ...OF_BULKS,
    ...OF_LEADERS,
    ...OF_STEPS,
  ]
) {
  Deno.test(`${breach.broken.join(", ")} is found broken: ${breach.what}`, () =>
    withStory(async (story) => {
      await breach.spoil(story);
      const found = await check(story.sql, story.evidence);
      const names = new Set(found.map((one) => one.invariant));
      assert.deepEqual([...names].sort(), [...breach.broken].sort(), JSON.stringify(found, null, 2));
      assert.match(found.map((one) => one.detail).join("\n"), breach.detail);
    }));
}

Deno.test("every invariant has a history that breaks it", () => {
  const shown = new Set(
    [...OF_BODIES, ...OF_NEW_RUNS, ...OF_ROWS, ...OF_LIMITS, ...OF_EVENTS, ...OF_BULKS, ...OF_LEADERS, ...OF_STEPS]
      .flatMap((
        breach,
      ) => breach.broken),
  );
  assert.deepEqual(INVARIANTS.map(({ invariant }) => invariant).filter((name) => !shown.has(name)), []);
});
