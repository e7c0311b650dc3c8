/**
 * What came of a body: the pure rules that turn what was said and seen into one closed outcome, with words that tell
 * its owner what to do. Decided in this order:
 *
 *   1. we ended it before it gave a verdict: TIMED_OUT, CANCELED, FAILED "OutputLimit" or LOST, by why we did
 *   2. its first verdict: SUCCEEDED, or FAILED with the error's name
 *   3. it ended without one: LOST when its guard may have struck, else FAILED "OutOfMemory", "Killed", "Exited",
 *      "StartFailed" or "Crashed"
 */
import { notInstalledText } from "../platform/not_installed.ts";
import { toFileUrl } from "../platform/paths.ts";
import type { Json, Permissions } from "../job.ts";
import type { BodyError, FromBody } from "./frames.ts";
import { FLOOD_BYTES } from "./output.ts";
import { lineThatGrants } from "./permissions.ts";
import type { ChildEnd } from "./process.ts";
import { shortageOf } from "./resource_shortage.ts";
import { MayRunNothing } from "./watchdog.ts";
import { type Message, message, stored } from "../locale/message.ts";

export type Outcome =
  /** `again`: a new run with these args goes on. */
  | { kind: "SUCCEEDED"; result: Json; exit_code: number; again?: { args: Json } }
  | {
    kind: "FAILED";
    error_name: string;
    error_summary: string;
    exit_code: number | null;
    retry: "policy" | "never" | { after_seconds: number };
  }
  /** `error_summary` says which of signal, TERM and KILL ended it. */
  | { kind: "TIMED_OUT"; error_summary: string; exit_code: number | null }
  | { kind: "CANCELED"; error_summary: string; exit_code: number | null }
  /** Its run waits in Postgres for what it asked for: no end of the run. */
  | { kind: "SUSPENDED"; exit_code: null }
  /**
   * Ended by us or our guard for reasons that are not the body's: to be given back. `unbegun`: the worker may run nothing, or its
   * machine lacks what a process needs. `lack`: that, in the system's words.
   */
  | { kind: "LOST"; error_summary: string; exit_code: number | null; unbegun?: boolean; lack?: string };

export type BodyVerdict = Extract<FromBody, { kind: "result" | "error" }>;

/** Why and how far we went to end a body. */
export interface EndedByUs {
  cause: "timeout" | "cancel" | "flood" | "abandon" | "refused";
  reason: string;
  /** Of one that is refused: what its run fails with. */
  error_name?: string;
  step: "signal" | "TERM" | "KILL";
}

export interface BodyHistory {
  ended_by_us: EndedByUs | undefined;
  verdict: BodyVerdict | undefined;
  /** The code of a call of Deno.exit, when it was seen. */
  exiting: number | undefined;
  /** `run` was called. */
  started: boolean;
  /** The guard of bodies may have struck while it ran. */
  lapsed: boolean;
  end: ChildEnd;
}

export interface OutcomeSubject {
  job_name: string;
  timeout_ms: number;
  memory_mb: number;
  permissions: Permissions;
  project_dir: string;
}

const MOST_SUMMARY_CHARS = 8_000;
const MOST_FRAMES = 12;
/** What Deno prints when the event loop runs dry below a top-level await; it fires no event then. */
export const NEVER_RESOLVED = /Top-level await promise never resolved/;
const OWN_CODE = new URL("./", import.meta.url).href;

export function outcomeOf(story: BodyHistory, subject: OutcomeSubject): Outcome {
  const { code } = story.end;
  if (story.end.unguarded) {
    return notStarted(story.end.unguarded);
  }
  if (story.ended_by_us) return endedByUs(story.ended_by_us, story, subject);
  if (story.verdict) return verdictOutcome(story.verdict, { ...subject, exit_code: code });
  if (story.lapsed && story.end.signal === "SIGKILL") {
    return { kind: "LOST", error_summary: stored("runs.end.guarded"), exit_code: null };
  }
  return { kind: "FAILED", exit_code: code, retry: "policy", ...endWithoutVerdict(story, subject) };
}

/** Nothing of the job was run. When that was for want of the right to, or of room, the job can have had no part in it. */
export function notStarted(why: Error): Outcome {
  const lack = shortageOf(why);
  const unbegun = why instanceof MayRunNothing || lack !== undefined;
  return {
    kind: "LOST",
    error_summary: stored("runs.end.not_started", { why: why.message }),
    exit_code: null,
    unbegun,
    ...lack === undefined ? {} : { lack },
  };
}

export function succeeded({ result, again }: Extract<BodyVerdict, { kind: "result" }>, exit_code: number): Outcome {
  return { kind: "SUCCEEDED", result, exit_code, ...again && { again } };
}

/** The outcome of a verdict; `exit_code` is null when the process was killed after it. */
export function verdictOutcome(verdict: BodyVerdict, subject: OutcomeSubject & { exit_code: number | null }): Outcome {
  if (verdict.kind === "result") return succeeded(verdict, subject.exit_code ?? 0);
  const error = named(verdict.error);
  const denied = error.denied !== undefined;
  return {
    kind: "FAILED",
    error_name: error.name,
    error_summary: summaryOf(error, subject),
    exit_code: subject.exit_code,
    retry: denied ? "never" : error.retry,
  };
}

