/** What a drill says of a history: each promise, broken by hand, is seen; and a history that is well is well. */
import assert from "node:assert/strict";
import { nextSlots } from "../../src/schedules/calendar.ts";
import { secondsOf } from "../../src/ops/drill/job_file.ts";
import { type History, judge, type Promised, type Sign } from "../../src/ops/drill/judge.ts";
import { slotKeys } from "../../src/ops/drill/load.ts";
import type { AttemptRecord, RunRecord } from "../../src/runs/run_history.ts";
import type { StoredSchedule } from "../../src/definitions/definition_rows.ts";
import { stored } from "../../src/locale/message.ts";

const at = (ms: number) => new Date(1_800_000_000_000 + ms);

/** Run 1 was enqueued and its worker lost, so its second attempt succeeded; run 2 was a slot; both share a key. */
function goodHistory(): History {
  const run = { state: "SUCCEEDED", failures: 0, serial_key: "key", error_summary: null, worker_id: "w2" } as const;
  const lives = (job_run_id: number, attempt: number, from_ms: number, to_ms: number): Sign[] => {
    const who = { job_run_id, attempt, fence: 10 * job_run_id + attempt, pid: 100 * job_run_id + attempt };
    return [{ what: "start", at_ms: from_ms, ...who }, { what: "alive", at_ms: to_ms, ...who }];
  };
  return {
    expected: ["enqueue:1:a", "time:1:2030-01-01T00:00:00Z"],
    runs: [
      {
        ...run,
        job_run_id: 1,
        idempotency_key: "enqueue:1:a",
        attempt: 2,
        fence: 12,
        interruptions: 1,
        started_at: at(900),
      },
      {
        ...run,
        job_run_id: 2,
        idempotency_key: "time:1:2030-01-01T00:00:00Z",
        attempt: 1,
        fence: 21,
        interruptions: 0,
        started_at: at(1_500),
      },
    ],
    attempts: [
      {
        job_run_id: 1,
        attempt: 1,
        outcome: "LOST",
        error_summary: stored("runs.cause.worker_dead"),
        fence: 11,
        started_at: at(0),
        ended_at: at(800),
      },
    ],
    signs: [...lives(1, 1, 50, 300), ...lives(1, 2, 950, 1_200), ...lives(2, 1, 1_550, 1_800)],
    uncharged: false,
  };
}

const first = (history: History) => history.runs[0] as RunRecord;
const lost = (history: History) => history.attempts[0] as AttemptRecord;

const EACH_SECOND: StoredSchedule = {
  id: 7,
  schedule_id: "each_second",
  schedule_type: "cron",
  schedule_value: "* * * * * *",
  timezone: "UTC",
  misfire: { policy: "last" },
  dst_gap: "after",
  dst_overlap: "first",
  exclude: [],
  jitter_seconds: 0,
  paused_at: null,
  paused_by: null,
  paused_reason: null,
  args_json: {},
  enabled: true,
  last_slot: Temporal.Instant.from("2026-03-05T10:20:58Z"),
  next_slot: null,
};

