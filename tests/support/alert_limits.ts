/** Limits of alerts for tests: a minute for all that is a time. */
import type { Limits } from "../../src/alerts/alerts.ts";

export const LIMITS: Limits = {
  overdue_seconds: 60,
  no_code_seconds: 60,
  leader_runs: true,
  no_leader_seconds: 60,
  certificate_days: 14,
  clock_skew_seconds: 2.2,
};
