/** What is wrong with a job file: where, why, and what to do about it. Every refusal of a sync is one of these. */
import type { ValueMistake } from "../schedule_kinds/kind.ts";
import type { DaysMistake } from "../schedules/exclusion.ts";
import type { Shortage } from "../dispatch/feasibility.ts";

export interface SyncProblem {
  /** Relative to the jobs folder; undefined: it is about no single file. */
  file?: string;
  /** From 1. */
  line?: number;
  column?: number;
  reason: string;
  fix: string;
}

/** A complaint about one field of what a file declares, before it is known where in the file that stands. */
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

/** What is wrong, and what to do, on one line. */
export function complaintLine({ reason, fix }: Complaint): string {
  return `${reason}; ${fix}`;
}

/** "jobs/billing/export.ts:12:3: why" and below it what to do; `folder` is what the file's name is below. */
export function problemText(problem: SyncProblem, folder?: string): string {
  const file = problem.file !== undefined && folder ? `${folder.replace(/\/$/, "")}/${problem.file}` : problem.file;
  const place = [file, problem.line, problem.column].filter((part) => part !== undefined).join(":");
  return `${place ? `${place}: ` : ""}${problem.reason}\n  fix: ${problem.fix}`;
}

/**
 * Where an option most likely stands in a source text. The text is not parsed: this is the first place where the key is
 * written as a property, or where a value that is written only once stands. A hint for a person, never for a program.
 */
export function placeOf(source: string, complaint: Pick<Complaint, "key" | "value">): { line: number } | undefined {
  const name = complaint.key.split(".").pop()?.replace(/\[\d+\]$/, "") ?? "";
  const value = typeof complaint.value === "string" && complaint.value !== "" ? JSON.stringify(complaint.value) : "";
  const quoted = value && source.split(value).length === 2 ? source.indexOf(value) : -1;
  const at = quoted >= 0 ? quoted : source.search(new RegExp(`(?<![\\w$])["']?${escaped(name)}["']?\\s*:`));
  return name === "" || at < 0 ? undefined : { line: source.slice(0, at).split("\n").length };
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
