/**
 * Where a body stands, from the order to the outcome.
 *
 *   queued --those before it are done--> front --run is called--> running --its verdict--> judged --> over
 *   queued <--its process does not begin it-- front
 *   front, running --timeout, cancel, abandon or too much output--> ending --> over
 *   running --it waits for its steps alone--> frozen --something comes--> running     frozen --its run is SUSPENDED--> suspending --> over
 *   ending --a verdict before it was told--> judged          front --a verdict on its file or args--> judged
 *   any --> over, when its process ends or nothing can begin it
 */
import type { BodyVerdict, EndedByUs } from "./outcome.ts";

export type BodyState =
  /** In no process yet, or behind others in one. `wish`: what is to become of it instead of its turn. */
  | { at: "queued"; wish: Wish | undefined }
  /** What its process says is its, and nothing of the job was called. */
  | { at: "front" }
  /** Monotonic: when `run` was called. */
  | { at: "running"; since_ms: number }
  /** It waits for nothing but steps, in a read: nothing of it runs until it is told something. */
  | { at: "frozen"; since_ms: number }
  /** Its run is SUSPENDED in Postgres. */
  | { at: "suspending"; since_ms: number | undefined }
  | EndingBody
  | { at: "judged"; verdict: BodyVerdict; since_ms: number | undefined }
  | { at: "over" };

export interface Wish {
  cause: "cancel" | "abandon";
  reason: string;
}

export interface EndingBody {
  at: "ending";
  by: EndedByUs;
  /** It was really told; until then a verdict of its own comes first. */
  told: boolean;
  /** It has said that it was. */
  noticed: boolean;
  /** It was in a read when it was to be ended. */
  frozen: boolean;
  /** undefined: `run` was not called. */
  since_ms: number | undefined;
  /** Said after it was told: it changes the words of the outcome, and nothing else. */
  verdict: BodyVerdict | undefined;
}

const MOVES: Record<BodyState["at"], readonly BodyState["at"][]> = {
  queued: ["front", "ending", "over"],
  front: ["queued", "running", "ending", "judged", "over"],
  running: ["frozen", "ending", "judged", "suspending", "over"],
  frozen: ["running", "ending", "judged", "suspending", "over"],
  suspending: ["over"],
  ending: ["judged", "suspending", "over"],
  judged: ["suspending", "over"],
  over: [],
};

/** @throws Error for a move that is not in the table: a fault of ours. */
export function checkMove(job_run_id: number, from: BodyState, to: BodyState): void {
  if (MOVES[from.at].includes(to.at)) return;
  throw new Error(`Cannot move the body of run "${job_run_id}" from ${from.at} to ${to.at}`);
}

/** When `run` was called, if it was. */
export function runningSince(state: BodyState): number | undefined {
  return "since_ms" in state ? state.since_ms : undefined;
}

export function verdictIn(state: BodyState): BodyVerdict | undefined {
  return "verdict" in state ? state.verdict : undefined;
}

/** It was begun, and has come to no verdict and no end of ours. */
export function isActive({ at }: BodyState): boolean {
  return at === "front" || at === "running" || at === "frozen";
}

export function endingBy(by: EndedByUs, state: BodyState): EndingBody {
  const frozen = state.at === "frozen";
  return { at: "ending", by, told: false, noticed: false, frozen, since_ms: runningSince(state), verdict: undefined };
}
