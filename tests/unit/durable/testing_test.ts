/** The test kit, as a job's author uses it: `dandori/testing`. */
import assert from "node:assert/strict";
import { defineJob } from "dandori";
import { testRun } from "dandori/testing";
import { z } from "zod";

interface Api {
  make(args: unknown): { id: number };
  mail(text: string, key: string): void;
}
declare const api: Api;

const onboarding = defineJob({
  args: z.object({ mail: z.string() }),
  messages: { confirmed: z.object({ at: z.string() }) },
  async run({ args, step, sleep, waitFor, callbackUrl }) {
    const { id } = await step("make account", () => api.make(args));
    const url = await callbackUrl("confirmed");
    const send = (text: string) => step(`${text} mail`, ({ key }) => api.mail(text + url, key));
    await send("welcome");
    if (!await waitFor("confirmed", { timeout: "3 days" })) {
      await send("reminder");
      if (!await waitFor("confirmed", { timeout: "4 days" })) return { account: id, confirmed: false };
    }
    await sleep("1 day");
    await send("tips");
    return { account: id, confirmed: true };
  },
});
const steps = { "make account": () => ({ id: 7 }), "*": () => null };
const args = { mail: "a@b.c" };

Deno.test("a run waits until its message is sent, and crashes anywhere without a difference", async () => {
  const t = await testRun(onboarding, { args, steps });
  assert.equal(t.state, "SUSPENDED");
  assert.deepEqual(t.waits, [{ kind: "message", name: "confirmed", until: "+3 d" }]);
  await t.send("confirmed", { at: "2026-12-01" });
  assert.deepEqual(t.waits, [{ kind: "sleep", name: "", until: "+1 d" }]);
  assert.deepEqual(await t.end, { account: 7, confirmed: true });
  assert.equal(t.now.toISOString(), "2026-01-02T00:00:00.000Z");
  assert.deepEqual(t.steps.map(({ key, state }) => `${key} ${state}`), [
    "step:make account DONE",
    "step:welcome mail DONE",
    "message:confirmed DONE",
    "sleep: DONE",
    "step:tips mail DONE",
  ]);
  await t.crashEverywhere();
});

Deno.test("time passes as the test says, each limit in its turn", async () => {
  const t = await testRun(onboarding, { args, steps, startsAt: "2026-06-01T12:00:00Z" });
  await t.advance("2 days");
  assert.deepEqual(t.waits[0]?.until, "+1 d");
  await t.advance("1 day");
  assert.deepEqual(t.waits, [{ kind: "message", name: "confirmed", until: "+4 d" }]);
  await t.advance("10 days");
  assert.deepEqual([t.state, t.now.toISOString()], ["SUCCEEDED", "2026-06-14T12:00:00.000Z"]);
  assert.deepEqual(await t.end, { account: 7, confirmed: false });
  await t.crashEverywhere();
});

Deno.test("what a test says wrongly is told at once", async () => {
  const t = await testRun(onboarding, { args, steps });
  await assert.rejects(t.send("confirmd", {}), /no message of the job; it declares "confirmed"/);
  await assert.rejects(t.send("confirmed", { at: 7 }), /its payload does not fit: at: /);
  await assert.rejects(t.advance("soon"), /Cannot advance by "soon"/);
  const endless = await testRun(defineJob({ messages: { go: z.null() }, run: ({ waitFor }) => waitFor("go") }));
  await assert.rejects(endless.end, /The run waits for message "go", which only the test can bring/);
});

Deno.test("what differs between two calls of run is named", async () => {
  let calls = 0;
  const fickle = defineJob({
    async run({ step, sleep }) {
      await step("list", () => 1);
      await sleep("1 h");
      await step(calls++ === 0 ? "charge" : "invoice", () => 1);
    },
  });
  calls = -1;
  const t = await testRun(fickle);
  await t.end;
  await assert.rejects(
    t.crashEverywhere(),
    /^Error: After 0 of 4 rows were written, run\(\) requested step "charge" instead of step "invoice"$/,
  );
  const chance = defineJob({
    async run({ step, sleep }) {
      if (calls++ > 0) return;
      await step("list", () => 1);
      await sleep("1 h");
    },
  });
  calls = 0;
  const diverged = await testRun(chance);
  await assert.rejects(diverged.end, /^Diverged: run 1 of .* does not request it/);
});

