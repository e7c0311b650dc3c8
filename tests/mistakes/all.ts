/** All planted mistakes, by theme. A new theme is a file beside this one, named here. */
import type { Mistake } from "./mistake.ts";
import { SCHEDULE_MISTAKES } from "./schedules.ts";

export const MISTAKES: Mistake[] = [...SCHEDULE_MISTAKES];
