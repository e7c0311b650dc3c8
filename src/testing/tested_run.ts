/** A run under test: its executions, its clock, and what the test brings to it. */
import type { Job, Json, Schema, StepTools } from "../job.ts";
import { Canceled } from "../job.ts";
import { durationMs, instantMs } from "../sandbox/child/durations.ts";
import { issuesText } from "../sandbox/child/issues.ts";
import { pauseMs } from "../sandbox/child/step_work.ts";
import { describeError } from "../sandbox/child/thrown.ts";
import type { AskFrame, RunJournal, StepFrame } from "../sandbox/frames/step_frames.ts";
import { Execution, type ExecutionPlan, type TestOutcome } from "./execution.ts";
import { differenceAfter } from "./repetition.ts";
import { StepStore, type StoredStep } from "./step_store.ts";
import { VirtualClock } from "./virtual_clock.ts";

export type TestableJob = Job<unknown, unknown, unknown, Record<string, unknown>>;
type Work = (args: never) => unknown;

export interface TestedOptions {
  args?: unknown;
  steps?: Record<string, (tools: StepTools) => unknown>;
  calls?: Record<string, Work>;
  startsAt?: Date | string;
  attempt?: number;
}

const RUN_ID = 1;
const STARTS_AT = "2026-01-01T00:00:00Z";
const PARTS: [string, number][] = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]];

export class TestedRun {
  readonly log: string[] = [];
  readonly #job: TestableJob;
  readonly #options: TestedOptions;
  readonly #store = new StepStore();
  readonly #clock: VirtualClock;
  readonly #started_unix_ms: number;
  readonly #calls = new Map<string, Work>();
  /** Calls whose work goes on. */
  readonly #calling = new Map<string, Promise<void>>();
  readonly #items = new Map<string, Json[]>();
  readonly #results = new Map<number, Json[]>();
  /** What the body itself came to, where it was undone after that. */
  #body_outcome: TestOutcome | undefined;
  #outcome: TestOutcome | undefined;
  #ending: RunJournal["ending"];
  #children = 0;
  #failures = 0;

  constructor(job: TestableJob, options: TestedOptions) {
    this.#job = job;
    this.#options = options;
    this.#started_unix_ms = instantMs(new Date(options.startsAt ?? STARTS_AT), "start a test at");
    this.#clock = new VirtualClock(this.#started_unix_ms);
    for (const [name, work] of Object.entries(options.calls ?? {})) this.#calls.set(name, work);
  }

  get state(): "SUSPENDED" | TestOutcome["state"] {
    return this.#outcome?.state ?? "SUSPENDED";
  }

  get now(): Date {
    return new Date(this.#clock.now_ms);
  }

  get again(): Json | undefined {
    return this.#outcome?.state === "SUCCEEDED" ? this.#outcome.again?.args : undefined;
  }

  get waits(): { kind: string; name: string; until?: string }[] {
    return this.#outcome ? [] : this.#store.open.map((row) => this.#waitOf(row));
  }

  get steps(): { key: string; kind: string; state: string; tries: number; result: Json; error?: string }[] {
    return [...this.#store.rows.values()].map((
      { key, request: kind, state, tries, result, error_name, error_summary },
    ) => ({
      ...{ key, kind, state, tries, result },
      ...(error_name === undefined ? {} : { error: `${error_name}: ${error_summary}` }),
    }));
  }

  get end(): Promise<unknown> {
    return this.#toEnd();
  }