Deno.test("calls are mocked, or run the job that is given; events and bulks come too", async () => {
  const render = defineJob({ args: z.object({ page: z.number() }), run: ({ args }) => `page ${args.page}` });
  const report = defineJob({
    async run({ call, callMany, start, waitForEvent }) {
      const one = await call<typeof render>("render", { page: 1 });
      const many = await callMany<typeof render>("render", [{ page: 2 }, { page: 3 }]);
      const results = [];
      for await (const result of many.results()) results.push(result);
      const bad = await call("bad", {}).catch((error) => `${error.name} ${error.errorName} ${error.summary}`);
      const { id } = await start("notify", {});
      return {
        one,
        results,
        many: many.succeeded,
        bad,
        id,
        event: await waitForEvent("done", { where: { n: [1, 2] } }),
      };
    },
  });
  const t = await testRun(report, {
    calls: {
      bad: () => {
        throw new RangeError("no");
      },
    },
  });
  assert.deepEqual(t.waits, [{ kind: "call", name: "render" }]);
  await t.calls("render", ({ page }: { page: number }) => `mock ${page}`);
  assert.deepEqual(t.waits, [{ kind: "event", name: "done" }]);
  await t.emit("done", { n: 3 });
  await t.emit("done", { n: 2 });
  const expected = {
    one: "mock 1",
    results: ["mock 2", "mock 3"],
    many: 2,
    bad: "ChildFailed RangeError no",
    id: 5,
    event: { n: 2 },
  };
  assert.deepEqual(await t.end, expected);
  await t.crashEverywhere();
  const real = await testRun(defineJob({ run: ({ call }) => call(render, { page: 9 }) }));
  await real.calls(render);
  assert.equal(await real.end, "page 9");
});

Deno.test("a run that fails or is canceled is undone", async () => {
  const did: string[] = [];
  const order = defineJob({
    retry: { max: 2, backoffSeconds: 60 },
    messages: { go: z.null() },
    async run({ step, waitFor }) {
      await step("reserve", () => 4, { undo: (it) => void did.push(`release ${it}`) });
      await waitFor("go");
      await step("charge", () => Promise.reject(new Error("refused")));
    },
  });
  const failed = await testRun(order);
  await failed.send("go");
  assert.deepEqual(failed.waits, [{ kind: "retry", name: "charge", until: "+1 min" }]);
  await assert.rejects(failed.end, /^StepFailed: step "charge" failed 3 times: Error: refused$/);
  assert.deepEqual([failed.state, did], ["FAILED", ["release 4"]]);
  assert.equal(failed.steps.at(-1)?.key, "undo:reserve");
  await failed.crashEverywhere();
  const canceled = await testRun(order);
  await canceled.cancel();
  assert.deepEqual([canceled.state, did], ["CANCELED", ["release 4", "release 4"]]);
});

Deno.test("parallel items go the same way after a crash anywhere; equal names without a scope are an error", async () => {
  const poll = defineJob({
    args: z.array(z.string()),
    run: ({ args, each }) =>
      each(args, async (file, { step, sleep, random }) => {
        for (let n = 0;; n++) {
          const state = await step("look", () => n > file.length);
          if (state) return `${file} ${random()}`;
          await sleep(file.length * 3);
        }
      }, { parallel: 2, key: (file) => file }),
  });
  const t = await testRun(poll, { args: ["a", "bb", "ccc"] });
  await t.end;
  await t.crashEverywhere();
  const same = defineJob({
    run: ({ step }) => Promise.all([1, 2].map(async () => [await step("look", () => 1), await step("look", () => 1)])),
  });
  await assert.rejects(
    (await testRun(same)).end,
    /^AmbiguousName: "step:look" was requested again before it had ended/,
  );
});

Deno.test("a run that fails by its own code is tried again with its journal; one that fails by a step is not", async () => {
  const did: string[] = [];
  const own = defineJob({
    retry: { max: 2, backoffSeconds: 60, jitter: 0 },
    async run({ step, attempt }) {
      await step("list", () => did.push("list"));
      if (attempt < 3) throw new Error(`attempt ${attempt}`);
      return attempt;
    },
  });
  const t = await testRun(own);
  assert.deepEqual([await t.end, did], [3, ["list"]]);
  assert.equal(t.now.toISOString(), "2026-01-01T00:03:00.000Z", "a minute, and two");
  await t.crashEverywhere();
  const by_step = await testRun(own, { steps: { list: () => Promise.reject(new TypeError("no")) } });
  await assert.rejects(by_step.end, /^StepFailed: step "list" failed 3 times: TypeError: no$/);
});

Deno.test("a run may go on in a new one", async () => {
  const t = await testRun(defineJob({ run: ({ again }) => again({ page: 2 }) }));
  assert.deepEqual([t.state, t.again], ["SUCCEEDED", { page: 2 }]);
});
