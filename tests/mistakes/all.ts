/** All planted mistakes, by theme. A new theme is a file beside this one, named here. */
import { BULK_MISTAKES } from "./bulks.ts";
import { EVENT_MISTAKES } from "./events.ts";
import { LEASE_MISTAKES } from "./leases.ts";
import { LINES_MISTAKES } from "./lines.ts";
import { RUN_LINES_MISTAKES } from "./run_lines.ts";
import { RUN_MISTAKES } from "./runs.ts";
import { SCHEDULE_MISTAKES } from "./schedules.ts";
import type { Mistake } from "./mistake.ts";

export const MISTAKES: Mistake[] = [
  ...BULK_MISTAKES,
  ...EVENT_MISTAKES,
  ...LEASE_MISTAKES,
  ...LINES_MISTAKES,
  ...RUN_LINES_MISTAKES,
  ...RUN_MISTAKES,
  ...SCHEDULE_MISTAKES,
];
