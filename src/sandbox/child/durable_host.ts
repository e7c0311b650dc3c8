/** What the durable part of a body stands on: the host of a process, or the test kit. Types only. */
import type { Json, StepTools } from "../../job.ts";
import type { FromStepBody, StepOrder } from "../frames/step_frames.ts";

export interface DurableHost {
  send(frame: FromStepBody): void;
  /** `keeps`: the process stays alive for it. Gives what takes it back. */
  later(act: () => void, ms: number, keeps: boolean): () => void;
  monotonicMs(): number;
  unixMs(): number;
  /** At least 0 and below 1. */
  luck(): number;
  log(level: "warn" | "error", message: string): void;
  /** Fires on cancel and at the job's timeout. */
  signal(): AbortSignal;
  /** In a test, what is done in place of the work of a step. */
  workOf?(key: string, name: string, work: (tools: StepTools) => unknown): (tools: StepTools) => unknown;
  /** Equal names at once, whose numbers depend on who is faster. */
  onAmbiguous(message: string): void;
  /** The run cannot go on, whatever its body does. */
  onImpossible(error: { name: "Diverged"; message: string }): void;
  /** The run is to end: its body has seen all that it had, and its signal is to fire. */
  onEnding(error: Error): void;
  /** The run ends here, and a new one begins with these args. */
  onAgain(args: Json): void;
}

/** The run that is served. */
export interface DurableOrder extends StepOrder {
  job_run_id: number;
  job_name: string;
  fence: number;
  scheduled_for: string;
}
