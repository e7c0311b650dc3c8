/**
 * Bodies that only pretend to work, and the guard that kills them when their worker is dead or frozen. What they do goes
 * into the ledger with times that are reckoned, not measured: a guard of its own process strikes when it is due, however
 * busy this one is.
 */
import { every, monotonicMs, rest } from "../../../src/platform/timers.ts";
import type {
  Body,
  BodyListener,
  BodyOrder,
  Outcome,
  ProcessPool,
  StepBody,
} from "../../../src/sandbox/process_pool.ts";
import type { ToStepBody } from "../../../src/sandbox/frames/step_frames.ts";
import type { Effect } from "../checker.ts";
import type { SimProcess } from "./process.ts";
import { SimSteps } from "./steps.ts";
import { BEAT_MS, count, GUARD_MS, later, type World } from "./world.ts";

/** How a body of each job behaves. */
export interface Manner {
  least_ms: number;
  most_ms: number;
  /** Of all bodies, how many fail, and of those how many must not be retried. */
  fails: number;
  fatal: number;
  /** It goes through steps, and ends with the last of them. */
  steps?: boolean;
}

type Decided = Exclude<Outcome, { kind: "LOST" }>;

export class SimSandbox {
  readonly #world: World;
  readonly #process: SimProcess;
  readonly #mayRun: () => boolean;
  readonly #manners: Map<string, Manner>;
  readonly #bodies = new Set<SimBody>();
  readonly #closed = new AbortController();
  /** When its guard last heard from the worker: a beat, or the name of a body that begins. */
  #heard_ms = monotonicMs();

  /** Every body has a process of its own. */
  roomBehind(): number {
    return 0;
  }

  isQuick(): boolean {
    return false;
  }

  readonly codesKnown = 0;

  codeTimes(): [] {
    return [];
  }

