/** What a worker asks of its sandbox: the order for one body, what it hears of it meanwhile, and the body that it gets. */
import type { Permissions } from "../job.ts";
import type { ToBody } from "./frames.ts";
import type { FromStepBody, StepOrder, ToStepBody } from "./frames/step_frames.ts";
import type { Outcome } from "./outcome.ts";
import type { LogLine } from "./output.ts";

/** What the worker wants run. */
export interface BodyOrder {
  job_run_id: number;
  attempt: number;
  fence: number;
  job_name: string;
  /** Absolute path. */
  job_file: string;
  /** Of the file's module graph: a process that was loaded ahead for another digest is never used. */
  digest: string;
  args: unknown;
  scheduled_for: string;
  permissions: Permissions;
  timeout_ms: number;
  kill_grace_ms: number;
  memory_mb: number;
  /** How many runs one process may serve, one after another; 0 and 1: a fresh one for each. */
  isolation_reuse: number;
  /** What a body that uses steps has to know. Its journal is let go of once the body has begun. */
  steps?: StepOrder;
}

export interface BodyListener {
  onLog(lines: LogLine[]): void;
  onProgress(fraction: number, message: string | undefined): void;
  onSteps(frame: StepsFrame, body: StepBody): void;
}

/** What a body asks of its worker about its steps. */
export type StepsFrame = Exclude<FromStepBody, { kind: "replaying" }>;

/** A body that was started. */
export interface Body {
  readonly pid: number;
  /** Behind another in its process, so that it needs no slot yet. */
  readonly waits: boolean;
  /** Never rejects. Resolves only when the body's process group is proven empty, or the process is fit to serve another run. */
  readonly outcome: Promise<Outcome>;
  /** Signal, TERM, KILL; CANCELED, unless it has ended already. */
  cancel(reason: string): void;
  /** KILL; LOST, unless it has ended already. */
  abandon(reason: string): void;
}

/** A body that uses steps. */
export interface StepBody extends Body {
  /** Dropped once it is over. */
  tell(words: ToStepBody): void;
  /** It is loaded and busy: it is to read what it was told. */
  alert(): void;
  /** Its run is SUSPENDED in Postgres: it ends, and the outcome is SUSPENDED. */
  suspend(): void;
  /** KILL; FAILED with this error and not tried again, unless it has ended already. */
  fail(error: { error_name: string; error_summary: string }): void;
}

export type OrderWords = Extract<ToBody, { kind: "order" }>;

/** What its process is told of it. `last`: the process ends after this run. */
export function orderWords(order: BodyOrder, { temp_dir, last }: { temp_dir: string; last: boolean }): OrderWords {
  const { job_run_id, attempt, fence, job_name, args, scheduled_for, steps } = order;
  return { kind: "order", job_run_id, attempt, fence, job_name, args, scheduled_for, temp_dir, last, ...steps };
}
