/** Mistakes about runs that stand in others' way: retries in their lines, overlaps beside bulks, what is too slow in a bulk, events put together. */
import type { Mistake } from "./mistake.ts";

const LINES = "src/runs/key_queues.ts";
const OVERLAPS = "src/runs/concurrency_policy.ts";
const RETRY_LINES = ["tests/store/runs/key_queue_retries_test.ts"];
const OVERLAP_TESTS = ["tests/store/runs/concurrency_policy_test.ts"];

export const RUN_LINES_MISTAKES: Mistake[] = [
  // Lines.
  {
    id: "let-go-past-a-retry",
    file: LINES,
    find: "o.serial_key = k.key and ${\n    inStates(sql, HOLDS_KEY, sql`o.state`)",
    replace:
      'o.serial_key = k.key and ${\n    inStates(sql, HOLDS_KEY.filter((one) => one !== "RETRYING"), sql`o.state`)',
    tests: RETRY_LINES,
    filter: "in the line of its serial key",
    why:
      "The next run of a serial key is let go, held again and looked at each tick while the one before waits for its retry.",
  },
  {
    id: "chosen-past-a-retry",
    file: LINES,
    find: "o.id <> r.id\n             and ${inStates(sql, HOLDS_KEY, sql`o.state`)})",
    replace:
      'o.id <> r.id\n             and ${inStates(sql, HOLDS_KEY.filter((one) => one !== "RETRYING"), sql`o.state`)})',
    tests: RETRY_LINES,
    filter: "in the line of its serial key",
    why:
      "A run that passes one of its serial key that waits for its retry makes the index refuse all assignments of the tick.",
  },
  {
    id: "chosen-past-an-orphan",
    file: LINES,
    find: "o.id <> r.id\n             and ${inStates(sql, HOLDS_KEY, sql`o.state`)})",
    replace:
      'o.id <> r.id\n             and ${inStates(sql, HOLDS_KEY.filter((one) => one !== "ORPHANED"), sql`o.state`)})',
    tests: RETRY_LINES,
    filter: "in the line of its serial key",
    why:
      "A run that passes one of its serial key whose worker died makes the index refuse all assignments of the tick.",
  },
  {
    id: "near-past-a-retry",
    file: "src/dispatch/dispatch_queues.ts",
    find: "o.id <> r.id\n                  and ${inStates(sql, NOT_ENDED, sql`o.state`)})",
    replace:
      'o.id <> r.id\n                  and ${inStates(sql, NOT_ENDED.filter((one) => one !== "RETRYING"), sql`o.state`)})',
    tests: RETRY_LINES,
    filter: "in the line of its serial key",
    why: "A run is given to a worker ahead of its time though one of its serial key waits for its retry.",
  },
  {
    id: "bulk-begins-past-a-retry",
    file: LINES,
    find: "${of(sql, sql`o.state`, HOLDS_KEY)} offset 0)",
    replace: '${of(sql, sql`o.state`, ["ASSIGNED", "RUNNING"])} offset 0)',
    tests: RETRY_LINES,
    filter: "in the line of its serial key",
    why: "A bulk begins while a run of its serial key waits for its retry.",
  },
  {
    id: "limit-forgets-a-held-retry",
    file: LINES,
    find: "inLimitLine(sql, sql`r`, MAY_START)",
    replace: 'inLimitLine(sql, sql`r`, MAY_START.filter((one) => one !== "RETRYING"))',
    tests: RETRY_LINES,
    filter: "finds its limit taken",
    why: "A retry that found its limit taken waits for ever.",
  },
  {
    id: "limit-forgets-a-held-orphan",
    file: LINES,
    find: "inLimitLine(sql, sql`r`, MAY_START)",
    replace: 'inLimitLine(sql, sql`r`, MAY_START.filter((one) => one !== "ORPHANED"))',
    tests: RETRY_LINES,
    filter: "finds its limit taken",
    why: "A run that lost its worker and found its limit taken waits for ever.",
  },
  {
    id: "retry-is-not-held",
    file: LINES,
    find: "and ${isStill(sql, MAY_START, sql`r.state`)}\n",
    replace: 'and ${isStill(sql, ["PENDING"], sql`r.state`)}\n',
    tests: RETRY_LINES,
    why: "Retries whose limit is taken are read again by each tick, and hide what is behind them.",
  },
  {
    id: "born-beside-a-waiting-retry",
    file: "src/runs/create_runs.ts",
    find: "                and ${inStates(sql, NOT_ENDED, sql`o.state`)} and ${\n",
    replace:
      '                and ${inStates(sql, NOT_ENDED.filter((one) => one !== "RETRYING"), sql`o.state`)} and ${\n',
    tests: RETRY_LINES,
    filter: "finds its limit taken",
    why:
      "A limit does not count the run that waits for its retry: each birth beside it is read by dispatch until it is held.",
  },
  {
    id: "resumed-bulk-forgets-a-held-retry",
    file: "src/bulks/bulk_dispatch.ts",
    find: "${inStates(sql, MAY_START, sql`r.state`)} and r.held",
    replace: '${inStates(sql, MAY_START.filter((one) => one !== "RETRYING"), sql`r.state`)} and r.held',
    tests: RETRY_LINES,
    filter: "while the bulk is paused",
    why: "A retry that came due while its bulk was paused never starts, and the bulk never ends.",
  },
  {
    id: "timeout-does-not-block",
    file: "schema.sql",
    find: "if old.finished_at is null and new.state in ('FAILED', 'TIMED_OUT')",
    replace: "if old.finished_at is null and new.state in ('FAILED')",
    tests: ["tests/store/runs/key_queues_test.ts"],
    filter: "stops its serial key",
    why: 'With onFailure: "block" the next run of the key starts after one that was too slow.',
  },
  // Overlaps.
  {
    id: "bulk-that-waits-forbids",
    file: OVERLAPS,
    find: "and (o.state <> 'PENDING' or o.source <> 'bulk') and ${wasThere(sql)}",
    replace: "and ${wasThere(sql)}",
    tests: [...OVERLAP_TESTS, "tests/store/bulks/backfill_test.ts"],
    filter: "forbid",
    why: "While a backfill waits, each slot of today is skipped.",
  },
  {
    id: "bulk-that-runs-does-not-forbid",
    file: OVERLAPS,
    find: "and (o.state <> 'PENDING' or o.source <> 'bulk') and ${wasThere(sql)}",
    replace: "and o.source <> 'bulk' and ${wasThere(sql)}",
    tests: [...OVERLAP_TESTS, "tests/store/bulks/backfill_test.ts"],
    filter: "forbid",
    why: "A slot waits behind a bulk's run instead of being skipped, as its job says.",
  },
  {
    id: "bulk-that-waits-is-replaced",
    file: OVERLAPS,
    find: "and o.cancel_requested_at is null and (o.state <> 'PENDING' or o.source <> 'bulk')",
    replace: "and o.cancel_requested_at is null",
    tests: [...OVERLAP_TESTS, "tests/store/bulks/backfill_test.ts"],
    filter: "/replace/",
    why: "The next slot cancels all of a backfill that waits.",
  },
  {
    id: "bulk-that-runs-is-not-replaced",
    file: OVERLAPS,
    find: "and o.cancel_requested_at is null and (o.state <> 'PENDING' or o.source <> 'bulk')",
    replace: "and o.cancel_requested_at is null and o.source <> 'bulk'",
    tests: [...OVERLAP_TESTS, "tests/store/bulks/backfill_test.ts"],
    filter: "/replace/",
    why: "A slot waits for a bulk's run that it should replace.",
  },
  {
    id: "queue-one-counts-enqueued-runs",
    file: OVERLAPS,
    find: "(o.state = 'PENDING' and o.source = 'schedule')",
    replace: "o.state = 'PENDING'",
    tests: OVERLAP_TESTS,
    filter: "beside whatever was enqueued",
    why: 'A slot of a "queueOne" job is skipped since somebody enqueued a run by hand.',
  },
  {
    id: "replaced-before-the-slot-is-due",
    file: OVERLAPS,
    find: "where r.state = 'PENDING' and r.source = 'schedule' and r.due_at <= clock_timestamp() group by 1),",
    replace: "where r.state = 'PENDING' and r.source = 'schedule' group by 1),",
    tests: OVERLAP_TESTS,
    filter: "whose time has not come",
    why: "A run is canceled for a slot that starts, by its jitter, an hour later.",
  },
  {
    id: "skipped-before-the-slot-is-due",
    file: OVERLAPS,
    find:
      "r.source = 'schedule' and r.due_at <= clock_timestamp()\n         and d.concurrency_policy in ('forbid', 'queue_one')",
    replace: "r.source = 'schedule'\n         and d.concurrency_policy in ('forbid', 'queue_one')",
    tests: OVERLAP_TESTS,
    filter: "whose time has not come",
    why: "A slot is skipped for a run that would have ended before it was due.",
  },
  {
    id: "backfill-is-a-slot",
    file: "src/bulks/backfill.ts",
    find: "'bulk' as source",
    replace: "'schedule' as source",
    tests: ["tests/store/bulks/backfill_test.ts"],
    filter: "keeps no slot of today",
    why: "A backfill keeps the slots of today from running, and its own runs are late at once.",
  },
  // Bulks.
  {
    id: "bulk-retry-leaves-out-timeouts",
    file: "src/bulks/bulks.ts",
    find: "r.state in ('FAILED', 'TIMED_OUT') and i.retried_by is null",
    replace: "r.state = 'FAILED' and i.retried_by is null",
    tests: ["tests/store/bulks/bulk_failures_test.ts"],
    filter: "only what failed is done again",
    why: "Items that were too slow are not among those that are done again.",
  },
  {
    id: "bulk-timeouts-do-not-throttle",
    file: "src/bulks/bulk_dispatch.ts",
    find: "count(*) filter (where e.state in ('FAILED', 'TIMED_OUT'))::int as recent_failures",
    replace: "count(*) filter (where e.state = 'FAILED')::int as recent_failures",
    tests: ["tests/store/bulks/bulk_failures_test.ts"],
    filter: "what runs at once is halved",
    why: "A bulk whose items are too slow is not throttled.",
  },
  // Events.
  {
    id: "debounce-without-its-longest-wait",
    file: "src/events/events.ts",
    find: "wakes_at = least(clock_timestamp() + k.debounce, r.created_at + k.max_wait),",
    replace: "wakes_at = clock_timestamp() + k.debounce,",
    tests: ["tests/process/cli/event_rules_test.ts"],
    filter: "not put off beyond the longest wait",
    why: "While events keep coming their run never starts.",
  },
  {
    id: "debounce-is-due-without-its-longest-wait",
    file: "src/events/events.ts",
    find: "due_at = least(clock_timestamp() + k.debounce, r.created_at + k.max_wait),",
    replace: "due_at = clock_timestamp() + k.debounce,",
    tests: ["tests/process/cli/event_rules_test.ts"],
    filter: "not put off beyond the longest wait",
    why: "While events keep coming their run is let go, and is not due.",
  },
  {
    id: "missing-field-fits-any-value",
    file: "schema.sql",
    find: "else w.value = coalesce(payload #> string_to_array(w.key, '.'), 'null') end)",
    replace: "else w.value = payload #> string_to_array(w.key, '.') end)",
    tests: ["tests/process/cli/event_rules_test.ts"],
    filter: "a field that is missing",
    why: "A rule that asks for a value also takes events that lack the field.",
  },
  {
    id: "missing-field-is-not-null",
    file: "schema.sql",
    find: "where one = coalesce(payload #> string_to_array(w.key, '.'), 'null'))",
    replace: "where one = payload #> string_to_array(w.key, '.'))",
    tests: ["tests/process/cli/event_rules_test.ts"],
    filter: "a field that is missing",
    why: "A rule that allows null among other values drops the events that lack the field.",
  },
];