/** What was done to the good history, and what a drill says of it. */
const BREAKS: [string, Promised, RegExp, (history: History) => void][] = [
  ["an enqueued run that is not there", "lost", /no run was made/, ({ expected }) => expected.push("enqueue:1:b")],
  ["a slot that got no run", "lost", /time:1:2030/, ({ expected }) => expected.push("time:1:2030-01-01T00:00:01Z")],
  ["a run that never ends", "lost", /it is RUNNING/, (history) => first(history).state = "RUNNING"],
  ["a run that failed", "failed", /ended as FAILED/, (history) => first(history).state = "FAILED"],
  ["a run that nobody asked for", "doubled", /nobody asked/, (history) => history.expected.pop()],
  ["a birth that made two runs", "doubled", /2 runs were made/, (history) => {
    history.runs.push({ ...first(history), job_run_id: 3 });
  }],
  ["an attempt that was RUNNING before the last had ended", "double_running", /as attempt 2 before/, (history) => {
    lost(history).ended_at = at(950);
  }],
  ["a body that outlives the start of the next", "overlap", /both lived for 50 ms/, (history) => {
    signOf(history, { job_run_id: 1, attempt: 1 }).at_ms = 1_000;
  }],
  ["two runs of a serial key at once", "overlap", /serial key key: .* run 2/, (history) => {
    signOf(history, { job_run_id: 1, attempt: 2 }).at_ms = 1_600;
  }],
  ["a second body without a cause", "unexplained", /nothing says why/, (history) => history.attempts = []],
  ["a body that no start gave its fence", "unexplained", /which no start gave out/, (history) => {
    signOf(history, { job_run_id: 2, attempt: 1 }).fence = 77;
  }],
  ["two processes for one attempt", "unexplained", /attempt 1 was followed by 1/, (history) => {
    history.signs.push({ ...signOf(history, { job_run_id: 2, attempt: 1 }), pid: 999, at_ms: 1_900 });
  }],
  ["a body that comes to life after its successor", "unexplained", /attempt 2 was followed by 1/, (history) => {
    for (const sign of history.signs) if (sign.job_run_id === 1 && sign.attempt === 1) sign.at_ms += 1_300;
  }],
  ["a fence that falls", "fence", /fence 5, after attempt 1 with 11/, (history) => {
    first(history).fence = 5;
    for (const sign of history.signs) if (sign.fence === 12) sign.fence = 5;
  }],
  ["an interruption where none may be", "charged", /1 interruptions/, (history) => history.uncharged = true],
];

/** The last sign of a body. */
function signOf(history: History, of: { job_run_id: number; attempt: number }): Sign {
  return history.signs.findLast((sign) => sign.job_run_id === of.job_run_id && sign.attempt === of.attempt) as Sign;
}

Deno.test("a history in which all is well is found well, with its repeat explained", () => {
  const { breaches, repeats, counts } = judge(goodHistory());
  assert.deepEqual(breaches, []);
  assert.deepEqual(repeats, [{ job_run_id: 1, attempt: 2, outcome: "LOST", cause: "its worker is dead" }]);
  assert.deepEqual(counts, { runs: 2, slots: 1, slots_lost: 0, bodies: 3 });
});

for (const [what, promise, detail, damage] of BREAKS) {
  Deno.test(`a drill sees ${what}`, () => {
    const history = goodHistory();
    damage(history);
    const { breaches } = judge(history);
    const seen = breaches.find((breach) => breach.promise === promise && detail.test(breach.detail));
    assert(seen, JSON.stringify(breaches));
  });
}

Deno.test("a slot that was lost is counted", () => {
  const history = goodHistory();
  history.runs.pop();
  assert.deepEqual(judge(history).counts.slots_lost, 1);
});

Deno.test("the drill's schedule has a slot each second of its minutes, and none after them", () => {
  for (
    const from of ["2026-12-31T23:50:30Z", "2026-03-05T10:20:00Z", "2026-03-05T10:59:59Z"].map((text) =>
      Temporal.Instant.from(text)
    )
  ) {
    const slots = secondsOf(from, 15).flatMap((cron) =>
      nextSlots({ ...EACH_SECOND, schedule_value: cron }, { after: from, count: 5_000 })
    );
    const seconds = slots.map((slot) => slot.since(from).total("seconds"));
    assert.deepEqual(seconds, Array.from({ length: seconds.length }, (_, place) => place + 1));
    assert(seconds.length >= 15 * 60 && seconds.length <= 16 * 60, String(seconds.length));
  }
});

Deno.test("the slots that are expected are those between two looks at the schedule", () => {
  const look = (last_slot: string): StoredSchedule => ({ ...EACH_SECOND, last_slot: Temporal.Instant.from(last_slot) });
  assert.deepEqual(slotKeys(look("2026-03-05T10:20:58Z"), look("2026-03-05T10:21:01Z")), [
    "time:7:2026-03-05T10:20:59Z",
    "time:7:2026-03-05T10:21:00Z",
    "time:7:2026-03-05T10:21:01Z",
  ]);
  assert.deepEqual(slotKeys(look("2026-03-05T10:20:58Z"), look("2026-03-05T10:20:58Z")), []);
});