  async advance(duration: number | string): Promise<void> {
    const until_ms = this.#clock.now_ms + durationMs(duration, "advance by");
    while (this.#soonestMs() <= until_ms) await this.#jumpTo(this.#soonestMs());
    this.#clock.now_ms = Math.max(this.#clock.now_ms, until_ms);
  }

  async send(name: string, payload: unknown = null, { sentBy = "test" } = {}): Promise<void> {
    if (this.#outcome) throw new Error(`Cannot send "${name}": the run has ended as ${this.state}`);
    const declared = this.#job.options.messages?.[name];
    if (!declared) {
      const known = Object.keys(this.#job.options.messages ?? {}).map((one) => `"${one}"`).join(", ") || "none";
      throw new Error(`Cannot send "${name}": no message of the job; it declares ${known}`);
    }
    const schema = ("schema" in declared ? declared.schema : declared) as Schema<unknown, unknown>;
    const answer = await schema["~standard"].validate(payload);
    if (answer.issues) throw new Error(`Cannot send "${name}": its payload does not fit: ${issuesText(answer.issues)}`);
    this.#store.messages.push({
      ...{ id: this.#store.messages.length + 1, name, sent_by: sentBy, sent_unix_ms: this.#clock.now_ms },
      payload: JSON.parse(JSON.stringify(answer.value ?? null)),
    });
    await this.goOn();
  }

  async emit(type: string, payload: unknown = {}): Promise<void> {
    this.#store.events.push({ type, payload: JSON.parse(JSON.stringify(payload)) });
    await this.goOn();
  }

  async calls(job: string | { name: string | undefined }, work?: Work): Promise<void> {
    const name = typeof job === "string" ? job : String(job.name);
    if (!work && typeof job === "string") {
      throw new TypeError(`Cannot call "${name}": give what is done instead, or the job itself`);
    }
    this.#calls.set(name, work ?? ((args: unknown) => this.#runOther(job as TestableJob, args)));
    await this.goOn();
  }

  async cancel(): Promise<void> {
    if (this.#outcome) throw new Error(`Cannot cancel: the run has ended as ${this.state}`);
    await this.#endAs("CANCELED", new Canceled("The run was canceled"));
  }

  async crashEverywhere(): Promise<void> {
    await this.#toEnd().catch(() => {});
    const outcome = this.#outcome;
    if (!outcome) throw new Error(`Cannot crash everywhere: ${this.#whyNoEnd()}`);
    if (outcome.state === "CANCELED") {
      throw new Error("Cannot crash everywhere: the run was canceled, which is no end of its own");
    }
    const body = this.#body_outcome ?? outcome;
    for (let cut = 0; cut <= this.#store.history.length; cut++) {
      if (this.#store.history[cut - 1]?.frame.request === "undo") return;
      const difference = await differenceAfter(this.#plan(undefined), cut, { store: this.#store, outcome: body });
      if (difference) throw new Error(difference);
    }
  }

  /** Until it has ended, or waits for what is not there. */
  async goOn(): Promise<void> {
    while (!this.#outcome) {
      const execution = new Execution(this.#plan(this.#ending));
      const came = await this.#serve(execution);
      this.#clock.clear();
      if (execution.outcome) {
        await this.#onEnd(execution.outcome);
        continue;
      }
      execution.drop();
      if (!came) return;
    }
  }

  /** False: what it waits for is not there. */
  async #serve(execution: Execution): Promise<boolean> {
    for (;;) {
      if (await execution.untilQuiet() === "ended") return true;
      this.#beginCalls();
      const arrivals = this.#store.arrivals(this.#clock.now_ms).filter(({ key }) => execution.run.isWaitingFor(key));
      if (arrivals.length > 0) execution.run.hear({ kind: "arrived", arrivals });
      else if (this.#calling.size > 0) await Promise.race(this.#calling.values());
      else if (!this.#clock.strikeNext()) return false;
    }
  }

  async #onEnd(outcome: TestOutcome): Promise<void> {
    if (this.#ending) {
      const before = this.#body_outcome as Extract<TestOutcome, { error: Error }>;
      this.#outcome = outcome.state === "SUCCEEDED" ? before : outcome;
    } else if (outcome.state !== "FAILED") this.#outcome = outcome;
    else if (!this.#retries(outcome.error)) await this.#endAs("FAILED", outcome.error);
  }

  /** By the job's policy, after its pause, with what is recorded. */
  #retries(error: Error): boolean {
    const { retry = {} } = this.#job.options;
    const failure = describeError(error);
    const named = retry.on && Object.hasOwn(retry.on, failure.name) ? retry.on[failure.name] : undefined;
    if (
      failure.retry === "never" || error.name === "AmbiguousName" || this.#failures >= (named?.max ?? retry.max ?? 0)
    ) {
      return false;
    }
    const tries = ++this.#failures;
    this.#clock.now_ms += pauseMs(retry, { failure, tries, luck: 0.5, first: named?.backoffSeconds });
    return true;
  }

  /** It ends so once all is undone. */
  async #endAs(state: "FAILED" | "CANCELED", error: Error): Promise<void> {
    this.#body_outcome = { state, error };
    const undoes = error.name !== "Diverged" && [...this.#store.rows.values()].some(({ has_undo }) => has_undo);
    if (!undoes) {
      this.#outcome = this.#body_outcome;
      return;
    }
    this.#ending = state;
    await this.goOn();
    this.#outcome ??= { state: "FAILED", error: new Error("The run did not end although it was to be undone") };
  }

  async #toEnd(): Promise<unknown> {
    while (!this.#outcome) {
      const soonest_ms = this.#soonestMs();
      if (soonest_ms === Infinity) throw new Error(this.#whyNoEnd());
      await this.#jumpTo(soonest_ms);
    }
    if (this.#outcome.state === "SUCCEEDED") return this.#outcome.result;
    throw this.#outcome.error;
  }

  #whyNoEnd(): string {
    const waits = this.waits.map(({ kind, name }) => `${kind} "${name}"`).join(", ");
    return `The run waits for ${waits}, which only the test can bring: t.send(...), t.emit(...) or t.calls(...)`;
  }

  async #jumpTo(unix_ms: number): Promise<void> {
    const rows = this.#store.history.length;
    this.#clock.now_ms = Math.max(this.#clock.now_ms, unix_ms);
    await this.goOn();
    if (this.#outcome || rows < this.#store.history.length) return;
    const [{ name, kind } = { name: "", kind: "" }] = this.waits;
    throw new Error(
      `The run has asked for ${kind} "${name}", and does not when it is called again: what it asks for must not change`,
    );
  }

  #soonestMs(): number {
    if (this.#outcome) return Infinity;
    return Math.min(...this.#store.open.map(({ until_unix_ms }) => until_unix_ms ?? Infinity));
  }

  #beginCalls(): void {
    for (const { key, request, child } of this.#store.open) {
      const work = child && this.#calls.get(child.job);
      if (!child || !work || this.#calling.has(key) || this.#store.child_ends.has(key)) continue;
      const calling = request === "bulk" ? this.#callAll(key, work) : this.#callOne(key, work, child.args ?? null);
      this.#calling.set(key, calling.finally(() => this.#calling.delete(key)));
    }
  }

  async #callOne(key: string, work: Work, args: Json): Promise<void> {
    const child_run_id = RUN_ID + ++this.#children;
    try {
      const result = await work(JSON.parse(JSON.stringify(args)) as never) ?? null;
      this.#store.child_ends.set(key, {
        key,
        outcome: "DONE",
        result: JSON.parse(JSON.stringify(result)),
        child_run_id,
      });
    } catch (error) {
      const { name, message } = error instanceof Error ? error : new Error(String(error));
      this.#store.child_ends.set(key, {
        key,
        outcome: "FAILED",
        error_name: name,
        error_summary: message,
        child_run_id,
      });
    }
  }

  async #callAll(key: string, work: Work): Promise<void> {
    const results: Json[] = [];
    let failed = 0;
    for (const item of this.#items.get(key) ?? []) {
      try {
        results.push(JSON.parse(JSON.stringify(await work(item as never) ?? null)));
      } catch {
        failed++;
      }
    }
    const child_bulk_id = ++this.#children;
    this.#results.set(child_bulk_id, results);
    const result = { succeeded: results.length, failed };
    this.#store.child_ends.set(key, { key, outcome: "DONE", result, child_bulk_id });
  }

  async #runOther(job: TestableJob, args: unknown): Promise<unknown> {
    const other = new TestedRun(job, {
      ...this.#options,
      args,
      startsAt: this.now,
      calls: Object.fromEntries(this.#calls),
    });
    await other.goOn();
    return await other.end;
  }

  #plan(ending: RunJournal["ending"]): ExecutionPlan {
    const { steps = {}, args = {}, attempt: first = 1 } = this.#options;
    const attempt = first + this.#failures;
    const { retry, messages = {} } = this.#job.options;
    return {
      ...{
        job: this.#job as unknown as Job,
        args,
        attempt,
        store: this.#store,
        ending,
        started_unix_ms: this.#started_unix_ms,
      },
      order: {
        ...{
          job_run_id: RUN_ID,
          job_name: this.#job.name ?? "job",
          fence: 1,
          scheduled_for: new Date(this.#started_unix_ms).toISOString(),
        },
        ...{ retry: retry ?? {}, messages: Object.keys(messages) },
      },
      unixMs: () => this.#clock.now_ms,
      later: (act, ms, keeps) => this.#clock.later(act, ms, keeps),
      workOf: (_key, name, work) => Object.hasOwn(steps, name) ? steps[name] as typeof work : steps["*"] ?? work,
      log: (level, message) => void this.log.push(`${level}: ${message}`),
      answer: (question) => this.#answer(question),
      start: (frame) => this.#start(frame),
    };
  }

  #answer(question: AskFrame): Json {
    switch (question.what) {
      case "callback":
        return `https://dandori.test/m/${RUN_ID}.${question.name}.${Math.floor(question.expires_unix_ms / 1000)}`;
      case "items":
        this.#items.set(question.key, [
          ...(this.#items.get(question.key) ?? []).slice(0, question.at),
          ...question.items,
        ]);
        return null;
      case "results": {
        const results = this.#results.get(question.bulk_id) ?? [];
        return { results: results.map((result, at) => ({ at, result })), next: null };
      }
      case "arrivals":
      case "restart":
        return null;
    }
  }

  #start({ child }: StepFrame): number {
    const work = this.#calls.get(child?.job ?? "");
    if (work) void Promise.resolve(child?.args as never).then(work).catch(() => {});
    return RUN_ID + ++this.#children;
  }

  #waitOf(
    { key, request, state, waits_for, child, until_unix_ms }: StoredStep,
  ): { kind: string; name: string; until?: string } {
    const name = waits_for ?? child?.job ?? key.replace(/^(\[.*\])?[a-z]+:/s, "");
    const kind = state === "TRYING" ? "retry" : request;
    return { kind, name, ...(until_unix_ms === undefined ? {} : { until: this.#fromNow(until_unix_ms) }) };
  }

  /** In its largest unit, and the next where that is not enough: "+3 d", "+2 h 30 min". */
  #fromNow(unix_ms: number): string {
    let left_ms = Math.max(0, Math.round(unix_ms - this.#clock.now_ms));
    const parts = PARTS.flatMap(([unit, ms]) => {
      const count = unit === "s" ? Math.round(left_ms / 100) / 10 : Math.floor(left_ms / ms);
      left_ms -= count * ms;
      return count > 0 ? [`${count} ${unit}`] : [];
    });
    return `+${parts.join(" ") || "0 s"}`;
  }
}