  constructor(parts: { world: World; process: SimProcess; mayRun: () => boolean; manners: Map<string, Manner> }) {
    this.#world = parts.world;
    this.#process = parts.process;
    this.#mayRun = parts.mayRun;
    this.#manners = parts.manners;
    const { end } = this.#process;
    const stop = AbortSignal.any([end, this.#closed.signal]);
    later(this.#world, every(BEAT_MS * this.#world.scale, () => Promise.resolve(this.#beat()), { name: "beat", stop }));
    // The pipe to the guard closes with the worker: it strikes at once.
    end.addEventListener("abort", () => {
      if (this.#guarded) {
        for (const body of this.#bodies) body.strike(monotonicMs() + this.#world.chance.between(0, 20));
      }
    }, { once: true });
  }

  get #guarded(): boolean {
    return !this.#world.mistake?.unguarded;
  }

  #beat(): void {
    if (this.#process.running && this.#mayRun()) this.#heard_ms = monotonicMs();
  }

  /** Until when the bodies here live, by what their guards have heard. */
  get guarded_until_ms(): number {
    return this.#guarded ? this.#heard_ms + GUARD_MS * this.#world.scale : Infinity;
  }

  start(order: BodyOrder, listener: BodyListener): Body {
    const { chance, mistake } = this.#world;
    if (!this.#mayRun() && !mistake?.unchecked_spawn) return neverStarted();
    this.#heard_ms = monotonicMs();
    const manner = { ...this.#manners.get(order.job_name) as Manner, ...mistake?.manner };
    count(this.#world, "bodies");
    const body = new SimBody(this.#world, {
      order,
      listener: manner.steps ? listener : undefined,
      process: this.#process,
      guard: this,
      lasts_ms: chance.between(manner.least_ms, manner.most_ms) * this.#world.scale,
      outcome: outcomeBy(this.#world, manner),
      linger_ms: mistake?.lingering ? chance.between(0, 300) : 0,
    });
    this.#bodies.add(body);
    body.outcome.then(() => this.#bodies.delete(body));
    return body;
  }

  /** Waits until no body is left, or its process is killed: nobody learns of its bodies then. */
  async close(): Promise<void> {
    const { end } = this.#process;
    const killed = new Promise<void>((resolve) => {
      if (end.aborted) resolve();
      end.addEventListener("abort", () => resolve(), { once: true });
    });
    for (const body of this.#bodies) body.abandon("its worker is stopping");
    await Promise.race([killed, Promise.all([...this.#bodies].map((body) => body.outcome))]);
    this.#closed.abort();
  }
}

export function asSandbox(sandbox: SimSandbox): ProcessPool {
  return sandbox as unknown as ProcessPool;
}

function outcomeBy({ chance }: World, manner: Manner): Decided {
  if (!chance.happens(manner.fails)) return { kind: "SUCCEEDED", result: { done: true }, exit_code: 0 };
  const failed = { error_summary: "it was to fail", exit_code: 1 };
  if (chance.happens(manner.fatal)) return { kind: "FAILED", error_name: "Fatal", retry: "never", ...failed };
  return chance.happens(0.2)
    ? { kind: "TIMED_OUT", ...failed }
    : { kind: "FAILED", error_name: "Error", retry: "policy", ...failed };
}

class SimBody implements StepBody {
  readonly waits = false;
  readonly pid = 1;
  readonly outcome: Promise<Outcome>;
  readonly #effect: Effect;
  readonly #parts: { process: SimProcess; guard: SimSandbox; world: World; linger_ms: number };
  #resolve: (outcome: Outcome) => void = () => {};
  readonly #over = new AbortController();
  readonly #steps: SimSteps | undefined;

  constructor(
    world: World,
    parts: {
      order: BodyOrder;
      /** Of one that goes through steps. */
      listener: BodyListener | undefined;
      process: SimProcess;
      guard: SimSandbox;
      lasts_ms: number;
      outcome: Decided;
      linger_ms: number;
    },
  ) {
    const { order, process, guard, linger_ms } = parts;
    this.#parts = { process, guard, world, linger_ms };
    const { job_run_id, attempt, fence } = order;
    const started_ms = monotonicMs();
    this.#effect = { job_run_id, attempt, fence, worker_id: process.name, started_ms };
    world.ledger.push(this.#effect);
    this.outcome = new Promise((resolve) => this.#resolve = resolve);
    const { listener } = parts;
    if (listener) {
      const isAlive = () => !this.#over.signal.aborted && monotonicMs() < guard.guarded_until_ms;
      this.#steps = new SimSteps({ world, order, listener, body: this, isAlive, passes: () => process.passes() });
      this.#over.signal.addEventListener("abort", () => this.#steps?.end());
      later(
        world,
        this.#steps.run().then(() => {
          if (isAlive()) this.#end(monotonicMs(), parts.outcome);
        }),
      );
    } else {
      const natural_ms = started_ms + parts.lasts_ms;
      later(world, rest(parts.lasts_ms, this.#over.signal).then(() => this.#end(natural_ms, parts.outcome)));
    }
    later(world, this.#watch());
  }

  /** The guard's view: silence kills. */
  async #watch(): Promise<void> {
    const { guard } = this.#parts;
    while (!this.#over.signal.aborted && guard.guarded_until_ms < Infinity) {
      const due_ms = guard.guarded_until_ms;
      if (monotonicMs() >= due_ms) return this.strike(due_ms);
      await rest(due_ms - monotonicMs(), this.#over.signal);
    }
  }

  /** Killed by the guard, at a moment that may lie a little ahead. */
  strike(at_ms: number): void {
    this.#end(at_ms, { kind: "LOST", error_summary: "its guard struck", exit_code: null });
  }

  tell(words: ToStepBody): void {
    if (!this.#over.signal.aborted) this.#steps?.hear(words);
  }

  alert(): void {}

  suspend(): void {
    this.#end(this.#steps?.acted_ms ?? monotonicMs(), { kind: "SUSPENDED", exit_code: null });
  }

  fail(error: { error_name: string; error_summary: string }): void {
    this.#endSoon(30, { kind: "FAILED", retry: "never", exit_code: null, ...error });
  }

  cancel(reason: string): void {
    this.#endSoon(150, { kind: "CANCELED", error_summary: reason, exit_code: null });
  }

  abandon(reason: string): void {
    this.#endSoon(30, { kind: "LOST", error_summary: reason, exit_code: null });
  }

  #endSoon(within_ms: number, outcome: Outcome): void {
    const { world } = this.#parts;
    later(
      world,
      rest(world.chance.between(1, within_ms), this.#over.signal).then(() => this.#end(monotonicMs(), outcome)),
    );
  }

  /** Whichever end comes first by its time; the guard's goes before one that would be later than it. */
  #end(at_ms: number, outcome: Outcome): void {
    if (this.#over.signal.aborted) return;
    const { guard, process, linger_ms } = this.#parts;
    const struck_ms = guard.guarded_until_ms;
    const struck = at_ms > struck_ms && !process.crashed;
    if (struck) [at_ms, outcome] = [struck_ms, { kind: "LOST", error_summary: "its guard struck", exit_code: null }];
    this.#over.abort();
    this.#effect.ended_ms = Math.max(at_ms, this.#effect.started_ms) + linger_ms;
    this.#effect.outcome = outcome.kind;
    if (outcome.kind === "FAILED") this.#effect.retryable = outcome.retry !== "never";
    if (outcome.kind === "TIMED_OUT") this.#effect.retryable = true;
    later(this.#parts.world, process.passes().then(() => this.#resolve(outcome))); // nobody learns it from a process that is no more
  }
}

function neverStarted(): Body {
  const outcome: Outcome = {
    kind: "LOST",
    error_summary: "Not started: this worker may run nothing now",
    exit_code: null,
  };
  return { pid: 0, waits: false, outcome: Promise.resolve(outcome), cancel() {}, abandon() {} };
}
