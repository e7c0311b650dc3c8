/** A durable body in its real process: what it says, when it freezes, and what brings it back. Its worker is the test. */
import assert from "node:assert/strict";
import type { OpenRow, RunJournal } from "../../../src/sandbox/frames/step_frames.ts";
import { anOpenRow, aRow, journalOf } from "../../support/durable_scene.ts";
import { SpokenBody } from "../../support/spoken_body.ts";

const FLOWS = new URL("../../support/bodies/flows.ts", import.meta.url);
const GO = { key: "message:go", outcome: "DONE", result: { yes: true }, message_id: 3, sent_by: "ann" } as const;

async function withBody(
  args: string,
  use: (body: SpokenBody) => Promise<void>,
  more: Parameters<SpokenBody["order"]>[1] = {},
): Promise<void> {
  const body = new SpokenBody(FLOWS);
  try {
    body.order(args, more);
    await use(body);
  } finally {
    await body.close();
  }
}

Deno.test("a body freezes where only its waits are open, goes on with what has arrived, and leaves when it is suspended", async () => {
  await withBody("message", async (body) => {
    assert.equal(await body.nextStep(), "step:make DONE 1");
    assert.deepEqual([await body.nextStep(), await body.nextStep()], ["message:go WAITING", "sleep: WAITING"]);
    const { soonest_in_ms, handles } = await body.next("waiting");
    assert(soonest_in_ms !== null && soonest_in_ms > 3_500_000 && soonest_in_ms <= 3_600_000 && !handles);
    body.say({ kind: "arrived", arrivals: [] });
    await body.next("waiting");
    body.say({ kind: "arrived", arrivals: [GO] });
    assert.equal(await body.nextStep(), "message:go DONE 2");
    assert.equal(await body.nextStep(), "sleep:#2 DONE 3");
    const { n } = await body.next("ask");
    body.say({ kind: "told", n, value: "https://x/m/812" });
    assert.deepEqual((await body.next("result")).result, { first: { yes: true }, url: "https://x/m/812" });
    assert.equal((await body.ended).code, 0);
    assert.equal(body.frames.some(({ kind }) => kind === "replaying"), false);
  });
  await withBody("message", async (body) => {
    for (let n = 0; n < 3; n++) await body.nextStep();
    await body.next("waiting");
    body.say({ kind: "suspend" });
    assert.equal((await body.ended).code, 0);
    const said = body.frames.map(({ kind }) => kind);
    assert.equal(said.some((kind) => ["exiting", "result", "error"].includes(kind)), false, said.join());
  });
});

Deno.test("a body that goes on is replayed: its log is silent, its prints are between two marks, and now() is the row's", async () => {
  const journal = journalOf([aRow("step:make", 1, { result: { at: "then" }, ended_unix_ms: 1_800_000_000_000 })], [
    anOpenRow("message:go"),
    anOpenRow("sleep:", { until_in_ms: 60_000 }),
  ], { arrived: [GO] });
  await withBody("message", async (body) => {
    assert.deepEqual((await body.next("replaying")).on, true);
    assert.equal((await body.next("replaying")).on, false);
    assert.equal(await body.nextStep(), "message:go DONE 2");
    assert.match(body.text, /printed in attempt 2\n/);
    assert.equal(body.frames.some(({ kind }) => kind === "log"), false);
  }, { journal, attempt: 5, suspensions: 3 });
});

Deno.test("a busy body is told by a signal that there is something to read", async () => {
  await withBody("busy", async (body) => {
    assert.equal(await body.nextStep(), "message:go WAITING");
    body.say({ kind: "arrived", arrivals: [GO] });
    body.signal("SIGURG");
    const { n, what } = await body.next("ask");
    assert.equal(what, "arrivals");
    body.say({ kind: "told", n, value: null });
    assert.equal(await body.nextStep(), "message:go DONE 1");
    assert.deepEqual((await body.next("result")).result, { yes: true });
  });
});

