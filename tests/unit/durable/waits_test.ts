/** What a run waits for: its rows, its limits, what ends it, and that none of it keeps a process alive. */
import assert from "node:assert/strict";
import { Canceled, ChildFailed, DeadlinePassed, type Json, StepFailed } from "../../../src/job.ts";
import { durationMs, instantMs } from "../../../src/sandbox/child/durations.ts";
import { seededRandom, seededUuid } from "../../../src/sandbox/child/seeded.ts";
import { anOpenRow, aRow, type Body, DurableScene, journalOf, STARTED_UNIX_MS } from "../../support/durable_scene.ts";

const errorOf = (scene: DurableScene) => (scene.outcome as { error: Error }).error;

Deno.test("a short sleep is one row and keeps the process; a long one is written first and does not", async () => {
  const scene = new DurableScene(({ sleep }) => Promise.all([sleep(5, "short"), sleep("6 s", "long")]));
  await scene.commitAll();
  assert.deepEqual(scene.said, ["sleep:long WAITING"]);
  assert.equal(scene.steps[0]?.until_in_ms, 6_000);
  assert.deepEqual(scene.timers.map(({ ms, keeps }) => [ms, keeps]), [[5_000, true], [6_000, false]]);
  for (const { act } of [...scene.timers]) act();
  await scene.commitAll();
  assert.deepEqual(scene.said.slice(1), ["sleep:short DONE 1", "sleep:long DONE 2"]);
  assert("value" in Object(scene.outcome));
});

Deno.test("a sleep under way ends when it said; until an instant is told as that", async () => {
  const body: Body = async ({ sleep, sleepUntil }) => {
    await sleep("7 days");
    await sleepUntil(new Date(STARTED_UNIX_MS + 60_000));
    await sleepUntil("2001-01-01T00:00:00Z", "past");
  };
  const open = [anOpenRow("sleep:", { until_in_ms: 90_000 })];
  const scene = new DurableScene(body, { journal: journalOf([], open) });
  await scene.settle();
  assert.deepEqual([scene.said, scene.run.soonest_in_ms], [[], 90_000]);
  assert.equal(await scene.idle(), "waiting");
  await scene.arrive({ key: "sleep:", outcome: "DONE" });
  await scene.commitAll();
  assert.equal(scene.steps[1]?.until_unix_ms, STARTED_UNIX_MS + 60_000);
  await scene.arrive({ key: "sleep:#2", outcome: "DONE" });
  await scene.commitAll();
  scene.timers.find(({ keeps }) => keeps)?.act();
  await scene.commitAll();
  assert.deepEqual(scene.said, ["sleep: DONE 1", "sleep:#2 WAITING", "sleep:#2 DONE 2", "sleep:past DONE 3"]);
});

Deno.test("a message takes one wait, each wait one message, and the row says which", async () => {
  const body: Body = async ({ waitFor }) => [
    await waitFor("approval", {
      ask: "Wipe?",
      show: { device: 4 },
      who: ["role:operator"],
      notBy: "ann",
      remind: "1 day",
    }),
    await waitFor("approval", { withSender: true }),
    await waitFor("approval", { timeout: "3 days" }) ?? "nobody",
  ];
  const scene = new DurableScene(body, { messages: ["approval"] });
  await scene.commitAll();
  const { waits_for, prompt } = scene.steps[0] ?? {};
  const asked = { ask: "Wipe?", show: { device: 4 }, who: ["role:operator"], notBy: "ann", remind_seconds: 86_400 };
  assert.deepEqual([waits_for, prompt], ["approval", asked]);
  const first = {
    key: "message:approval",
    outcome: "DONE",
    result: { ok: true },
    message_id: 31,
    sent_by: "bob",
  } as const;
  await scene.arrive(first);
  await scene.arrive(first);
  await scene.commitAll();
  await scene.arrive({ ...first, key: "message:approval#2" });
  assert.equal(scene.said.at(-1), "message:approval#2 WAITING", "message 31 is taken");
  await scene.arrive({ ...first, key: "message:approval#2", message_id: 32 });
  await scene.commitAll();
  assert.equal(scene.steps.at(-1)?.until_in_ms, 3 * 86_400_000);
  await scene.arrive({ key: "message:approval#3", outcome: "TIMED_OUT" });
  await scene.commitAll();
  assert.deepEqual(scene.steps.flatMap(({ message_id = 0 }) => message_id || []), [31, 32]);
  assert.deepEqual(scene.outcome, { value: [{ ok: true }, { payload: { ok: true }, sentBy: "bob" }, "nobody"] });
  const replayed = new DurableScene(body, { messages: ["approval"], journal: scene.journalAfter(scene.steps.length) });
  await replayed.settle();
  assert.deepEqual(replayed.outcome, scene.outcome);
});

