/** All planted mistakes, by theme. A new theme is a file beside this one, named here. */
import type { Mistake } from "./mistake.ts";
import { RUN_LINES_MISTAKES } from "./run_lines.ts";
import { RUN_MISTAKES } from "./runs.ts";
import { SCHEDULE_MISTAKES } from "./schedules.ts";

export const MISTAKES: Mistake[] = [...RUN_MISTAKES, ...RUN_LINES_MISTAKES, ...SCHEDULE_MISTAKES];
