/** Timeout, cancel and abandon: each step of ending a body, and that nothing of it is left. */
import assert from "node:assert/strict";
import { hear } from "../../../src/platform/facts.ts";
import { within } from "../../../src/platform/timers.ts";
import { membersOf } from "../../../src/sandbox/process_table.ts";
import type { Outcome } from "../../../src/sandbox/outcome.ts";
import type { BodyOrder } from "../../../src/sandbox/body_order.ts";
import type { ProcessPool } from "../../../src/sandbox/process_pool.ts";
import { groupGone, Heard, orderFor, ran, withSandbox } from "../../support/bodies.ts";
import { PATIENCE_MS, waitFor } from "../../support/waiting.ts";
import { english } from "../../../src/locale/english.ts";
import { stored } from "../../../src/locale/message.ts";

const SHELLS = { unsafe: { run: ["sh"] } };

/** Runs a body of `hangs` to its timeout. That is short, and longer each time on a machine too busy for the body to begin. */
async function timedOut(sandbox: ProcessPool, how: string, options: Partial<BodyOrder> = {}): Promise<Late> {
  for (let timeout_ms = 300;; timeout_ms *= 3) {
    const heard = await ran(sandbox, orderFor("hangs", how, { timeout_ms, ...options }));
    const { outcome } = heard;
    assert.equal(outcome.kind, "TIMED_OUT");
    const began = heard.said("info").includes("running");
    if (began || timeout_ms > LONG_MS) return Object.assign(heard, { end: endOf(outcome, timeout_ms / 1000) });
  }
}

type Late = Heard & { outcome: Outcome; end: string };
const LONG_MS = 20_000;
/** Longer than any test. */
const ENDLESS_MS = 3_600_000;

/** What its summary says after its timeout. */
function endOf(outcome: Outcome, seconds: number): string {
  const said = `Timed out after ${seconds} s: `;
  const summary = "error_summary" in outcome ? english(outcome.error_summary) : "";
  assert(summary.startsWith(said), summary);
  return summary.slice(said.length);
}

Deno.test("at its timeout a body that watches its signal may end by itself", () =>
  withSandbox(async (sandbox) => {
    const { outcome, end } = await timedOut(sandbox, "stops when told", { kill_grace_ms: 30_000 });
    assert.equal(end, "it ended by itself after its signal");
    assert.deepEqual({ ...outcome, error_summary: "" }, { kind: "TIMED_OUT", error_summary: "", exit_code: 0 });
  }));

Deno.test("at its timeout a body that does not watch its signal is ended by TERM at once", () =>
  withSandbox(async (sandbox) => {
    const late = timedOut(sandbox, "never looks", { kill_grace_ms: ENDLESS_MS });
    const { end } = await within(PATIENCE_MS, "the end without a grace", late);
    assert.equal(end, "ended by TERM");
  }));

Deno.test("a body that watches its signal and goes on is ended by TERM after its grace", () =>
  withSandbox(async (sandbox) => {
    const heard = await timedOut(sandbox, "goes on", { kill_grace_ms: 1_000 });
    assert.equal(heard.end, "ended by TERM");
    assert.deepEqual(heard.said("info"), ["running", "TimeoutError: The run has reached its timeout"]);
  }));

Deno.test("a body that is signalled again and again, by itself say, has its grace once", () =>
  withSandbox(async (sandbox) => {
    const permissions = { unsafe: { run: true as const } };
    const { end } = await timedOut(sandbox, "signals itself", { kill_grace_ms: 1_000, permissions });
    assert.equal(end, "ended by TERM");
  }));

Deno.test("a body that ignores TERM is ended by KILL after its grace", () =>
  withSandbox(async (sandbox) => {
    const heard = await timedOut(sandbox, "ignores TERM", { kill_grace_ms: 1_000 });
    assert.equal(heard.end, "ended by KILL");
    assert.equal(heard.outcome.exit_code, null);
    assert.deepEqual(heard.said("info"), ["running", "TERM ignored"]);
  }));

Deno.test("a body that spins is ended at its timeout", () =>
  withSandbox(async (sandbox) => {
    const heard = await timedOut(sandbox, "spin", { kill_grace_ms: ENDLESS_MS });
    assert.equal(heard.end, "ended by TERM");
    assert.deepEqual(membersOf(heard.body.pid), []);
  }));

Deno.test("a canceled body is told so, and its end is CANCELED with the reason", () =>
  withSandbox(async (sandbox) => {
    const heard = new Heard(sandbox, orderFor("hangs", "goes on", { kill_grace_ms: 200 }));
    await heard.saying("running");
    heard.body.cancel("asked by ann");
    heard.body.cancel("asked again");
    assert.deepEqual(await heard.body.outcome, {
      kind: "CANCELED",
      error_summary: stored("runs.end.canceled_body", {
        reason: "asked by ann",
        how: { code: "runs.how.by", params: { step: "TERM" } },
      }),
      exit_code: null,
    });
    assert.deepEqual(heard.said("info"), ["running", "AbortError: The run was canceled"]);
  }));