Deno.test("when the limit of a message has passed, the worker is asked, and the database decides", async () => {
  const scene = new DurableScene(({ waitFor }) => waitFor("go", { timeout: 60 }));
  await scene.commitAll();
  scene.timers.splice(0, 1)[0]?.act();
  await scene.settle();
  assert.deepEqual(scene.frames.at(-1), { kind: "ask", n: 1, what: "arrivals" });
  assert.equal(scene.run.unanswered, true);
  scene.run.hear({ kind: "told", n: 1, value: null });
  await scene.settle();
  assert.deepEqual(scene.timers.map(({ ms }) => ms), [60_000], "its clock is behind: it is asked again in a moment");
  await scene.arrive({ key: "message:go", outcome: "DONE", result: 1, message_id: 1 });
  await scene.commitAll();
  assert.deepEqual(scene.outcome, { value: 1 });
});

Deno.test("what had arrived when the run was started again is taken as soon as it is asked for", async () => {
  const arrived = [{ key: "message:go", outcome: "DONE" as const, result: "x", message_id: 5 }];
  const journal = journalOf([aRow("step:a", 1)], [anOpenRow("message:go")], { arrived });
  const scene = new DurableScene(async ({ step, waitFor }) => {
    await step("a", () => 1);
    return await waitFor("go");
  }, { journal });
  await scene.commitAll();
  assert.deepEqual([scene.said, scene.outcome], [["message:go DONE 2"], { value: "x" }]);
});

Deno.test("a call gives the child's result, or throws ChildFailed; what is refused throws too", async () => {
  const body: Body = async ({ call, start }) => {
    const results: unknown[] = [await call("render", { page: 1 } as never, { key: "1" })];
    for (const job of ["merge", "forbidden"]) results.push(await call(job, null as never).catch((error) => error));
    results.push(
      await start("notify", null as never, { runAt: new Date(0) }),
      await start("secret", null as never).catch((e) => e),
    );
    return results;
  };
  const scene = new DurableScene(body);
  await scene.commitAll();
  assert.deepEqual(scene.steps[0]?.child, { job: "render", args: { page: 1 } });
  const failed = { outcome: "FAILED", error_name: "E", error_summary: "why" } as const;
  await scene.arrive({ key: "call:render[1]", outcome: "DONE", result: { url: "u" }, child_run_id: 900 });
  await scene.commitAll();
  assert.equal(scene.steps.at(-2)?.result, undefined, "it is stored with the child");
  await scene.arrive({ key: "call:merge", ...failed, child_run_id: 901 });
  await scene.commitAll();
  await scene.arrive({ key: "call:forbidden", ...failed, error_name: "NotPermitted" });
  await scene.settle();
  await scene.commit();
  assert.deepEqual(scene.steps.at(-1)?.child, {
    job: "notify",
    args: null,
    options: { runAt: "1970-01-01T00:00:00.000Z" },
  });
  await scene.arrive({ key: "start:notify", outcome: "DONE", child_run_id: 902 });
  await scene.commit();
  await scene.arrive({ key: "start:secret", ...failed });
  await scene.commitAll();
  const [url, child, refused, started, not_started] = (scene.outcome as { value: unknown[] }).value as [
    Json,
    ...Error[],
  ];
  assert.deepEqual([url, started], [{ url: "u" }, { id: 902 }]);
  assert(child instanceof ChildFailed && child.run === 901 && child.message === 'run 901 of "merge" failed: E: why');
  assert(refused instanceof StepFailed && refused.message === 'call "forbidden" failed: NotPermitted: why');
  assert(not_started instanceof StepFailed && not_started.message === 'start "secret" failed: E: why');
});

