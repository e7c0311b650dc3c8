/**
 * The durable part of a body (durable_body.ts), loaded when it is needed: it would be a fourth of what a process needs to start.
 *
 * Loaded before the job is ready where its `run` names something of it, before `run` where the run has a journal, else at the first call.
 * Calls that come before it is loaded wait for it in their order.
 */
import type { Durable } from "../../job.ts";
import type { DurableRun } from "./durable.ts";
import type { BodyHooks, DurableBody, DurableBodyOrder } from "./durable_body.ts";

type Tools = DurableRun["tools"];
type Name = keyof Durable;

/** What gives its results at once cannot wait until it is loaded. */
const AT_ONCE: readonly Name[] = ["now", "random", "uuid"];
const NAMES =
  "step|sleep|sleepUntil|waitFor|waitForEvent|call|callMany|start|each|callbackUrl|isNew|again|now|random|uuid";
const TAKEN = new RegExp(`\\b(${NAMES})\\b`);
const CALLED = new RegExp(`\\.(${NAMES})\\(`);

let loading: Promise<typeof import("./durable_body.ts")> | undefined;
let loaded: typeof import("./durable_body.ts") | undefined;

function load(): Promise<typeof import("./durable_body.ts")> {
  return loading ??= import("./durable_body.ts").then((module) => loaded = module);
}

/** Loads it if `run` looks as if it would use it: takes it out of the context by name, or calls it there. */
export async function loadIfNamed(run: (...args: never[]) => unknown): Promise<void> {
  const text = Function.prototype.toString.call(run);
  const [, taken] = /^[^(]*\(\s*\{([^}]*)\}/.exec(text) ?? [];
  if (taken === undefined ? CALLED.test(text) : TAKEN.test(taken)) await load();
}

export class LazyDurable {
  readonly #order: DurableBodyOrder;
  readonly #hooks: BodyHooks;
  #body: DurableBody | undefined;

  constructor(order: DurableBodyOrder, hooks: BodyHooks) {
    this.#order = order;
    this.#hooks = hooks;
  }

  /** Once something durable was asked for. */
  get body(): DurableBody | undefined {
    return this.#body;
  }

  async load(): Promise<DurableBody> {
    const { DurableBody } = await load();
    return this.#body ??= new DurableBody(this.#order, this.#hooks);
  }

  #call(name: Name, args: unknown[]): never {
    if (loaded) this.#body ??= new loaded.DurableBody(this.#order, this.#hooks);
    if (this.#body) return callTool(this.#body.tools, name, args);
    if (!AT_ONCE.includes(name)) return this.load().then(({ tools }) => callTool(tools, name, args)) as never;
    const fix = `run({ args, ${name} }) { ... }`;
    throw new Error(
      `Cannot call ${name} of a context that was handed on whole: name it where \`run\` takes it, ${fix}`,
    );
  }

  /** Functions of their own, so that they can be taken out of the context as one likes; they cost a run 1 us. */
  tools(): Durable {
    return {
      step: (...args) => this.#call("step", args),
      sleep: (...args) => this.#call("sleep", args),
      sleepUntil: (...args) => this.#call("sleepUntil", args),
      waitFor: (...args) => this.#call("waitFor", args),
      waitForEvent: (...args) => this.#call("waitForEvent", args),
      call: (...args) => this.#call("call", args),
      callMany: (...args) => this.#call("callMany", args),
      start: (...args) => this.#call("start", args),
      each: (...args) => this.#call("each", args),
      callbackUrl: (...args) => this.#call("callbackUrl", args),
      isNew: (...args) => this.#call("isNew", args),
      now: (...args) => this.#call("now", args),
      random: (...args) => this.#call("random", args),
      uuid: (...args) => this.#call("uuid", args),
      again: (...args) => this.#call("again", args),
    };
  }
}

function callTool(tools: Tools, name: Name, args: unknown[]): never {
  return (tools[name] as (...args: unknown[]) => never)(...args);
}
