/** Each live setting: its default, its bounds or what it can be, and what it does in English. How they are read and changed: settings.ts. */

export interface NumberSetting {
  default: number;
  least: number;
  most: number;
  about: string;
}

/** Each number with its bounds; the unit is the last part of the name. */
export const NUMBER_SETTINGS = {
  leader_tick_seconds: { default: 1, least: 0.05, most: 60, about: "The leader looks for work at least this often" },
  leader_lease_seconds: {
    default: 3,
    least: 0.3,
    most: 60,
    about: "A leader that is silent this long has lost its term",
  },
  leader_failing_seconds: {
    default: 30,
    least: 1,
    most: 86_400,
    about:
      "A leader whose ticks fail one after another for this long steps down, if another worker is there; doubled each time that the same worker has to",
  },
  leader_stale_seconds: {
    default: 5,
    least: 0.5,
    most: 60,
    about:
      "A leader that is silent this long is asked to step down; and candidates ask Postgres this often, whatever Redis says",
  },
  heartbeat_interval_seconds: { default: 1, least: 0.05, most: 60, about: "How often a worker reports to Redis" },
  heartbeat_ttl_seconds: { default: 5, least: 0.5, most: 300, about: "A report older than this is gone" },
  worker_lease_seconds: {
    default: 30,
    least: 2,
    most: 600,
    about: "A worker unheard by Postgres this long is dead, and its runs go elsewhere",
  },
  worker_renew_seconds: { default: 5, least: 0.2, most: 120, about: "How often a worker renews its lease" },
  worker_margin_seconds: {
    default: 5,
    least: 4, // the guard of bodies strikes 3 s after the last word of its worker
    most: 120,
    about: "A worker stops its bodies this long before its lease ends",
  },
  reassign_after_seconds: {
    default: 10,
    least: 0.5,
    most: 3600,
    about: "An assigned run that has not started by then is given to another worker",
  },
  suspect_seconds: {
    default: 10,
    least: 0.2,
    most: 600,
    about: "A worker whose calls fail gets no work this long, doubled with each failure",
  },
  assign_ahead_seconds: {
    default: 1,
    least: 0,
    most: 5,
    about: "A run whose time is known is given to a free worker so long before, which loads its process; 0: not before",
  },
  worker_detach_grace_seconds: {
    default: 5,
    least: 0.5,
    most: 600,
    about: "A worker whose calls and heartbeat have both failed this long is detached",
  },
  continuation_retry_count: {
    default: 3,
    least: 1,
    most: 100,
    about: "So often a worker that cannot renew its lease asks leader and subleaders, before it pauses",
  },
  continuation_retry_interval_seconds: {
    default: 0.3,
    least: 0.05,
    most: 60,
    about: "The pause between two such questions",
  },
  max_jobs_per_worker: {
    default: 10,
    least: 1,
    most: 1000,
    about: "Bodies that a worker runs at once, unless SCHEDULER_SLOTS says otherwise",
  },
  spare_processes: {
    default: 4,
    least: 0,
    most: 100,
    about: "Loaded processes that a worker keeps ready for its next bodies",
  },
  skip_late_runs_after_seconds: {
    default: 3600,
    least: 0,
    most: 31_536_000,
    about: "A run of a schedule this late is SKIPPED; 0: never",
  },
  drain_grace_seconds: {
    default: 30,
    least: 0,
    most: 86_400,
    about: "A worker told to stop lets its bodies go on this long",
  },
  node_check_seconds: { default: 300, least: 0.1, most: 86_400, about: "An available node is checked this often" },
  node_retry_seconds: {
    default: 60,
    least: 0.1,
    most: 86_400,
    about: "One whose check failed is checked again so soon",
  },
  node_retry_count: { default: 3, least: 0, most: 1000, about: "So many times, and then every node_recheck_seconds" },
  node_recheck_seconds: {
    default: 30,
    least: 0.1,
    most: 86_400,
    about: "How often a node is checked that stays away, until it is back",
  },
  node_script_seconds: {
    default: 10,
    least: 0.1,
    most: 300,
    about: "A script in SCHEDULER_CHECKS_DIR that takes longer has failed",
  },
  node_max_load_percent: {
    default: 0,
    least: 0,
    most: 100_000,
    about: "A node whose load average per core is above this is busy and gets no new work; 0: never",
  },
  node_min_free_disk_mb: {
    default: 100,
    least: 0,
    most: 1_000_000_000,
    about: "A node with less room where its workers keep their state is unavailable; 0: never",
  },
  stat_interval_seconds: {
    default: 10,
    least: 0.2,
    most: 300,
    about: "How often the leader counts what ended, looks at what waits and judges alerts",
  },
  stat_minute_days: {
    default: 8,
    least: 1,
    most: 400,
    about: "Statistics by the minute and by ten are kept this long",
  },
  stat_hour_days: { default: 400, least: 8, most: 4000, about: "Statistics by the hour and alerts are kept this long" },
  log_retention_days_db: {
    default: 7,
    least: 0,
    most: 36_500,
    about:
      "Days after its end that a run's log lines stay in Postgres; then old_logs says what becomes of them; 0: for ever",
  },
  run_retention_days: {
    default: 0,
    least: 0,
    most: 36_500,
    about:
      "Days after its end that a run is kept, with its attempts and lines; bulks and events go as their runs do; the last run of each job stays; 0: for ever",
  },
  alert_overdue_seconds: {
    default: 300,
    least: 1,
    most: 604_800,
    about: "Work that may start and has been due this long is overdue",
  },
  alert_no_code_seconds: {
    default: 60,
    least: 1,
    most: 604_800,
    about: "No worker having the version of a job that was synced this long is an alert",
  },
  alert_no_leader_seconds: { default: 30, least: 1, most: 86_400, about: "Nobody leading this long is an alert" },
  alert_certificate_days: {
    default: 14,
    least: 0,
    most: 365,
    about: "A certificate that is good for fewer days is an alert",
  },
  alert_clock_skew_seconds: {
    default: 2,
    least: 0.1,
    most: 3600,
    about: "A clock that differs more from the database's is an alert",
  },
} as const satisfies Record<string, NumberSetting>;

export const DISPATCH = ["running", "paused"] as const;
export const OLD_LOGS = ["archive", "delete"] as const;
export const LEADER_RUNS_JOBS = ["never", "alone", "always"] as const;

export interface Choice {
  choices: readonly string[];
  about: string;
}

/** Settings that are one of some words. */
export const CHOICES = {
  leader_runs_jobs: {
    choices: LEADER_RUNS_JOBS,
    about:
      "Whether the leader runs bodies itself: never, alone (only runs that no other worker will ever take: it is the only one, or the only one of the node they ask for or with their code), or always",
  },
  dispatch: { choices: DISPATCH, about: "paused: no waiting run is given to a worker, whatever its job" },
  old_logs: {
    choices: OLD_LOGS,
    about:
      "Log lines after log_retention_days_db: archive moves them to SCHEDULER_ARCHIVE, without which they stay; delete deletes them for good",
  },
} satisfies Record<string, Choice>;
