/** Mistakes about who waits for whom: serial keys, limit keys, overlaps of one job. */
import type { Mistake } from "./mistake.ts";

export const LINES_MISTAKES: Mistake[] = [
  {
    id: "serial-key-free-while-retrying",
    file: "src/runs/key_queues.ts",
    find:
      "       where not exists (select from job_run o where o.serial_key = k.key and o.state in ('ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED') offset 0)",
    replace:
      "       where not exists (select from job_run o where o.serial_key = k.key and o.state in ('ASSIGNED', 'RUNNING', 'ORPHANED') offset 0)",
    tests: ["tests/store/runs/key_queues_test.ts"],
    filter: "a run that is tried again keeps its key",
    why: "The next run of a device starts while the one before waits to be tried again.",
  },
  {
    id: "serial-key-stop-ignored",
    file: "src/runs/key_queues.ts",
    find: "         and not exists (select from serial_key_pause s where s.serial_key = k.key offset 0)",
    replace: "",
    tests: ["tests/store/runs/key_queues_test.ts"],
    filter: "stops its serial key when the job says so",
    why: "A key that a failure stopped goes on.",
  },
  {
    id: "serial-key-order-by-id",
    file: "src/runs/key_queues.ts",
    find:
      "             and (o.priority, o.due_at, o.id) < (r.priority, r.due_at, r.id) and not ${behindBulk(sql, sql`o`)})",
    replace: "             and o.id < r.id and not ${behindBulk(sql, sql`o`)})",
    tests: ["tests/store/runs/key_queues_test.ts"],
    filter: "a more urgent run goes before",
    why: "An urgent run waits behind all older ones of its key.",
  },
  {
    id: "serial-key-two-let-go",
    file: "src/runs/key_queues.ts",
    find: "         order by r.priority, r.due_at, r.id limit 1) n",
    replace: "         order by r.priority, r.due_at, r.id limit 2) n",
    tests: ["tests/store/runs/key_queues_test.ts"],
    filter: "of a serial key the first is let go",
    why: "Two runs of one device are let go at once, and one has to be held again.",
  },
  {
    id: "limit-key-one-too-many",
    file: "src/runs/key_queues.ts",
    find: "  return sql`(r.limit_key is not null and d.concurrency_limit <= (${ofLimit(sql)}))`;",
    replace: "  return sql`(r.limit_key is not null and d.concurrency_limit < (${ofLimit(sql)}))`;",
    tests: ["tests/store/runs/key_queues_test.ts"],
    filter: "as many of a limit key",
    why: "One more run of a key goes on than its job allows.",
  },
  {
    id: "limit-key-check-ignores-going",
    file: "src/runs/key_queues.ts",
    find: "  }))) n),",
    replace: "  }) * 0)) n),",
    tests: ["tests/store/runs/key_queues_test.ts"],
    filter: "as many of a limit key",
    why: "Each end of a run lets go as many as if nothing went on.",
  },
  {
    id: "wake-before-due",
    file: "src/runs/key_queues.ts",
    find: "and wakes_at <= clock_timestamp() order by wakes_at limit ${most} ${",
    replace: "and wakes_at <= clock_timestamp() + interval '1 hour' order by wakes_at limit ${most} ${",
    tests: ["tests/store/runs/key_queues_test.ts"],
    filter: "sleeps outside of dispatch",
    why: "Runs stand in the way of others long before they are due.",
  },
  {
    id: "hold-asks-for-no-check",
    file: "src/runs/key_queues.ts",
    find: '    checks as (${checksOf(sql, "held")})',
    replace: "    checks as (select 1 from held)",
    tests: ["tests/store/runs/key_queues_test.ts"],
    filter: "a hold that is carried out after",
    why: "A run that is held late stays held behind a free key, for ever.",
  },
  {
    id: "behind-bulk-though-asked-before",
    file: "src/runs/key_queues.ts",
    find: "                and (b.started_at is not null or b.created_at <= ${run}.created_at) offset 0))`;",
    replace: "                and b.started_at is not null offset 0))`;",
    tests: ["tests/store/bulks/bulk_order_test.ts"],
    filter: "not for those that come later",
    why: "A run that was asked for after a bulk of its key overtakes it.",
  },
  {
    id: "bulk-behind-forgets-older-runs",
    file: "src/runs/key_queues.ts",
    find:
      "                and o.bulk_id is null and o.created_at < b.created_at and o.due_at <= clock_timestamp() offset 0)",
    replace:
      "                and o.bulk_id is null and o.created_at > b.created_at and o.due_at <= clock_timestamp() offset 0)",
    tests: ["tests/store/bulks/bulk_order_test.ts"],
    filter: "a bulk waits for the runs",
    why: "A bulk overtakes what was asked for before it.",
  },
  {
    id: "bulk-behind-passes-a-stop",
    file: "src/runs/key_queues.ts",
    find: "    or exists (select from serial_key_pause s where s.serial_key = b.serial_key offset 0)))`;",
    replace: "    or false))`;",
    tests: ["tests/store/bulks/bulk_order_test.ts"],
    filter: "that is stopped does not begin",
    why: "A bulk begins though its serial key is stopped.",
  },
  {
    id: "paused-bulk-blocks-limit-key",
    file: "src/runs/key_queues.ts",
    find:
      "           and r.wakes_at is null and r.due_at <= clock_timestamp() and not ${behindKey(sql)} and not ${beyondBulk(sql)}",
    replace: "           and r.wakes_at is null and r.due_at <= clock_timestamp() and not ${behindKey(sql)}",
    tests: ["tests/store/bulks/bulk_test.ts"],
    filter: "a paused bulk keeps nobody else",
    why: "Runs of a paused bulk take the places of a limit key that others could have.",
  },
  {
    id: "limit-key-passes-serial-key",
    file: "src/runs/key_queues.ts",
    find:
      "           and r.wakes_at is null and r.due_at <= clock_timestamp() and not ${behindKey(sql)} and not ${beyondBulk(sql)}",
    replace: "           and r.wakes_at is null and r.due_at <= clock_timestamp() and not ${beyondBulk(sql)}",
    tests: ["tests/store/runs/key_queues_test.ts"],
    filter: "does not use up the room",
    why: "A run behind its serial key uses up the room of its limit key.",
  },
  {
    id: "forbid-ignores-orphaned",
    file: "src/runs/concurrency_policy.ts",
    find:
      "                      and o.state in ('PENDING', 'ASSIGNED', 'RUNNING', 'RETRYING', 'ORPHANED')\n                      and (o.state <> 'PENDING' or o.source <> 'bulk') and ${wasThere(sql)}",
    replace:
      "                      and o.state in ('PENDING', 'ASSIGNED', 'RUNNING', 'RETRYING')\n                      and (o.state <> 'PENDING' or o.source <> 'bulk') and ${wasThere(sql)}",
    tests: ["tests/store/runs/runs_test.ts"],
    filter: "slots of a forbid job",
    why: "A slot waits behind a lost run that will go on, though its job forbids it.",
  },
  {
    id: "forbid-before-its-time",
    file: "src/runs/concurrency_policy.ts",
    find:
      "       where r.state = 'PENDING' and r.source = 'schedule' and r.due_at <= clock_timestamp()\n         and d.concurrency_policy in",
    replace: "       where r.state = 'PENDING' and r.source = 'schedule'\n         and d.concurrency_policy in",
    tests: ["tests/store/runs/run_guards_test.ts"],
    filter: "is no overlap",
    why: "A slot with jitter is skipped for a run that will have ended by then.",
  },
  {
    id: "queue-one-is-forbid",
    file: "src/runs/concurrency_policy.ts",
    find:
      "                      and (d.concurrency_policy = 'forbid' or (o.state = 'PENDING' and o.source = 'schedule')))",
    replace: "                      )",
    tests: ["tests/store/runs/runs_test.ts"],
    filter: "of a queueOne job",
    why: "No slot of a `queueOne` job ever waits.",
  },
  {
    id: "queue-one-never-skips",
    file: "src/runs/concurrency_policy.ts",
    find: "         and d.concurrency_policy in ('forbid', 'queue_one') and r.cancel_requested_at is null",
    replace: "         and d.concurrency_policy in ('forbid') and r.cancel_requested_at is null",
    tests: ["tests/store/runs/runs_test.ts"],
    filter: "of a queueOne job",
    why: "Slots of a `queueOne` job pile up.",
  },
  {
    id: "overlap-says-nothing-is-left",
    file: "src/runs/concurrency_policy.ts",
    find: "  return { runs, more: rows.length === most, left: runs.length < rows.length };",
    replace: "  return { runs, more: rows.length === most, left: false };",
    tests: ["tests/store/postgres/row_locks_test.ts"],
    filter: "overlaps are settled",
    why: "A slot that somebody's transaction keeps is started instead of skipped.",
  },
  {
    id: "late-skip-includes-enqueued",
    file: "src/runs/states.ts",
    find:
      "              where exists (select from fence) and r.state = 'PENDING' and r.source = 'schedule' and ${late} order by r.due_at limit ${most} ${",
    replace:
      "              where exists (select from fence) and r.state = 'PENDING' and ${late} order by r.due_at limit ${most} ${",
    tests: [
      "tests/store/runs/run_guards_test.ts",
      "tests/store/bulks/backfill_test.ts",
      "tests/store/runs/runs_test.ts",
    ],
    why: "What an application enqueued is thrown away when it has to wait long.",
  },
];
