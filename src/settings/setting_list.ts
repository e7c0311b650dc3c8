/** The live settings: default, bounds or choices, and an English description. settings.ts reads and changes them. */

export interface NumberSetting {
  default: number;
  least: number;
  most: number;
  about: string;
}

/** Each number with its bounds; the unit is the last part of the name. */
export const NUMBER_SETTINGS = {
  leader_tick_seconds: { default: 1, least: 0.05, most: 60, about: "Longest pause between two ticks of the leader" },
  leader_lease_seconds: {
    default: 3,
    least: 0.3,
    most: 60,
    about: "The leader loses its term after this long without renewing it",
  },
  leader_failing_seconds: {
    default: 30,
    least: 1,
    most: 86_400,
    about:
      "The leader steps down after its ticks have failed for this long, if another worker is up. The time doubles whenever the same worker steps down again",
  },
  leader_stale_seconds: {
    default: 5,
    least: 0.5,
    most: 60,
    about:
      "A leader is asked to step down after this long without a sign of life. Candidates also ask Postgres at this interval, whatever Redis says",
  },
  heartbeat_interval_seconds: {
    default: 1,
    least: 0.05,
    most: 60,
    about: "Interval of a worker's heartbeats in Redis",
  },
  heartbeat_ttl_seconds: { default: 5, least: 0.5, most: 300, about: "A heartbeat expires after this time" },
  worker_lease_seconds: {
    default: 30,
    least: 2,
    most: 600,
    about:
      "A worker that has not renewed its lease in Postgres for this long is declared dead, and its runs are reassigned",
  },
  worker_renew_seconds: { default: 5, least: 0.2, most: 120, about: "Interval at which a worker renews its lease" },
  worker_margin_seconds: {
    default: 5,
    least: 4, // the watchdog kills bodies 3 s after the last message of their worker
    most: 120,
    about: "A worker stops its bodies this long before its lease ends",
  },
  reassign_after_seconds: {
    default: 10,
    least: 0.5,
    most: 3600,
    about: "An assigned run that has not started within this time is given to another worker",
  },
  suspect_seconds: {
    default: 10,
    least: 0.2,
    most: 600,
    about: "A worker whose calls fail gets no work for this long. The time doubles with each failure",
  },
  assign_ahead_seconds: {
    default: 1,
    least: 0,
    most: 5,
    about:
      "A run with a known time is assigned to a free worker this long before, so that its process is loaded in time. 0: never early",
  },
  worker_detach_grace_seconds: {
    default: 5,
    least: 0.5,
    most: 600,
    about: "A worker is detached after both its calls and its heartbeat have failed for this long",
  },
  continuation_retry_count: {
    default: 3,
    least: 1,
    most: 100,
    about: "Attempts to get the lease confirmed by the leader or a subleader before the worker pauses",
  },
  continuation_retry_interval_seconds: {
    default: 0.3,
    least: 0.05,
    most: 60,
    about: "Pause between two of these attempts",
  },
  max_jobs_per_worker: {
    default: 10,
    least: 1,
    most: 1000,
    about: "Bodies that a worker runs at once, unless SCHEDULER_SLOTS is set",
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
    about: "A scheduled run that is this late is SKIPPED. 0: never",
  },
  drain_grace_seconds: {
    default: 30,
    least: 0,
    most: 86_400,
    about: "Time that a stopping worker gives its bodies to finish",
  },
  node_check_seconds: { default: 300, least: 0.1, most: 86_400, about: "Interval between checks of an available node" },
  node_retry_seconds: {
    default: 60,
    least: 0.1,
    most: 86_400,
    about: "Time until a failed node check is repeated",
  },
  node_retry_count: {
    default: 3,
    least: 0,
    most: 1000,
    about: "Repetitions of a failed node check before node_recheck_seconds applies",
  },
  node_recheck_seconds: {
    default: 30,
    least: 0.1,
    most: 86_400,
    about: "Interval between checks of a node that stays unavailable, until a check succeeds",
  },
  node_script_seconds: {
    default: 10,
    least: 0.1,
    most: 300,
    about: "Timeout of each script in SCHEDULER_CHECKS_DIR",
  },
  node_max_load_percent: {
    default: 0,
    least: 0,
    most: 100_000,
    about: "A node whose load average per core is above this is busy and gets no new work. 0: no limit",
  },
  node_min_free_disk_mb: {
    default: 100,
    least: 0,
    most: 1_000_000_000,
    about: "A node with less free disk space for the state of its workers is unavailable. 0: no limit",
  },
  stat_interval_seconds: {
    default: 10,
    least: 0.2,
    most: 300,
    about: "Interval at which the leader updates the statistics and evaluates alerts",
  },
  stat_minute_days: {
    default: 8,
    least: 1,
    most: 400,
    about: "Retention of statistics per minute and per ten minutes",
  },
  stat_hour_days: { default: 400, least: 8, most: 4000, about: "Retention of statistics per hour and of alerts" },
  log_retention_days_db: {
    default: 7,
    least: 0,
    most: 36_500,
    about: "Days that a run's log lines stay in Postgres after its end. Then old_logs applies. 0: for ever",
  },
  run_retention_days: {
    default: 0,
    least: 0,
    most: 36_500,
    about:
      "Days that a run, its attempts and its log lines are kept after its end. Bulks and events go with their runs. The last run of each job stays. 0: for ever",
  },
  alert_overdue_seconds: {
    default: 300,
    least: 1,
    most: 604_800,
    about: "Alert when work that may start has been due for this long",
  },
  alert_no_code_seconds: {
    default: 60,
    least: 1,
    most: 604_800,
    about: "Alert when no worker has had the synced version of a job for this long",
  },
  alert_no_leader_seconds: {
    default: 30,
    least: 1,
    most: 86_400,
    about: "Alert when there has been no leader for this long",
  },
  alert_certificate_days: {
    default: 14,
    least: 0,
    most: 365,
    about: "Alert when a certificate expires within this many days",
  },
  alert_clock_skew_seconds: {
    default: 2,
    least: 0.1,
    most: 3600,
    about: "Alert when a clock differs from the database's by more than this",
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
      "Whether the leader runs bodies itself. never: no. alone: only runs that no other worker can take, because the leader is the only worker, the only one on the requested node, or the only one with the code. always: yes",
  },
  dispatch: { choices: DISPATCH, about: "paused: no waiting run of any job is given to a worker" },
  old_logs: {
    choices: OLD_LOGS,
    about:
      "What happens to log lines after log_retention_days_db. archive: they move to SCHEDULER_ARCHIVE, or stay if it is not set. delete: they are deleted for good",
  },
} satisfies Record<string, Choice>;
