/** What the parts of a durable run share. Types only. */
import type { Json, Retry, StepTools } from "../../job.ts";
import type { AskFrame } from "../frames/step_frames.ts";
import type { DurableHost, DurableOrder } from "./durable_host.ts";
import type { Journal } from "./journal.ts";
import type { OpenWaits } from "./open_waits.ts";

/** Without `kind` and `n`. */
export type Question = AskFrame extends infer F ? F extends AskFrame ? Omit<F, "kind" | "n"> : never : never;

/** What a step that has one was requested with. */
export interface UndoRequest {
  /** Of the step. */
  key: string;
  name: string;
  idempotency_key: string;
  timeoutSeconds: number | undefined;
  undo(result: Json | undefined, tools: StepTools): unknown;
}

/** What the parts of a durable run share. */
export interface DurableParts {
  readonly order: DurableOrder;
  readonly host: DurableHost;
  readonly journal: Journal;
  readonly waits: OpenWaits;
  readonly retry: Retry;
  /** In order of request. */
  readonly undos: UndoRequest[];
  /** How often each scope has asked for chance. */
  readonly counts: Map<string, number>;
  /** Steps whose work runs. */
  readonly working: Set<{ fail(error: Error): void }>;
  /** The work of a step is in its synchronous part. */
  inside: boolean;
  /** Why nothing new is begun. */
  closed: Error | undefined;
  /** Before each request. @throws Error where there may be none */
  requested(): void;
  ask(question: Question): Promise<Json>;
  /** Asks for what has come. `then`: once that is told. */
  look(then: () => void): void;
}
