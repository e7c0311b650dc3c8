/** What a body says last and what is wished for it meet: which of them is its outcome. Its process is the test. */
import assert from "node:assert/strict";
import type { Json } from "../../../src/job.ts";
import { RunningBody } from "../../../src/sandbox/body.ts";
import { alarms, type BodyLine } from "../../../src/sandbox/endable_body.ts";
import { type FromBody, MOST_UNTOLD_MS } from "../../../src/sandbox/frames.ts";
import type { BodyOrder } from "../../../src/sandbox/body_order.ts";
import type { Outcome } from "../../../src/sandbox/outcome.ts";
import type { Child, ChildEnd } from "../../../src/sandbox/process.ts";
import { orderFor } from "../../support/bodies.ts";
import { withClock } from "../../support/clock.ts";
import { english } from "../../../src/locale/english.ts";

const LONG_MS = 60_000;
const END: ChildEnd = {
  ...{ code: 0, signal: null, was_ready: true, last_words: "" },
  ...{ left_others: false, heard: true, unguarded: undefined },
};

/** A body whose `run` was called, alone in its process, and what is done to that. */
class Begun {
  readonly did: string[] = [];
  readonly body: RunningBody;
  /** What it is to be told once nobody is behind it. */
  #acts: (() => void)[] = [];

  constructor(order: Partial<BodyOrder> = {}) {
    const nobody = { onLog: () => {}, onProgress: () => {}, onSteps: () => {} };
    const setting = {
      project_dir: "/",
      replace: () => assert.fail("it has begun"),
      onLastStarted: () => {},
      onOver: () => {},
      lapses: () => 0,
    };
    const child = { pid: 1, signal: (signal: string) => this.did.push(signal) } as unknown as Child;
    const line: BodyLine = {
      child,
      length: 0,
      add: () => {},
      recall: () => {},
      alone: (act) => void this.#acts.push(act),
      terminate: () => this.did.push("TERM"),
      kill: () => this.did.push("KILL"),
    };
    const patient = { timeout_ms: LONG_MS, kill_grace_ms: LONG_MS, ...order };
    this.body = new RunningBody(orderFor("add", {}, patient), { key: "", listener: nobody, setting });
    this.body.enter(line, { last: true, own: true });
    this.body.front();
    this.says({ kind: "started" });
  }

  says(frame: FromBody): void {
    this.body.hear(frame);
  }

  returns(result: Json): void {
    this.says({ kind: "result", result });
  }

  throws(name: string): void {
    this.says({
      kind: "error",
      error: { phase: "run", name, message: "", stack: "", causes: [], retry: "policy" },
    });
  }

  /** Nobody is behind it any more. */
  alone(): void {
    for (const act of this.#acts.splice(0)) act();
  }

  /** Its process ends. */
  ends(end: Partial<ChildEnd> = {}): Promise<Outcome> {
    this.body.ended({ ...END, ...end }, undefined);
    return this.body.outcome;
  }
}

/** Resolves when what was to happen within so many milliseconds has happened: alarms ring in the order of their times. */
const passed = (ms: number) => new Promise<void>((resolve) => void alarms.after(ms, resolve));

const result = (outcome: Outcome) => outcome.kind === "SUCCEEDED" ? outcome.result : outcome;

Deno.test("the first verdict counts, whatever is said after it", async () => {
  const twice = new Begun();
  twice.returns("first");
  twice.returns("second");
  assert.equal(result(await twice.ends()), "first");

  const late = new Begun();
  late.returns("first");
  late.throws("Late");
  assert.equal(result(await late.ends()), "first");

  const thrown = new Begun();
  thrown.throws("First");
  thrown.returns("second");
  const outcome = await thrown.ends({ code: 1 });
  assert(outcome.kind === "FAILED" && outcome.error_name === "First", JSON.stringify(outcome));
});

Deno.test("what comes after its verdict is no end of it: neither its timeout, nor a cancel, nor that it is abandoned or killed", async () => {
  const timed = new Begun({ timeout_ms: 1 });
  timed.returns("in time");
  await passed(2);
  timed.alone();
  assert.deepEqual(timed.did, []);
  assert.equal(result(await timed.ends()), "in time");

  const canceled = new Begun();
  canceled.returns("in time");
  canceled.body.cancel("asked by ann");
  canceled.alone();
  assert.deepEqual(canceled.did, []);
  assert.equal(result(await canceled.ends()), "in time");

  const abandoned = new Begun();
  abandoned.returns("in time");
  abandoned.body.abandon("it belongs to another");
  assert.deepEqual(abandoned.did, ["KILL"], "what it left open need not be waited for");
  assert.equal(result(await abandoned.ends({ code: null, signal: "SIGKILL" })), "in time");
});

Deno.test("a timeout of which it was not told yet does not override its verdict, one of which it was told does", async () => {
  const untold = new Begun({ timeout_ms: 1 });
  await passed(2);
  untold.returns("by itself");
  untold.alone();
  assert.deepEqual(untold.did, []);
  assert.equal(result(await untold.ends()), "by itself");

  const told = new Begun({ timeout_ms: 1 });
  await passed(2);
  told.alone();
  assert.deepEqual(told.did, ["SIGUSR2"]);
  told.returns("when it was told");
  const outcome = await told.ends();
  assert(outcome.kind === "TIMED_OUT", JSON.stringify(outcome));
  assert.match(english(outcome.error_summary), /it ended by itself after its signal$/);
});

Deno.test("what a run took is what it says, however late its worker hears of its beginning and its end", async () => {
  await withClock(async (clock) => {
    const late = new Begun(); // its beginning was heard at once, its end long after
    clock.ms += 250;
    late.says({ kind: "result", result: null, took_ms: 50 });
    assert.equal(late.body.took_ms, 50);

    const together = new Begun();
    together.says({ kind: "result", result: null, took_ms: 50 });
    assert.equal(together.body.took_ms, 50);

    const quick = new Begun(); // one that says nothing took less than this
    clock.ms += 250;
    quick.returns(null);
    assert.equal(quick.body.took_ms, MOST_UNTOLD_MS);
    await Promise.all([late.ends(), together.ends(), quick.ends()]);
  });
});
