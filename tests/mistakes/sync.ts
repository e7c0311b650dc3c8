/** Mistakes about syncing job files: the plan, what operators have set, permissions, and removed files. */
import type { Mistake } from "./mistake.ts";

export const SYNC_MISTAKES: Mistake[] = [
  {
    id: "plan-hides-gained-permissions",
    file: "src/sync/plan.ts",
    find: "    !had.has(`${permission} ${what}`) && !had.has(`${permission} *`)",
    replace: "    had.has(`${permission} ${what}`) && !had.has(`${permission} *`)",
    tests: ["tests/process/sync/sync_test.ts"],
    why: "A job gains the network without a word in the plan.",
  },
  {
    id: "plan-returned-job-gains-nothing",
    file: "src/sync/plan.ts",
    find:
      "    permissions_gained: permissionsGained(old?.removed_at ? {} : old?.permissions ?? {}, definition.permissions),",
    replace: "    permissions_gained: permissionsGained(old?.permissions ?? {}, definition.permissions),",
    tests: ["tests/process/sync/sync_changes_test.ts"],
    filter: "file is gone",
    why: "A job that comes back has its old permissions without a word.",
  },
  {
    id: "schedule-times-ignore-zone",
    file: "src/sync/plan.ts",
    find:
      'const TIMES = ["schedule_type", "schedule_value", "timezone", "dst_gap", "dst_overlap", "exclude"] as const;',
    replace: 'const TIMES = ["schedule_type", "schedule_value", "dst_gap", "dst_overlap", "exclude"] as const;',
    tests: ["tests/process/sync/sync_changes_test.ts"],
    filter: "a file that changes",
    why: "A schedule keeps its old zone after a sync.",
  },
  {
    id: "sync-switches-on-what-was-off",
    file: "src/definitions/definition_rows.ts",
    find:
      "      enabled = case when d.removed_at is null then d.enabled else excluded.enabled end, removed_at = null, synced_at = clock_timestamp()`;",
    replace: "      enabled = excluded.enabled, removed_at = null, synced_at = clock_timestamp()`;",
    tests: ["tests/process/sync/sync_test.ts"],
    filter: "stays off through a sync",
    why: "A job that an operator switched off starts again with the next deploy.",
  },
  {
    id: "sync-removed-job-keeps-its-schedules",
    file: "src/definitions/definition_rows.ts",
    find: "    update job_schedule s set enabled = false from gone where s.job_definition_id = gone.id`;",
    replace:
      "    update job_schedule s set enabled = false from gone where s.job_definition_id = gone.id and s.id < 0`;",
    tests: ["tests/process/sync/sync_test.ts"],
    filter: "a removed file disables",
    why: "Slots of a removed job are planned on.",
  },
  {
    id: "sync-loses-the-digest",
    file: "src/definitions/definition_rows.ts",
    find:
      "      permissions = excluded.permissions, isolation_reuse = excluded.isolation_reuse, digest = excluded.digest,",
    replace: "      permissions = excluded.permissions, isolation_reuse = excluded.isolation_reuse,",
    tests: ["tests/process/sync/sync_changes_test.ts"],
    filter: "a file that changes",
    why: "A changed file is never run: all workers have other code than is stored.",
  },
  {
    id: "sync-keeps-old-permissions",
    file: "src/definitions/definition_rows.ts",
    find:
      "      permissions = excluded.permissions, isolation_reuse = excluded.isolation_reuse, digest = excluded.digest,",
    replace: "      isolation_reuse = excluded.isolation_reuse, digest = excluded.digest,",
    tests: ["tests/process/sync/sync_changes_test.ts"],
    filter: "a file that changes",
    why: "A permission that was taken from a file is still granted.",
  },
  {
    id: "override-of-a-removed-job",
    file: "src/sync/overrides.ts",
    find: "        if (definition.removed_at) return { ok: false, complaints: [FILE_REMOVED] };",
    replace: "",
    tests: ["tests/process/sync/sync_changes_test.ts"],
    filter: "file is gone",
    why: "An option of a job that is gone is said to be set.",
  },
  {
    id: "override-same-value-is-audited",
    file: "src/sync/overrides.ts",
    find: "    if (old && sameJson(old.value, value)) return [];",
    replace: "",
    tests: ["tests/process/cli/overrides_test.ts"],
    why: "The audit is full of changes that changed nothing.",
  },
  {
    id: "plan-forgets-removed-files",
    file: "src/sync/plan.ts",
    find: "    if (old.removed_at || kept.has(old.name)) continue;",
    replace: "    if (!old.removed_at || kept.has(old.name)) continue;",
    tests: ["tests/process/sync/sync_test.ts"],
    filter: "a removed file disables",
    why: "A job whose file was removed goes on.",
  },
  {
    id: "schedule-moves-though-its-times-are-the-same",
    file: "src/sync/plan.ts",
    find: "  const last_slot = goes_on ? was.last_slot : on.now;",
    replace: "  const last_slot = on.now;",
    tests: ["tests/process/sync/sync_changes_test.ts"],
    filter: "a file that changes",
    why: "Another days-off list makes a schedule forget the slots that it missed.",
  },
];
