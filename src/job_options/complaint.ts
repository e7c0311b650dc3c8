/** What is wrong with an option, as people are told it: it names the option, what stands there, and what to write instead. */
import type { Shortage } from "../dispatch/feasibility.ts";
import type { ValueMistake } from "../schedule_kinds/kind.ts";
import type { DaysMistake } from "../schedules/exclusion.ts";

/** A complaint about one option, before it is known where in the file that stands. */
export interface Complaint {
  /** The option, e.g. "retry.max" or "schedule[0].cron". */
  key: string;
  /** What stands there now, if anything. */
  value?: unknown;
  reason: string;
  fix: string;
  /** The same for whoever says it in other words. Without it: only a job file can be wrong in this way, and no operator. */
  says?: Says;
}

export type Says =
  | Shortage["says"]
  | ValueMistake
  | { code: "choice"; words: readonly string[] }
  | { code: "text"; most: number }
  | { code: "zone"; like: string | undefined }
  | { code: "never" }
  | { code: "no_value" }
  | { code: "truth" }
  | { code: "object" }
  | { code: "unknown"; words: readonly string[] }
  | { code: "missing" }
  | { code: "priority" }
  | { code: "braces" }
  | { code: "rate" }
  | { code: "one_kind"; words: readonly string[] }
  /** `most`: in seconds, 0 for none at all. */
  | { code: "jitter"; most: number }
  | { code: "days"; wrong: DaysMistake }
  | { code: "no_schedule"; ids: readonly string[] }
  | { code: "not_set" }
  | { code: "file_removed" };

/** What is wrong and what to do, on one line. */
export function complaintLine({ reason, fix }: Complaint): string {
  return `${reason}; ${fix}`;
}

/** What is wrong with a value, without the name of its option. */
export interface Wrong {
  reason: string;
  fix: string;
  says?: Says;
  /** What of the value is meant, where it is a part of it. */
  value?: unknown;
}

/** What a check of ours leaves in `params` of an issue. `punctuation`: what stands between the option's name and the reason. */
export interface WrongParams extends Wrong {
  punctuation?: string;
  [key: string]: unknown;
}
