/**
 * A body that pretends to be a workflow: a step, a message that may have come before, and another step. It says and hears the frames of real
 * ones (src/sandbox/frames/step_frames.ts), and writes down each body of a step and each answer.
 */
import { monotonicMs, rest } from "../../../src/platform/timers.ts";
import type { BodyListener, BodyOrder, StepBody } from "../../../src/sandbox/process_pool.ts";
import type { Arrival, JournalRow, StepFrame, ToStepBody } from "../../../src/sandbox/frames/step_frames.ts";
import { count, later, type World } from "./world.ts";

const KEYS = ["step:one", "message:go", "step:two"];
const LIMIT_MS = 1_500;

interface Parts {
  world: World;
  order: BodyOrder;
  listener: BodyListener;
  body: StepBody;
  /** What it says reaches its worker when that one's process goes on. */
  passes(): Promise<void>;
  isAlive(): boolean;
}

export class SimSteps {
  readonly #parts: Parts;
  readonly #rows: JournalRow[];
  readonly #open: Set<string>;
  readonly #arrived: Arrival[];
  /** When the message is waited for no more. */
  #until_ms: number;
  /** When it did something the last time: since then it waits, and does nothing until it is told. */
  acted_ms = monotonicMs();
  #n = 0;
  #upto = 0;
  #place = 0;
  #heard = Promise.withResolvers<void>();

  constructor(parts: Parts) {
    this.#parts = parts;
    const journal = parts.order.steps?.journal;
    this.#rows = [...journal?.rows ?? []];
    this.#open = new Set(journal?.open.map(({ key }) => key));
    this.#until_ms = monotonicMs() + (journal?.open[0]?.until_in_ms ?? LIMIT_MS * parts.world.scale);
    this.#arrived = [...journal?.arrived ?? []];
  }

  /** Until all is done, or it is no more. */
  async run(): Promise<void> {
    for (const row of this.#rows) this.#told(row);
    for (const key of KEYS.slice(this.#rows.length)) {
      const end = key.startsWith("step:") ? await this.#work(key) : await this.#wait(key);
      if (!end || !this.#parts.isAlive()) return;
      await this.#write({ ...end, key, seq: this.#rows.length + 1 });
      if (!this.#parts.isAlive()) return;
      const row = { key, state: end.state, result: end.result ?? null } as JournalRow;
      this.#rows.push(row);
      this.#told(row);
    }
  }

  hear(words: ToStepBody): void {
    if (words.kind === "committed") this.#upto = words.upto;
    if (words.kind === "arrived") this.#arrived.push(...words.arrivals);
    this.#wake();
  }

  /** Over, whatever it waits for. */
  end(): void {
    this.#wake();
  }

  #wake(): void {
    this.#heard.resolve();
    this.#heard = Promise.withResolvers();
  }

  async #work(key: string): Promise<Partial<StepFrame> | undefined> {
    const { world, order: { job_run_id, fence } } = this.#parts;
    const body = { job_run_id, fence, key, tries: 1, line: lineOf(world), began_ms: monotonicMs() };
    world.steps.bodies.push(body);
    await rest(world.chance.between(2, 60) * world.scale);
    if (!this.#parts.isAlive()) return undefined;
    const value = crypto.randomUUID();
    Object.assign(body, { ended_ms: monotonicMs(), value });
    return { request: "step", state: "DONE", result: value };
  }

  async #wait(key: string): Promise<Partial<StepFrame> | undefined> {
    const { world, listener, body, isAlive, passes } = this.#parts;
    if (!this.#open.has(key)) {
      const until_in_ms = LIMIT_MS * world.scale;
      this.#until_ms = monotonicMs() + until_in_ms;
      await this.#write({ key, request: "message", state: "WAITING", waits_for: "go", until_in_ms });
    }
    for (;;) {
      if (!isAlive()) return undefined;
      const arrival = this.#arrived.find((one) => one.key === key);
      if (arrival) {
        const { outcome: state, result, message_id } = arrival;
        count(world, state === "DONE" ? "messages taken" : "messages waited for in vain");
        return { request: "message", state, ...(state === "DONE" ? { result, message_id: message_id as number } : {}) };
      }
      const { promise } = this.#heard;
      this.acted_ms = monotonicMs();
      const soonest_in_ms = Math.max(0, this.#until_ms - this.acted_ms);
      later(world, passes().then(() => listener.onSteps({ kind: "waiting", soonest_in_ms, handles: false }, body)));
      await promise;
    }
  }

  /** Resolves when Postgres has it, or it is over. */
  async #write(columns: Partial<StepFrame>): Promise<void> {
    const { world, listener, body, isAlive, passes } = this.#parts;
    const n = ++this.#n;
    const frame = { kind: "step", n, tries: 1, ...columns } as StepFrame;
    later(world, passes().then(() => listener.onSteps(frame, body)));
    while (this.#upto < n && isAlive()) await this.#heard.promise;
  }

  #told({ key, state, result }: JournalRow): void {
    const { world, order: { job_run_id, fence } } = this.#parts;
    const [line, place] = [lineOf(world), ++this.#place];
    const outcome = state === "TIMED_OUT" ? "DONE" : state;
    world.steps.deliveries.push({
      ...{ job_run_id, fence, key, outcome, value: result },
      ...{ line, place, at_ms: monotonicMs() },
    });
  }
}

function lineOf({ steps }: World): number {
  return steps.bodies.length + steps.deliveries.length + 1;
}
