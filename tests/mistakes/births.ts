/** Mistakes about how runs come to be, and about what people ask of many of them at once. */
import type { Mistake } from "./mistake.ts";

const NEW_RUNS = "src/runs/create_runs.ts";
const REQUESTS = "src/runs/requests.ts";
const TESTS = ["tests/store/runs/create_runs_test.ts"];

export const NEW_RUN_MISTAKES: Mistake[] = [
  {
    id: "later-run-never-wakes",
    file: NEW_RUNS,
    find: "case when early then due_at end, ${event_key}",
    replace: "null::timestamptz, ${event_key}",
    tests: TESTS,
    filter: "sleeps until it is",
    why: "A run that is asked for later is held for ever.",
  },
  {
    id: "later-run-is-not-held",
    file: NEW_RUNS,
    find: "(early or behind) and not ${skipped},\n             case when early then due_at end",
    replace: "behind and not ${skipped},\n             null::timestamptz",
    tests: TESTS,
    filter: "sleeps until it is",
    why: "A million runs for next month are read by each tick.",
  },
  {
    id: "own-key-leaves-the-jobs-line",
    file: NEW_RUNS,
    find:
      "case when d.concurrency_policy <> 'allow' then 'job:' || d.name\n                  else coalesce(ask.own_serial_key, fill_template(d.serial_key, ask.args)) end as serial_key",
    replace:
      "coalesce(ask.own_serial_key, case when d.concurrency_policy <> 'allow' then 'job:' || d.name else fill_template(d.serial_key, ask.args) end) as serial_key",
    tests: TESTS,
    filter: "exclude each other",
    why: "A run of a job that forbids two at once runs beside another, since whoever enqueued it gave it a key.",
  },
  {
    id: "replace-has-no-line",
    file: NEW_RUNS,
    find: "case when d.concurrency_policy <> 'allow' then 'job:' || d.name\n",
    replace: "case when d.concurrency_policy = 'forbid' then 'job:' || d.name\n",
    tests: TESTS,
    filter: "exclude each other",
    why: "A slot runs beside the run that it should replace.",
  },
  {
    id: "removed-job-takes-runs",
    file: NEW_RUNS,
    find: "left join job_definition d on d.name = a.job_name and d.removed_at is null)",
    replace: "left join job_definition d on d.name = a.job_name)",
    tests: TESTS,
    filter: "whose file is gone",
    why: "Runs are accepted of a job that no worker can run, and wait for ever.",
  },
  {
    id: "slot-of-a-disabled-schedule",
    file: NEW_RUNS,
    find: "where s.id = plan.job_schedule_id and s.enabled and s.paused_at is null",
    replace: "where s.id = plan.job_schedule_id and s.paused_at is null",
    tests: TESTS,
    filter: "turned off or paused",
    why: "A schedule that was turned off has one more run.",
  },
  {
    id: "slot-of-a-paused-schedule",
    file: NEW_RUNS,
    find: "where s.id = plan.job_schedule_id and s.enabled and s.paused_at is null",
    replace: "where s.id = plan.job_schedule_id and s.enabled",
    tests: TESTS,
    filter: "turned off or paused",
    why: "A schedule that was paused has one more run, and its place moves.",
  },
  {
    id: "slot-of-a-disabled-job",
    file: NEW_RUNS,
    find: "join job_definition d on d.id = a.job_definition_id and d.enabled, fence)",
    replace: "join job_definition d on d.id = a.job_definition_id, fence)",
    tests: TESTS,
    filter: "turned off or paused",
    why: "A job whose file was removed has one more run.",
  },
  {
    id: "paused-job-is-looked-at",
    file: "src/dispatch/pending_work.ts",
    find: "join job_definition d on d.id = s.job_definition_id and d.paused_at is null\n",
    replace: "join job_definition d on d.id = s.job_definition_id\n",
    tests: TESTS,
    filter: "turned off or paused",
    why: "While a job is paused each tick plans its slots in vain.",
  },
  {
    id: "live-run-is-run-again",
    file: NEW_RUNS,
    find: "where d.removed_at is null and r.finished_at is not null and ${matches(sql, filter)}",
    replace: "where d.removed_at is null and ${matches(sql, filter)}",
    tests: TESTS,
    filter: "only what has ended",
    why: "A retry of many also doubles those that still run.",
  },
  {
    id: "ended-run-is-asked-to-end",
    file: REQUESTS,
    find:
      "where r.cancel_requested_at is null and ${inStates(sql, NOT_ENDED, sql`r.state`)}\n         and ${matches(sql, filter)}",
    replace: "where r.cancel_requested_at is null\n         and ${matches(sql, filter)}",
    tests: TESTS,
    filter: "only what has ended",
    why: "A cancel by a filter marks what has ended long ago, and the audit says so.",
  },
  {
    id: "workers-are-told-of-what-they-do-not-run",
    file: REQUESTS,
    find: "and ${inStates(sql, NOT_ENDED)} and state = 'RUNNING'`",
    replace: "and ${inStates(sql, NOT_ENDED)}`",
    tests: TESTS,
    filter: "only what has ended",
    why: "The leader calls workers for runs that have no body, and nobody for those without a worker.",
  },
  {
    id: "burial-asks-for-no-check",
    file: "src/nodes/workers.ts",
    find:
      "from fence where w.state <> 'DEAD' and w.lease_until < clock_timestamp() returning w.worker_id, w.node_id),\n    ${nodeChecks(sql)}",
    replace:
      "from fence where w.state <> 'DEAD' and w.lease_until < clock_timestamp() returning w.worker_id, w.node_id)",
    tests: ["tests/store/cluster/worker_death_test.ts"],
    filter: "not a second sooner",
    why: "A node all of whose workers are DEAD is shown as available until its next check.",
  },
];
