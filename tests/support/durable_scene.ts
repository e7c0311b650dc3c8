/** A durable run whose worker is the test: it sees each frame, and says what is committed and what has come. */
import type { Durable, Json } from "../../src/job.ts";
import { afterWrites } from "../../src/platform/timers.ts";
import { DurableRun } from "../../src/sandbox/child/durable.ts";
import type { DurableHost, DurableOrder } from "../../src/sandbox/child/durable_host.ts";
import type {
  Arrival,
  FromStepBody,
  JournalRow,
  OpenRow,
  RunJournal,
  StepFrame,
} from "../../src/sandbox/frames/step_frames.ts";

export type Body = (tools: Durable<Record<string, Json>>) => unknown;

/** A request and what follows from it take a few. */
const QUIET_TURNS = 6;

export const STARTED_UNIX_MS = 1_800_000_000_000;

export class DurableScene {
  readonly frames: FromStepBody[] = [];
  readonly logs: string[] = [];
  readonly ambiguous: string[] = [];
  impossible: { name: string; message: string } | undefined;
  /** What `run` has come to. */
  outcome: { value: unknown } | { error: Error } | undefined;
  readonly run: DurableRun;
  readonly abort = new AbortController();
  /** Timers that would keep the process alive, and others: how long each is. */
  readonly timers: { act: () => void; ms: number; keeps: boolean }[] = [];
  #committed = 0;

  constructor(body: Body, order: Partial<DurableOrder> = {}) {
    const run = { job_run_id: 812, job_name: "onboarding", fence: 7, scheduled_for: "2026-01-01T00:00:00Z" };
    this.run = new DurableRun({ ...run, started_unix_ms: STARTED_UNIX_MS, ...order }, this.#host());
    void this.#serve(body, order.journal?.ending !== undefined);
  }

  async #serve(body: Body, ending: boolean): Promise<void> {
    try {
      const running = (async () => await body(this.run.tools as never))();
      if (ending) {
        await Promise.race([running.catch(() => {}), this.run.idled.promise]);
        await this.run.undo();
      }
      this.outcome = { value: ending ? null : await running };
    } catch (error) {
      this.outcome = { error: error as Error };
    }
  }

  #host(): DurableHost {
    return {
      send: (frame) => void this.frames.push(JSON.parse(JSON.stringify(frame))),
      later: (act, ms, keeps) => {
        const timer = { act, ms, keeps };
        this.timers.push(timer);
        return () => void this.timers.splice(this.timers.indexOf(timer), 1);
      },
      monotonicMs: () => 0,
      unixMs: () => STARTED_UNIX_MS,
      luck: () => 0.5,
      log: (level, message) => void this.logs.push(`${level}: ${message}`),
      signal: () => this.abort.signal,
      onAmbiguous: (message) => void this.ambiguous.push(message),
      onImpossible: (error) => void (this.impossible ??= error),
      onEnding: (error) => this.abort.abort(error),
      onAgain: () => {},
    };
  }

  /** Lets all happen that can. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < QUIET_TURNS; quiet++) {
      const signs = this.#signs;
      await afterWrites();
      if (signs !== this.#signs) quiet = -1;
    }
  }

  get #signs(): string {
    return [this.frames.length, this.run.requests, this.run.replaying, this.outcome, this.impossible].join();
  }

  /** The loop has run dry. */
  async idle(): Promise<string> {
    await this.settle();
    const state = this.run.idle();
    await this.settle();
    return state;
  }

  get steps(): StepFrame[] {
    return this.frames.filter((frame) => frame.kind === "step");
  }

  /** What was said, shortly: `step:a DONE 1`. */
  get said(): string[] {
    return this.steps.map(({ key, state, seq }) => [key, state, seq].filter(Boolean).join(" "));
  }

  /** All that was said, or as much of it, is in Postgres. */
  async commit(upto = this.steps.length): Promise<void> {
    this.#committed = upto;
    this.run.hear({ kind: "committed", upto, ended_unix_ms: STARTED_UNIX_MS + upto * 1000 });
    await this.settle();
  }

  /** Until nothing more is said. */
  async commitAll(): Promise<void> {
    await this.settle();
    while (this.#committed < this.steps.length) await this.commit();
  }

  async arrive(...arrivals: Arrival[]): Promise<void> {
    this.run.hear({ kind: "arrived", arrivals });
    await this.settle();
  }

  /** What the next execution is given, after the first `cut` rows that were written. */
  journalAfter(cut: number, more: Partial<RunJournal> = {}): RunJournal {
    const latest = new Map<string, StepFrame>();
    for (const frame of this.steps.slice(0, cut)) latest.set(frame.key, frame);
    const all = [...latest.values()];
    return journalOf(
      all.filter(({ seq }) => seq !== undefined).map(rowOf),
      all.filter(({ seq }) => !seq).map(openOf),
      more,
    );
  }
}

export function journalOf(rows: JournalRow[], open: OpenRow[] = [], more: Partial<RunJournal> = {}): RunJournal {
  rows.sort((a, b) => a.seq - b.seq);
  const kept = { started_unix_ms: STARTED_UNIX_MS, code_digest: "1f3a9c2b77e0", on_change: "continue" as const };
  return { rows, open, arrived: [], ...kept, ...more };
}

export function aRow(key: string, seq: number, more: Partial<JournalRow> = {}): JournalRow {
  const kind = key.replace(/^\[.*\]/, "").split(":")[0] as JournalRow["kind"];
  return {
    ...{ key, seq, kind, state: "DONE", tries: 1, result: null, error_name: null, error_summary: null },
    ...{ ended_unix_ms: STARTED_UNIX_MS + seq * 1000, code_digest: "1f3a9c2b77e0", has_undo: false, ...more },
  };
}

export function anOpenRow(key: string, more: Partial<OpenRow> = {}): OpenRow {
  const kind = key.replace(/^\[.*\]/, "").split(":")[0] as OpenRow["kind"];
  return {
    ...{ key, kind, state: "WAITING", tries: 1, error_name: null, error_summary: null, until_in_ms: null },
    ...{ code_digest: "1f3a9c2b77e0", has_undo: false, ...more },
  };
}

function rowOf(frame: StepFrame): JournalRow {
  const { state, tries, result = null, error_name = null, error_summary = null, has_undo = false, n } = frame;
  const ended_unix_ms = STARTED_UNIX_MS + n * 1000;
  const more = {
    state: state as JournalRow["state"],
    tries,
    result,
    error_name,
    error_summary,
    has_undo,
    ended_unix_ms,
  };
  return aRow(frame.key, frame.seq as number, more);
}

function openOf(frame: StepFrame): OpenRow {
  const { key, state, tries, error_name, error_summary, until_in_ms, has_undo = false } = frame;
  const texts = { error_name: error_name ?? null, error_summary: error_summary ?? null };
  return anOpenRow(key, {
    ...{ state: state as OpenRow["state"], tries, ...texts, until_in_ms: until_in_ms ?? null, has_undo },
  });
}
