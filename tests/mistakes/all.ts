/** All planted mistakes, by theme. A new theme is a file beside this one, named here. */
import { ACT_MISTAKES } from "./acts.ts";
import { ACCESS_MISTAKES } from "./access.ts";
import { ALERTS_MISTAKES } from "./alerts.ts";
import { BODY_MISTAKES } from "./bodies.ts";
import { NEW_RUN_MISTAKES } from "./births.ts";
import { BULK_MISTAKES } from "./bulks.ts";
import { CLIENT_MISTAKES } from "./client.ts";
import { CODE_MISTAKES } from "./code.ts";
import { DISPATCH_MISTAKES } from "./dispatch.ts";
import { EVENT_MISTAKES } from "./events.ts";
import { LEASE_MISTAKES } from "./leases.ts";
import { LINES_MISTAKES } from "./lines.ts";
import { LOOKING_MISTAKES } from "./looking.ts";
import { REPLAY_MISTAKES } from "./replay.ts";
import { RETENTION_MISTAKES } from "./retention.ts";
import { RUN_LINES_MISTAKES } from "./run_lines.ts";
import { RUN_ROWS_MISTAKES } from "./run_rows.ts";
import { RUN_MISTAKES } from "./runs.ts";
import { SANDBOX_MISTAKES } from "./sandbox.ts";
import { SCHEDULE_MISTAKES } from "./schedules.ts";
import { STEP_MISTAKES } from "./steps.ts";
import { STEP_WORKER_MISTAKES } from "./step_workers.ts";
import { SUSPENDED_MISTAKES } from "./suspended.ts";
import { SYNC_MISTAKES } from "./sync.ts";
import type { Mistake } from "./mistake.ts";

export const MISTAKES: Mistake[] = [
  ...ACCESS_MISTAKES,
  ...ACT_MISTAKES,
  ...ALERTS_MISTAKES,
  ...BODY_MISTAKES,
  ...NEW_RUN_MISTAKES,
  ...BULK_MISTAKES,
  ...CLIENT_MISTAKES,
  ...CODE_MISTAKES,
  ...DISPATCH_MISTAKES,
  ...EVENT_MISTAKES,
  ...LEASE_MISTAKES,
  ...LINES_MISTAKES,
  ...LOOKING_MISTAKES,
  ...REPLAY_MISTAKES,
  ...RETENTION_MISTAKES,
  ...RUN_LINES_MISTAKES,
  ...RUN_ROWS_MISTAKES,
  ...RUN_MISTAKES,
  ...SANDBOX_MISTAKES,
  ...SCHEDULE_MISTAKES,
  ...STEP_MISTAKES,
  ...STEP_WORKER_MISTAKES,
  ...SUSPENDED_MISTAKES,
  ...SYNC_MISTAKES,
];