/** Deno's words for a package that is not there also say how it would be asked for at each start, which is not for a worker. */
function named(error: BodyError): BodyError {
  const missing = notInstalledText(error.message);
  return missing === undefined ? error : { ...error, name: "NotInstalled", message: missing };
}

function endedByUs(by: EndedByUs, story: BodyHistory, subject: OutcomeSubject): Outcome {
  const { code, left_others } = story.end;
  const how = story.started ? howEnded(by, story, left_others) : message("runs.how.before_run");
  switch (by.cause) {
    case "timeout":
      return {
        kind: "TIMED_OUT",
        error_summary: stored("runs.end.timed_out", { seconds: subject.timeout_ms / 1000, how }),
        exit_code: code,
      };
    case "cancel":
      return {
        kind: "CANCELED",
        error_summary: stored("runs.end.canceled_body", { reason: by.reason, how }),
        exit_code: code,
      };
    case "flood": {
      const mib = FLOOD_BYTES / 1024 / 1024;
      const error_summary = stored("runs.end.flood", { mib });
      return { kind: "FAILED", error_name: "OutputLimit", error_summary, exit_code: code, retry: "policy" };
    }
    case "refused":
      return {
        kind: "FAILED",
        error_name: by.error_name ?? "Refused",
        error_summary: by.reason,
        exit_code: code,
        retry: "never",
      };
    case "abandon":
      return { kind: "LOST", error_summary: stored("runs.end.abandoned", { cause: by.reason }), exit_code: code };
  }
}

function howEnded(by: EndedByUs, story: BodyHistory, left_others: boolean): Message {
  if (left_others && by.step !== "KILL") return message("runs.how.with_others", { step: by.step });
  if (by.step === "signal") {
    return message("runs.how.itself", { threw: story.verdict?.kind === "error" });
  }
  return message("runs.how.by", { step: by.step });
}

function endWithoutVerdict(story: BodyHistory, subject: OutcomeSubject): { error_name: string; error_summary: string } {
  const { code, signal, last_words, was_ready } = story.end;
  const words = tidy(last_words.trim().split("\n").slice(-8).join("\n"), subject.project_dir).slice(-2_000);
  if (/out of memory|memory allocation of \d+ bytes failed|Failed to reserve virtual memory/i.test(last_words)) {
    return {
      error_name: "OutOfMemory",
      error_summary: stored("runs.end.out_of_memory", { mib: subject.memory_mb }),
    };
  }
  if (NEVER_RESOLVED.test(last_words)) {
    return { error_name: "NeverSettled", error_summary: stored("runs.end.never_settled", { words }) };
  }
  if (signal) {
    const error_summary = stored("runs.end.killed", { signal, maybe_memory: signal === "SIGKILL" });
    return { error_name: "Killed", error_summary };
  }
  if (story.exiting !== undefined) {
    const error_summary = stored("runs.end.exited", { exit_code: story.exiting, in_run: was_ready });
    return { error_name: "Exited", error_summary };
  }
  return {
    error_name: was_ready ? "Crashed" : "StartFailed",
    error_summary: stored("runs.end.crashed", { exit_code: code ?? "?", loaded: was_ready, words }),
  };
}

function summaryOf(error: BodyError, subject: OutcomeSubject): string {
  const where =
    { load: "Loading the job file failed: ", uncaught: "Uncaught outside of run(): " }[error.phase as "load"] ?? "";
  const parts = [
    `${where}${error.name}: ${error.message}`,
    framesOf(error.stack),
    ...error.causes.map((cause) => {
      const [first = "", ...rest] = cause.split("\n");
      return `Caused by ${[first, framesOf(rest.join("\n"), 3)].filter(Boolean).join("\n")}`;
    }),
  ];
  const hint = error.denied && hintFor(error.denied, subject);
  const text = tidy(parts.filter(Boolean).join("\n"), subject.project_dir).slice(0, MOST_SUMMARY_CHARS);
  return hint ? `${text}\n${hint}` : text;
}

function hintFor(denied: string, subject: OutcomeSubject): string | undefined {
  if (denied.includes("<TMP>")) return "Use the body's own folder instead: Deno.makeTempFile({ dir: tempDir })";
  const line = lineThatGrants(denied, subject.permissions, subject.project_dir);
  return line && `To allow it, write in the job file:\n${line}`;
}

/** The frames of the user's own code, nearest first. */
function framesOf(stack: string, most = MOST_FRAMES): string {
  return stack.split("\n")
    .filter((line) =>
      /^\s+at /.test(line) && !line.includes(OWN_CODE) && !/<anonymous>|\b(?:ext|node|data):/.test(line)
    )
    .slice(0, most).join("\n");
}

/** Paths as the project knows them, without those of the machine. */
export function tidy(text: string, project_dir: string): string {
  const folder = project_dir.replace(/\/+$/, "");
  const known = [...urlsOf(folder), folder].reduce((shorter, prefix) => shorter.replaceAll(`${prefix}/`, ""), text);
  return known.replaceAll("file:///", "/");
}

/** How a path appears in stacks: encoded, as it is in URLs, or not. */
export function urlsOf(path: string): string[] {
  return [toFileUrl(path).href, `file://${path}`];
}
