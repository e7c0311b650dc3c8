/** What is wrong with a job file: where, why, and what to do about it. Every refusal of a sync is one of these. */
import type { Complaint } from "../job_options/complaint.ts";

export interface SyncProblem {
  /** Relative to the jobs folder; undefined: it is about no single file. */
  file?: string;
  /** From 1. */
  line?: number;
  column?: number;
  reason: string;
  fix: string;
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
