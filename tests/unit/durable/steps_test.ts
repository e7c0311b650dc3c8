/** Steps: their tries, their ends, what undoes them, and what is refused. */
import assert from "node:assert/strict";
import { ChildFailed, Fatal, type Json, RetryAfter, StepFailed } from "../../../src/job.ts";
import { describeError } from "../../../src/sandbox/child/thrown.ts";
import type { StepFrame } from "../../../src/sandbox/frames/step_frames.ts";
import { readFrame } from "../../../src/sandbox/frames/frame_reader.ts";
import { anOpenRow, aRow, type Body, DurableScene, journalOf } from "../../support/durable_scene.ts";

/** A timer that is no pause: to look whether a replay goes on. */
const REPLAY_LOOK_MS = 30_000;

class ConnectError extends Error {
  override name = "ConnectError";
}

const errorOf = (scene: DurableScene) => (scene.outcome as { error: Error & Partial<StepFailed> }).error;

/** Lets the pauses of tries pass. */
async function passPauses(scene: DurableScene): Promise<number[]> {
  const pauses: number[] = [];
  for (await scene.commitAll(); scene.timers.length > 0; await scene.commitAll()) {
    const [{ act, ms }] = scene.timers.splice(0, 1) as [DurableScene["timers"][number]];
    if (ms === REPLAY_LOOK_MS) continue;
    pauses.push(ms);
    act();
  }
  return pauses;
}

Deno.test("each failed try is committed before the next begins, with the policy of the step, else of the job", async () => {
  const tries: number[] = [];
  const scene = new DurableScene(({ step }) =>
    step("charge", ({ tries: n, key }) => {
      tries.push(n);
      if (n < 3) throw new ConnectError(`refused ${key}`);
      return n;
    }), { retry: { max: 3, backoffSeconds: 2, factor: 10, jitter: 0 } });
  await scene.settle();
  assert.deepEqual([scene.said, tries], [["step:charge TRYING"], [1]]);
  assert.deepEqual(await passPauses(scene), [2_000, 20_000]);
  assert.deepEqual(scene.said, ["step:charge TRYING", "step:charge TRYING", "step:charge DONE 1"]);
  assert.deepEqual(scene.steps.map((frame) => frame.tries), [1, 2, 3]);
  assert.equal(scene.steps[0]?.error_summary, "refused dandori-812-charge");
  assert.deepEqual(scene.outcome, { value: 3 });
  assert.match(scene.logs[0] ?? "", /^warn: step "charge" failed \(try 1 of 4\): ConnectError: refused .*\n\s+at /);
});

Deno.test("Fatal ends the tries, RetryAfter sets the time, a named policy goes before, once is no retry", async () => {
  const failing = async (error: Error, options: { once?: true; retry?: number } = {}) => {
    const retry = { max: 1, backoffSeconds: 1, jitter: 0, on: { ConnectError: { max: 2, backoffSeconds: 3 } } };
    const scene = new DurableScene(({ step }) => step("s", () => Promise.reject(error), options), { retry });
    const pauses = await passPauses(scene);
    return { pauses, tries: errorOf(scene).tries, said: scene.said };
  };
  assert.deepEqual(await failing(new Fatal("no")), { pauses: [], tries: 1, said: ["step:s FAILED 1"] });
  assert.deepEqual((await failing(new RetryAfter(4))).pauses, [4_000]);
  assert.deepEqual((await failing(new ConnectError("x"))).pauses, [3_000, 6_000]);
  assert.deepEqual((await failing(new Error("x"), { retry: 0 })).tries, 1);
  assert.deepEqual((await failing(new Error("x"), { once: true })).said, ["step:s BEGUN", "step:s FAILED 1"]);
});