Deno.test("handles that are no steps keep a body loaded for five quiet seconds, and not longer", async () => {
  await withBody("handles", async (body) => {
    await body.nextStep();
    assert.deepEqual(await body.next("waiting"), { kind: "waiting", soonest_in_ms: null, handles: true });
    assert.match((await body.next("log")).message, /^Nothing has happened for 5 s, and the run waits/);
    body.say({ kind: "arrived", arrivals: [GO] });
    await body.nextStep();
    assert.deepEqual((await body.next("result")).result, { yes: true });
  });
});

Deno.test("a frozen body is awake for a signal, and its waits reject", async () => {
  await withBody("canceled", async (body) => {
    await body.nextStep();
    await body.next("waiting");
    body.say({ kind: "awake" });
    await body.next("waiting"); // no signal came
    body.say({ kind: "awake" });
    body.signal("SIGHUP");
    assert.equal((await body.next("noticed")).listening, true);
    assert.deepEqual((await body.next("result")).result, ["Canceled", "The run was canceled", true]);
  });
});

Deno.test("what can never settle, delay, again and the rest of the context are as they should", async () => {
  await withBody("never", async (body) => assert.equal((await body.next("error")).error.name, "NeverSettled"));
  await withBody("delay", async (body) => {
    assert.match(
      String((await body.next("result")).result),
      /inside the body of a job: call\(flows, args\) gives its result/,
    );
  });
  await withBody("again", async (body) => assert.deepEqual((await body.next("result")).again, { args: { page: 2 } }));
  await withBody("rest", async (body) => {
    const names = (await body.next("result")).result as string[];
    for (const name of ["call", "callMany", "each", "isNew", "random", "start", "uuid", "waitForEvent"]) {
      assert(names.includes(name), name);
    }
  });
});

Deno.test("changed code continues, fails or begins again, as the job says", async () => {
  const changed = (on_change: RunJournal["on_change"]) => ({
    journal: journalOf([aRow("step:make", 1, { code_digest: "0ld", result: { at: "old" } })], [], { on_change }),
  });
  await withBody(
    "message",
    async (body) => assert.equal(await body.nextStep(), "message:go WAITING"),
    changed("continue"),
  );
  await withBody("message", async (body) => {
    const { error } = await body.next("error");
    assert.deepEqual([error.name, error.retry], ["CodeChanged", "never"]);
    assert.match(error.message, /deno task runs fork 812$/);
  }, changed("fail"));
  await withBody("message", async (body) => {
    const { n, what } = await body.next("ask");
    assert.equal(what, "restart");
    body.say({ kind: "told", n, value: null });
    assert.equal(await body.nextStep(), "step:make DONE 1");
  }, changed("restart"));
});

Deno.test("a run that is to end undoes what it has done, and says only that", async () => {
  const undone: Partial<OpenRow> = { has_undo: true };
  const journal = journalOf([aRow("step:reserve", 1, { ...undone, result: 4 } as never)], [anOpenRow("message:go")], {
    ending: "CANCELED",
  });
  await withBody("undo", async (body) => {
    assert.equal(await body.nextStep(), "undo:reserve DONE 2");
    const log = await body.next("log");
    assert.equal(log.message, "release 4");
    assert.equal((await body.next("result")).result, null);
  }, { journal });
});

Deno.test("one process serves several durable runs, each with a count of its own, unless one leaves something open", async () => {
  await withBody("step", async (body) => {
    body.order("step", { job_run_id: 813, last: false }); // it is read while the first waits for its row
    assert.equal(await body.nextStep(), "step:a DONE 1");
    const { result: pid } = await body.next("result");
    assert.equal(await body.nextStep(), "step:a DONE 1");
    assert.equal((await body.next("result")).result, pid);
    body.order("dangling", { job_run_id: 814, last: false });
    assert.equal(await body.nextStep(), "sleep: WAITING");
    assert.equal(await body.nextStep(), "step:a DONE 1");
    assert.equal((await body.next("result")).result, 1);
    assert.equal((await body.ended).code, 0);
  }, { last: false });
});