Deno.test("the items of a bulk are told in pieces before its row, and its results are read page by page", async () => {
  const items = Array.from({ length: 5 }, (_, n) => ({ n, text: "x".repeat(100_000) }));
  const scene = new DurableScene(async ({ callMany }) => {
    const done = await callMany("render", items as never[], { parallel: 2 });
    const results = [];
    for await (const result of done.results()) results.push(result);
    return { ...done, results };
  });
  const told: number[] = [];
  for (let n = 1; n <= 3; n++) {
    await scene.settle();
    const ask = scene.frames.at(-1);
    assert(ask?.kind === "ask" && ask.what === "items" && ask.n === n && scene.steps.length === 0);
    told.push(ask.at, ask.items.length);
    scene.run.hear({ kind: "told", n, value: null });
  }
  await scene.commitAll();
  assert.deepEqual(told, [0, 2, 2, 2, 4, 1]);
  assert.deepEqual(scene.steps[0]?.child, { job: "render", items: 5, options: { parallel: 2 } });
  await scene.arrive({ key: "bulk:render", outcome: "DONE", result: { succeeded: 4, failed: 1 }, child_bulk_id: 77 });
  await scene.commitAll();
  for (const [n, next] of [[4, 2], [5, null]] as [number, number | null][]) {
    assert.deepEqual(scene.frames.at(-1), { kind: "ask", n, what: "results", bulk_id: 77, after: n === 4 ? -1 : 2 });
    scene.run.hear({ kind: "told", n, value: { results: [{ at: n, result: n }], next } });
    await scene.settle();
  }
  const { results, id, succeeded, failed } = (scene.outcome as { value: Record<string, unknown> }).value;
  assert.deepEqual({ results, id, succeeded, failed }, { results: [4, 5], id: 77, succeeded: 4, failed: 1 });
});

Deno.test("once it is canceled, what is waited for rejects and nothing new begins", async () => {
  const began: string[] = [];
  const scene = new DurableScene(async ({ waitFor, sleep, step }) => {
    const all = await Promise.allSettled([waitFor("go"), sleep("1 h"), sleep(1)]);
    const late = await step("late", () => began.push("late")).catch((error) => error);
    return [...all.map((one) => (one as PromiseRejectedResult).reason), late].map(({ name, message }) =>
      `${name}: ${message}`
    );
  });
  await scene.commitAll();
  scene.run.cancel(new Canceled("The run was canceled"));
  await scene.commitAll();
  assert.deepEqual(scene.outcome, { value: Array(4).fill("Canceled: The run was canceled") });
  assert.deepEqual(began, []);
});

Deno.test("past its deadline a run that waits is replayed to where it waits, and only then rejects", async () => {
  const seen: string[] = [];
  const body: Body = async ({ step, waitFor }) => {
    seen.push(String(await step("a", () => 1)));
    await waitFor("go").catch((error) => seen.push(error.constructor === DeadlinePassed ? "deadline" : String(error)));
    await step("b", () => seen.push("b"));
  };
  const journal = journalOf([aRow("step:a", 1, { result: "A" })], [anOpenRow("message:go")], { ending: "TIMED_OUT" });
  const scene = new DurableScene(body, { journal });
  await scene.commitAll();
  assert.deepEqual([seen, scene.said, scene.outcome], [["A", "deadline"], [], { value: null }]);
});

Deno.test("isNew is true in a new run, and false for one that had passed here", async () => {
  const body: Body = async ({ step, isNew, waitFor }) => {
    await step("a", () => 1);
    const is_new = await isNew("fraud check");
    if (is_new) await step("check", () => 1);
    await waitFor("go");
    return is_new;
  };
  const fresh = new DurableScene(body);
  await fresh.commitAll();
  assert.deepEqual(fresh.said, ["step:a DONE 1", "mark:fraud check DONE 2", "step:check DONE 3", "message:go WAITING"]);
  const later = async (...recorded: Parameters<typeof journalOf>) => {
    const scene = new DurableScene(body, { journal: journalOf(...recorded) });
    await scene.commitAll();
    await scene.arrive({ key: "message:go", outcome: "DONE", result: 1, message_id: 1 });
    await scene.commitAll();
    return [scene.said, (scene.outcome as { value: unknown }).value];
  };
  assert.deepEqual(await later([aRow("step:a", 1)], [anOpenRow("message:go")]), [["message:go DONE 2"], false]);
  const marked = [aRow("step:a", 1), aRow("mark:fraud check", 2), aRow("step:check", 3)];
  assert.deepEqual(await later(marked, [anOpenRow("message:go")]), [["message:go DONE 4"], true]);
});