Deno.test("a pause goes on where it was, and a step that was interrupted is done again uncounted", async () => {
  const body: Body = ({ step }) => step("s", ({ tries }) => tries);
  const trying = new DurableScene(body, {
    journal: journalOf([], [anOpenRow("step:s", { state: "TRYING", tries: 2, until_in_ms: 60_000 })]),
  });
  await trying.settle();
  assert.deepEqual([trying.said, trying.run.soonest_in_ms, trying.timers[0]?.keeps], [[], 60_000, false]);
  await passPauses(trying);
  assert.deepEqual(trying.outcome, { value: 3 });
  const once: Body = ({ step }) => step("s", () => 1, { once: true });
  const begun = new DurableScene(once, { journal: journalOf([], [anOpenRow("step:s", { state: "BEGUN" })]) });
  await begun.commitAll();
  assert.equal(errorOf(begun).errorName, "Interrupted");
  assert.deepEqual(begun.said, ["step:s FAILED 1"]);
});

Deno.test("what is caught is the same live and in a replay, and a run that ends with it is not retried", async () => {
  const body: Body = async ({ step }) => {
    try {
      await step("charge", () => Promise.reject(new ConnectError("refused")));
    } catch (error) {
      const { name, message, step, tries, errorName, summary } = error as StepFailed;
      return JSON.stringify([error instanceof StepFailed, name, message, step, tries, errorName, summary]);
    }
  };
  const live = new DurableScene(body);
  await live.commitAll();
  const again = new DurableScene(body, { journal: live.journalAfter(1) });
  await again.settle();
  assert.deepEqual(live.outcome, {
    value: JSON.stringify([
      true,
      "StepFailed",
      'step "charge" failed: ConnectError: refused',
      "charge",
      1,
      "ConnectError",
      "refused",
    ]),
  });
  assert.deepEqual(again.outcome, live.outcome);
  const failed = new StepFailed("s", { tries: 1, errorName: "E", summary: "x" });
  const child = new ChildFailed("j", { run: 7, errorName: "E", summary: "x" });
  const holders = [failed, child, new Error("x", { cause: failed }), new AggregateError([new Error("y"), child])];
  assert.deepEqual(holders.map((error) => describeError(error).retry), holders.map(() => "never"));
  assert.equal(describeError(new Error("x", { cause: new Error("y") })).retry, "policy");
});

Deno.test("a try that takes too long has failed as TimedOut, and its signal says so", async () => {
  let told: unknown;
  const scene = new DurableScene(({ step }) =>
    step("s", ({ signal }) => {
      signal.addEventListener("abort", () => told = signal.reason);
      return new Promise(() => {});
    }, { timeoutSeconds: 20 })
  );
  await scene.settle();
  assert.deepEqual(scene.timers.map(({ ms, keeps }) => [ms, keeps]), [[20_000, false]]);
  scene.timers[0]?.act();
  await scene.commitAll();
  assert.equal(
    errorOf(scene).message,
    'step "s" failed: TimedOut: it took more than 20 s (timeoutSeconds of the step)',
  );
  assert.equal((told as DOMException).name, "TimeoutError");
});

Deno.test("work that can no longer settle has failed as NeverSettled", async () => {
  const scene = new DurableScene(({ step }) => step("s", () => new Promise(() => {})));
  assert.equal(await scene.idle(), "going");
  await scene.commitAll();
  assert.equal(errorOf(scene).errorName, "NeverSettled");
});

Deno.test("what cannot be stored fails the step at once, naming the place and what to do", async () => {
  const failing = async (value: unknown) => {
    const scene = new DurableScene(({ step }) => step("s", () => value as Json, { retry: 5 }));
    await scene.commitAll();
    for (const frame of scene.steps) assert(readFrame(JSON.stringify(frame)), "its row can be stored");
    return `${errorOf(scene).errorName}: ${errorOf(scene).summary}`;
  };
  assert.match(
    await failing({ rows: [new Map()] }),
    /^InvalidResult: .*it\.rows\[0\] is a Map; give Object\.fromEntries/,
  );
  assert.match(
    await failing("x".repeat(1024 * 1024)),
    /is 1048578 bytes of JSON, at most 1048576 can be stored: keep it elsewhere/,
  );
  assert.match(await failing("a\0b"), /holds a text with \\u0000 or half a surrogate pair/);
  assert.match(await failing({ toJSON: () => undefined }), /cannot be stored as JSON/);
});