Deno.test("a body that is canceled before it was called never is", () =>
  withSandbox(async (sandbox) => {
    const heard = new Heard(sandbox, orderFor("hangs", "spin"));
    heard.body.cancel("at once");
    const outcome = await heard.body.outcome;
    assert.match(
      outcome.kind === "CANCELED" ? english(outcome.error_summary) : "",
      /ended by KILL before run\(\) was called/,
    );
    assert.deepEqual(heard.lines, []);
  }));

Deno.test("a cancel after the end changes nothing", () =>
  withSandbox(async (sandbox) => {
    const heard = await ran(sandbox, orderFor("add", { a: 1, b: 1 }));
    heard.body.cancel("too late");
    heard.body.abandon("too late");
    assert.equal((await heard.body.outcome).kind, "SUCCEEDED");
  }));

Deno.test("an abandoned body is killed and LOST", () =>
  withSandbox(async (sandbox) => {
    const heard = new Heard(sandbox, orderFor("hangs", "ignores TERM"));
    await heard.saying("running");
    heard.body.abandon("the run belongs to another worker");
    assert.deepEqual(await heard.body.outcome, {
      kind: "LOST",
      error_summary: stored("runs.end.abandoned", { cause: "the run belongs to another worker" }),
      exit_code: null,
    });
  }));

Deno.test("a grandchild that ignores TERM is gone before the outcome: after a return", () =>
  withSandbox(async (sandbox) => {
    const heard = await ran(sandbox, orderFor("grandchild", "returns", { permissions: SHELLS }));
    assert.equal(heard.outcome.kind, "SUCCEEDED");
    assert.equal(heard.said("info").length, 1);
    assert.deepEqual(membersOf(heard.body.pid), []);
  }));

/** A body that waits for a grandchild which ignores TERM, and is canceled. */
async function canceledWithGrandchild(sandbox: ProcessPool, kill_grace_ms: number): Promise<Heard> {
  const heard = new Heard(sandbox, orderFor("grandchild", "waits", { permissions: SHELLS, kill_grace_ms }));
  await heard.saying("grandchild");
  assert(membersOf(heard.body.pid).length >= 2, "the grandchild is in the body's group");
  heard.body.cancel("enough");
  return heard;
}

Deno.test("a grandchild that ignores TERM is gone before the outcome: on cancel, after its grace", () =>
  withSandbox(async (sandbox) => {
    const killed: string[] = [];
    const stop = hear((name, fact) => name === "body.killed" && killed.push((fact as { signal: string }).signal));
    const heard = await canceledWithGrandchild(sandbox, 300);
    const outcome = await heard.body.outcome;
    stop();
    assert.deepEqual(membersOf(heard.body.pid), []);
    assert.match(outcome.kind === "CANCELED" ? english(outcome.error_summary) : "", /KILL$/);
    assert.deepEqual(killed.slice(0, 1), ["SIGTERM"]);
  }));

Deno.test("a grandchild that ignores TERM has its grace, also when the body itself has ended", () =>
  withSandbox(async (sandbox) => {
    const heard = await canceledWithGrandchild(sandbox, ENDLESS_MS);
    const group = heard.body.pid;
    await waitFor("the end of the body itself", () => Promise.resolve(!membersOf(group).includes(group)));
    Deno.kill(-group, "SIGKILL"); // by the test, before its time is over
    const outcome = await within(PATIENCE_MS, "the outcome", heard.body.outcome);
    assert(outcome.kind === "CANCELED", JSON.stringify(outcome));
    assert.match(english(outcome.error_summary), /ended by TERM$/);
  }));

Deno.test("a process that has left the group and holds the input of a body open takes no slot", () =>
  withSandbox(async (sandbox) => {
    const permissions = { unsafe: { run: ["setsid"] } };
    const heard = new Heard(sandbox, orderFor("leaves", "more than a pipe holds ".repeat(10_000), { permissions }));
    const left = await waitFor("a process to be left", () => Promise.resolve(heard.said("stdout")[0]));
    try {
      heard.body.cancel("enough");
      const outcome = await within(10_000, "the body", heard.body.outcome);
      assert.equal(outcome.kind, "CANCELED");
    } finally {
      Deno.kill(Number(left), "SIGKILL");
    }
  }));

Deno.test("closing a sandbox ends all its bodies, which are LOST", () =>
  withSandbox(async (sandbox) => {
    const bodies = ["spin", "ignores TERM"].map((args) => new Heard(sandbox, orderFor("hangs", args)));
    for (const heard of bodies) await heard.saying("running");
    await sandbox.close();
    for (const { body } of bodies) {
      assert.deepEqual(membersOf(body.pid), []);
      assert.match(JSON.stringify(await body.outcome), /"LOST".*runs\.cause\.worker_stopping/);
      await groupGone(body.pid);
    }
    const late = await ran(sandbox, orderFor("add", { a: 1, b: 1 }));
    assert.equal(late.outcome.kind, "LOST");
  }));
