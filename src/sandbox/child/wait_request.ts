/** A sleep, a message, an event, a call or a bulk that the body waits for, from its request to the end of its row. */
import type { Arrival, JournalRow, OpenRow, StepFrame, StepKind } from "../frames/step_frames.ts";
import type { DurableParts } from "./durable_parts.ts";
import type { StepRequest } from "./journal.ts";
import { LINGER_MS } from "./open_waits.ts";

/** What a wait is for, as its first row says. */
export type WaitedFor = Pick<StepFrame, "waits_for" | "where" | "prompt" | "child">;

export interface WaitPlan {
  key: string;
  kind: Extract<StepKind, "sleep" | "message" | "event" | "call" | "bulk">;
  /** Its limit: in so many milliseconds, or at an instant. */
  until?: { in_ms: number } | { unix_ms: number };
  waited_for?: WaitedFor;
  /** With the sender of a message. */
  with_sender?: boolean;
  deliver(row: JournalRow): void;
  refuse(error: Error): void;
}

/** A wait that the body has asked for. */
export class WaitRequest implements StepRequest {
  readonly key: string;
  readonly kind: StepKind;
  readonly #plan: WaitPlan;
  readonly #parts: DurableParts;

  constructor(plan: WaitPlan, parts: DurableParts) {
    this.key = plan.key;
    this.kind = plan.kind;
    this.#plan = plan;
    this.#parts = parts;
  }

  begin(open: OpenRow | undefined): void {
    const { waits, journal } = this.#parts;
    const why = waits.whyFull();
    if (why) return journal.refuse(this, new RangeError(`Cannot wait for "${this.key}": ${why}`));
    if (open?.state === "WAITING") return this.#open(open.until_in_ms ?? undefined);
    const limit_ms = this.#limitMs();
    if (this.kind === "sleep" && limit_ms !== undefined && limit_ms <= LINGER_MS) return this.#open(limit_ms, true);
    const { until, waited_for } = this.#plan;
    const limit = until === undefined ? {} : "in_ms" in until ? { until_in_ms: until.in_ms } : {
      until_unix_ms: until.unix_ms,
    };
    journal.write({ key: this.key, request: this.kind, state: "WAITING", tries: 1, ...limit, ...waited_for });
    this.#open(limit_ms);
  }

  deliver(row: JournalRow): void {
    this.#plan.deliver(row);
  }

  refuse(error: Error): void {
    this.#plan.refuse(error);
  }

  #limitMs(): number | undefined {
    const { until } = this.#plan;
    if (until === undefined) return undefined;
    return "in_ms" in until ? until.in_ms : Math.max(0, until.unix_ms - this.#parts.host.unixMs());
  }

  #open(limit_ms: number | undefined, lingers = false): void {
    const { host, waits, journal } = this.#parts;
    waits.add(this.key, {
      until_ms: limit_ms === undefined ? undefined : host.monotonicMs() + limit_ms,
      lingers,
      onLimit: () => this.#onLimit(),
      onArrival: (arrival) => this.#onArrival(arrival),
      refuse: (error) => journal.refuse(this, error),
    });
  }

  /** Whether something came before it, the database decides. */
  #onLimit(): void {
    const { waits } = this.#parts;
    if (this.kind !== "sleep") return this.#parts.look(() => waits.lookAgain(this.key));
    waits.ended(this.key);
    this.#end({ state: "DONE" });
  }

  #onArrival(arrival: Arrival): void {
    const { outcome, result = null, error_name, error_summary, message_id, sent_by } = arrival;
    const failed = outcome === "FAILED"
      ? { error_name: error_name ?? "Failed", error_summary: error_summary ?? "" }
      : {};
    if (this.kind === "call" || this.kind === "bulk") {
      const { child_run_id = null, child_bulk_id = null } = arrival;
      return this.#end({ state: outcome, ...failed }, { result, child_run_id, child_bulk_id });
    }
    if (outcome !== "DONE" || this.kind === "sleep") return this.#end({ state: outcome, ...failed });
    const taken = typeof message_id === "number" ? { message_id } : {};
    const kept = this.#plan.with_sender ? { payload: result, sentBy: sent_by ?? "" } : result;
    this.#end({ state: "DONE", result: kept, ...taken });
  }

  #end(
    frame: Pick<StepFrame, "state"> & Partial<StepFrame>,
    local: Parameters<DurableParts["journal"]["end"]>[2] = {},
  ) {
    this.#parts.journal.end(this, { key: this.key, request: this.kind, tries: 1, ...frame }, local);
  }
}