Deno.test("more rows or results than a run may have are refused, and nearly full is said before", async () => {
  const body: Body = async ({ step }) => {
    for (let n = 0; n < 5; n++) await step("s", () => "x".repeat(300_000));
  };
  const many = new DurableScene(body, { limits: { max_steps: 2 } });
  await many.commitAll();
  assert.match(
    errorOf(many).message,
    /^Cannot request "step:s#3": the run has 2 rows already: let other jobs do a part/,
  );
  const large = new DurableScene(body, { limits: { max_journal_mb: 1 } });
  await large.commitAll();
  assert.equal(errorOf(large).errorName, "JournalFull");
  assert.match(large.logs[0] ?? "", /^warn: the results of the run's steps fill 80 % of 1 MiB/);
});

Deno.test("a step inside the work of a step is refused, also after an await of the work", async () => {
  for (const late of [false, true]) {
    const scene = new DurableScene(({ step }) =>
      step("outer", async () => {
        if (late) await new Promise((resolve) => setTimeout(resolve, 1));
        await step("inner", () => 1);
      }, { retry: 5 })
    );
    await scene.settle();
    await new Promise((resolve) => setTimeout(resolve, 5));
    await scene.commitAll();
    assert.match(errorOf(scene).summary ?? "", /^Cannot request this inside the work of a step/);
    assert.deepEqual(scene.said, ["step:outer FAILED 1"]);
  }
  const beside = new DurableScene(({ step }) => Promise.all([step("a", () => aMoment()), step("b", () => aMoment())]));
  await aMoment();
  await beside.commitAll();
  assert.deepEqual(beside.said, ["step:a DONE 1", "step:b DONE 2"]);
});

function aMoment(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}

Deno.test("a name that is none, or a key that is too long, is refused with what to do", async () => {
  const refusal = async (body: Body) => {
    const scene = new DurableScene(body, { messages: ["approval"] });
    await scene.commitAll();
    assert.deepEqual(scene.said, []);
    return errorOf(scene).message;
  };
  assert.match(
    await refusal(({ step }) => step(undefined as never, () => 1)),
    /^Cannot request a step: its name is no text but of type undefined$/,
  );
  assert.match(await refusal(({ step }) => step("", () => 1)), /its name is empty: say what it does$/);
  assert.match(await refusal(({ step }) => step("a\nb", () => 1)), /its name holds what is no character/);
  assert.match(await refusal(({ step }) => step("é".repeat(180), () => 1)), /its key has 365 bytes, at most 300/);
  assert.match(
    await refusal(({ step }) => step("s", "work" as never)),
    /^Cannot do step "s": its work is no function$/,
  );
  assert.match(await refusal(({ waitFor }) => waitFor("aproval")), /no message of onboarding, it has "approval"/);
  assert.match(
    await refusal(({ sleep }) => sleep("3 dayz")),
    /^Cannot sleep "3 dayz": give seconds, or a text such as "90 s"/,
  );
  assert.match(
    await refusal(({ call }) => call({ name: undefined } as never, 1 as never)),
    /^Cannot call a job that has no name/,
  );
});

Deno.test("what has begun is undone in reverse order of request, each as a step of its own", async () => {
  const did: string[] = [];
  const body: Body = async ({ step }) => {
    const undoing = (name: string) => ({
      undo: (result: unknown, { key }: { key: string }) =>
        void did.push(`undo ${name} ${JSON.stringify(result)} ${key}`),
    });
    await step("reserve", () => ({ id: 4 }), undoing("reserve"));
    await Promise.allSettled([
      step("charge", () => did.push("charge"), { once: true, ...undoing("charge") }),
      step("mail", () => "sent", undoing("mail")),
      step("plain", () => 1),
    ]);
    await step("never begun", () => did.push("never"), undoing("never"));
  };
  const undone = { has_undo: true };
  const rows = [
    aRow("step:reserve", 1, { ...undone, result: { id: 4 } }),
    aRow("step:mail", 2, { ...undone, result: "sent" }),
  ];
  const open = [anOpenRow("step:charge", { state: "BEGUN", ...undone })];
  const scene = new DurableScene(body, { journal: journalOf(rows, open, { ending: "CANCELED" }) });
  await scene.commitAll();
  await scene.idle();
  await scene.commitAll();
  assert.deepEqual(did, [
    'undo mail "sent" dandori-812-mail',
    "undo charge undefined dandori-812-charge",
    'undo reserve {"id":4} dandori-812-reserve',
  ]);
  assert.deepEqual(scene.said, ["undo:mail DONE 3", "undo:charge DONE 4", "undo:reserve DONE 5"]);
  assert.deepEqual(scene.outcome, { value: null });
  assert(scene.abort.signal.aborted);
  // interrupted after two of them
  did.length = 0;
  const later = journalOf(
    [...rows, aRow("undo:mail", 3), aRow("undo:charge", 4)],
    open,
    { ending: "CANCELED" },
  );
  const again = new DurableScene(body, { journal: later });
  await again.commitAll();
  await again.idle();
  await again.commitAll();
  assert.deepEqual([did, again.said], [['undo reserve {"id":4} dandori-812-reserve'], ["undo:reserve DONE 5"]]);
});

Deno.test("what has an undo and is no longer requested fails the undoing, once all else is undone", async () => {
  const did: string[] = [];
  const body: Body = ({ step }) => step("charge", () => 1, { undo: () => void did.push("refund") });
  const rows = [
    aRow("step:reserve", 1, { has_undo: true, code_digest: "0ld" }),
    aRow("step:charge", 2, { has_undo: true }),
  ];
  const scene = new DurableScene(body, { journal: journalOf(rows, [], { ending: "CANCELED" }) });
  for (let n = 0; n < 3 && !scene.outcome; n++) {
    await scene.idle();
    await scene.commitAll();
  }
  assert.deepEqual(did, ["refund"]);
  assert.equal(errorOf(scene).name, "UndoFailed");
  assert.equal(errorOf(scene).message, 'the code that runs now does not request step "reserve", and so cannot undo it');
});

Deno.test("a name that looks like another with its number gets a key of its own", async () => {
  const scene = new DurableScene(async ({ step }) => {
    for (const name of ["a#2", "a", "a", "a"]) await step(name, () => name);
  });
  await scene.commitAll();
  assert.deepEqual(scene.said, ["step:a#2 DONE 1", "step:a DONE 2", "step:a#3 DONE 3", "step:a#4 DONE 4"]);
});

Deno.test("an undo is tried three times more, and then the run says which could not be done", async () => {
  const body: Body = ({ step }) => step("charge", () => 1, { undo: () => Promise.reject(new ConnectError("refused")) });
  const journal = journalOf([aRow("step:charge", 1, { has_undo: true })], [], { ending: "FAILED" });
  const scene = new DurableScene(body, { journal, retry: { backoffSeconds: 1, factor: 1, jitter: 0 } });
  await scene.settle();
  assert.deepEqual(await passPauses(scene), [1_000, 1_000, 1_000]);
  assert.equal(errorOf(scene).name, "UndoFailed");
  assert.equal(errorOf(scene).message, 'undo "charge" failed 4 times: ConnectError: refused');
  assert.equal(describeError(errorOf(scene)).retry, "never");
});

Deno.test("steps with undo or once are begun in Postgres before they are done", async () => {
  const began: string[] = [];
  const scene = new DurableScene(({ step }) => step("charge", () => void began.push("charge"), { undo: () => {} }));
  await scene.settle();
  assert.deepEqual([began, scene.said], [[], ["step:charge BEGUN"]]);
  await scene.commitAll();
  assert.deepEqual(scene.said, ["step:charge BEGUN", "step:charge DONE 1"]);
  assert((scene.steps as StepFrame[]).every(({ has_undo }) => has_undo));
});
