/** The rows of one run, its messages and what came of its calls, in memory: what Postgres is to a run on a worker. */
import type { EventTrigger, Json } from "../job.ts";
import type { Arrival, JournalRow, OpenRow, RunJournal, StepFrame } from "../sandbox/frames/step_frames.ts";

/** Of all rows: code in a test does not change meanwhile. */
const CODE_DIGEST = "test";

export interface StoredStep extends Omit<StepFrame, "kind" | "n" | "until_in_ms" | "result"> {
  result: Json;
  ended_unix_ms?: number;
  child_run_id?: number;
  child_bulk_id?: number;
}

interface StoredMessage {
  id: number;
  name: string;
  payload: Json;
  sent_by: string;
  sent_unix_ms: number;
  taken_by?: string;
}

export class StepStore {
  readonly rows = new Map<string, StoredStep>();
  /** All that was committed, in its order. */
  readonly history: { frame: StepFrame; unix_ms: number }[] = [];
  readonly messages: StoredMessage[] = [];
  readonly events: { type: string; payload: Json }[] = [];
  /** What came of a call, by its key. */
  readonly child_ends = new Map<string, Arrival>();
  /** What ended each wait, for a repetition. */
  readonly arrived = new Map<string, Arrival>();

  commit(frame: StepFrame, unix_ms: number): void {
    this.history.push({ frame, unix_ms });
    const { kind: _, n: __, until_in_ms, ...columns } = frame;
    const before = this.rows.get(frame.key);
    const until = until_in_ms === undefined ? {} : { until_unix_ms: unix_ms + until_in_ms };
    const ended = frame.seq === undefined ? {} : { ended_unix_ms: unix_ms };
    const child = this.child_ends.get(frame.key);
    this.rows.set(frame.key, {
      ...(before?.child ? { child: before.child } : {}),
      ...{ ...columns, result: frame.result ?? child?.result ?? null, ...until, ...ended },
      ...(typeof child?.child_run_id === "number" ? { child_run_id: child.child_run_id } : {}),
      ...(typeof child?.child_bulk_id === "number" ? { child_bulk_id: child.child_bulk_id } : {}),
    });
    const message = this.messages.find(({ id }) => id === frame.message_id);
    if (message) message.taken_by = frame.key;
  }

  /** Undefined: nothing is recorded yet. */
  journal(now_ms: number, started_unix_ms: number, ending?: RunJournal["ending"]): RunJournal | undefined {
    if (this.rows.size === 0 && !ending) return undefined;
    const rows = [...this.rows.values()];
    const open = rows.filter(isOpen);
    return {
      rows: rows.filter(({ seq }) => seq !== undefined).sort((a, b) => (a.seq ?? 0) - (b.seq ?? 0)).map(journalRow),
      open: open.map((row) => openRow(row, now_ms)),
      arrived: [],
      ...{ started_unix_ms, code_digest: CODE_DIGEST, on_change: "continue" },
      ...(ending ? { ending } : {}),
    };
  }

  get open(): StoredStep[] {
    return [...this.rows.values()].filter(isOpen);
  }

  /** What has come for open rows until now. A message that was sent before a limit goes before that. */
  arrivals(now_ms: number): Arrival[] {
    const taken = new Set<number>();
    return this.open.flatMap((row): Arrival[] => {
      const { key, until_unix_ms = Infinity } = row;
      const is_over = until_unix_ms <= now_ms;
      const found = this.#foundFor(row, taken);
      const arrival: Arrival | undefined = found ??
        (!is_over
          ? undefined
          : { key, outcome: row.request === "sleep" || row.state === "TRYING" ? "DONE" : "TIMED_OUT" });
      if (arrival) this.arrived.set(key, arrival);
      return arrival ? [arrival] : [];
    });
  }

  #foundFor(
    { key, request, waits_for, where, until_unix_ms = Infinity }: StoredStep,
    taken: Set<number>,
  ): Arrival | undefined {
    if (request === "call" || request === "bulk") return this.child_ends.get(key);
    if (request === "event") {
      const event = this.events.find(({ type, payload }) =>
        type === waits_for && eventMatches(payload, where as never)
      );
      return event && { key, outcome: "DONE", result: event.payload, sent_by: "event" };
    }
    if (request !== "message") return undefined;
    const message = this.messages.find((one) =>
      one.name === waits_for && one.taken_by === undefined && !taken.has(one.id) && one.sent_unix_ms <= until_unix_ms
    );
    if (!message) return undefined;
    taken.add(message.id);
    const { id: message_id, payload: result, sent_by } = message;
    return { key, outcome: "DONE", result, message_id, sent_by };
  }
}

function isOpen({ state }: StoredStep): boolean {
  return ["BEGUN", "TRYING", "WAITING"].includes(state);
}

function journalRow(row: StoredStep): JournalRow {
  const { key, request: kind, state, seq, tries, result, error_name = null, error_summary = null, has_undo = false } =
    row;
  const { ended_unix_ms = 0, child_run_id = null, child_bulk_id = null } = row;
  return {
    ...{ key, kind, state: state as JournalRow["state"], seq: seq as number, tries, result, error_name, error_summary },
    ...{ ended_unix_ms, child_run_id, child_bulk_id, has_undo, code_digest: CODE_DIGEST },
  };
}

function openRow(row: StoredStep, now_ms: number): OpenRow {
  const { key, request: kind, state, tries, error_name = null, error_summary = null, has_undo = false } = row;
  const until_in_ms = row.until_unix_ms === undefined ? null : Math.max(0, row.until_unix_ms - now_ms);
  return {
    ...{ key, kind, state: state as OpenRow["state"], tries, error_name, error_summary, until_in_ms, has_undo },
    code_digest: CODE_DIGEST,
  };
}

/** As Postgres compares a payload with the `where` of a trigger. */
function eventMatches(payload: Json, where: EventTrigger["where"]): boolean {
  return Object.entries(where ?? {}).every(([path, wanted]) => {
    const value = path.split(".").reduce<unknown>((inner, name) => Object(inner)[name], payload) ?? null;
    return (Array.isArray(wanted) ? wanted : [wanted]).includes(value);
  });
}