Deno.test("items of each are done so many at a time, each in its scope, and fail together at the end", async () => {
  let at_once = 0;
  let most = 0;
  const body: Body = ({ each }) =>
    each([3, 1, 2], async (item, { step }, index) => {
      most = Math.max(most, ++at_once);
      const value = await step("submit", () => item * 10);
      at_once--;
      if (item === 1) throw new Error(`item ${item}`);
      return { value, index, at: new Date(0) };
    }, { parallel: 2, key: (item) => `k]${item}` });
  const scene = new DurableScene(body);
  await scene.commitAll();
  assert.deepEqual(scene.said, ["[k\\]3]step:submit DONE 1", "[k\\]1]step:submit DONE 2", "[k\\]2]step:submit DONE 3"]);
  assert.equal(most, 2);
  const error = errorOf(scene) as AggregateError;
  assert.deepEqual([error.message, error.errors.map(({ message }) => message)], ["1 of 3 items failed", ["item 1"]]);
  const refused = new DurableScene(({ each }) => each([1, 2], () => 1, { key: () => "same" }));
  await refused.settle();
  assert.match(errorOf(refused).message, /^Cannot do each: two items have the key \[same\]$/);
});

Deno.test("now, random, uuid and a callback's end are the same in every replay, and differ by scope and run", async () => {
  const body: Body = async ({ step, now, random, uuid, callbackUrl, each }) => {
    const first = [now().getTime(), random(), random(), uuid()];
    await step("a", () => 1);
    const inner = await each([1, 2], (_, tools) => tools.uuid());
    return [...first, now().getTime(), uuid(), ...inner, await callbackUrl("go", { expires: "1 day" })];
  };
  const live = new DurableScene(body);
  await live.commitAll();
  const again = new DurableScene(body, { journal: live.journalAfter(1) });
  await again.settle();
  for (const scene of [live, again]) {
    const ask = scene.frames.find(({ kind }) => kind === "ask");
    assert.deepEqual(ask, {
      kind: "ask",
      n: 1,
      what: "callback",
      name: "go",
      expires_unix_ms: STARTED_UNIX_MS + 86_401_000,
    });
    scene.run.hear({ kind: "told", n: 1, value: "https://x/m/812" });
    await scene.settle();
  }
  assert.deepEqual(again.outcome, live.outcome);
  const values = (live.outcome as { value: unknown[] }).value;
  assert.equal(new Set(values).size, values.length, "all differ");
  assert.deepEqual([values[0], values[4]], [STARTED_UNIX_MS, STARTED_UNIX_MS + 1000]);
  assert.match(String(values[3]), /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const uuids = Array.from({ length: 20_000 }, (_, n) => seededUuid(`job 812 ${n}`));
  assert.equal(new Set(uuids).size, uuids.length);
  const mean = Array.from({ length: 20_000 }, (_, n) => seededRandom(`job 812 ${n}`)).reduce((sum, n) => sum + n, 0) /
    20_000;
  assert(Math.abs(mean - 0.5) < 0.02, `their mean is ${mean}`);
});

Deno.test("durations and instants are read as they are written, or refused with what to write", () => {
  for (
    const [text, seconds] of [[90, 90], ["90 s", 90], ["3 days", 259_200], ["2 h 30 min", 9_000], ["1.5 h", 5_400], [
      "1 week",
      604_800,
    ]]
  ) {
    assert.equal(durationMs(text, "sleep"), Number(seconds) * 1000);
  }
  for (const wrong of ["", "3", "3 d", "days", "3 days or so", -1, NaN, Infinity, "3651 days", null, undefined, {}]) {
    assert.throws(() => durationMs(wrong, "sleep"), /^TypeError: Cannot sleep /);
  }
  const at_ms = Date.UTC(2026, 11, 24, 18);
  const instant = Temporal.Instant.fromEpochMilliseconds(at_ms);
  const same = [
    new Date(at_ms),
    instant,
    instant.toZonedDateTimeISO("Asia/Tokyo"),
    "2026-12-24T18:00:00Z",
    "2026-12-25T03:00+09:00",
  ];
  for (const when of same) assert.equal(instantMs(when, "sleep until"), at_ms);
  for (const wrong of ["2026-12-24T18:00:00", "tomorrow", new Date(NaN), 5, null]) {
    assert.throws(
      () => instantMs(wrong, "sleep until"),
      /^TypeError: Cannot sleep until .*give a Date, a Temporal\.Instant/,
    );
  }
});
