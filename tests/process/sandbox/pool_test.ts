/** Spare processes and reuse: when a process serves a run that it was not started for, and when never. */
import assert from "node:assert/strict";
import type { BodyOrder, Outcome, ProcessPool } from "../../../src/sandbox/process_pool.ts";
import { hear } from "../../../src/platform/facts.ts";
import { membersOf } from "../../../src/sandbox/process_table.ts";
import { groupGone, Heard, orderFor, ran, withSandbox } from "../../support/bodies.ts";
import { waitFor } from "../../support/waiting.ts";

interface Served {
  runs: number;
  pid: number;
  found: string[];
}

function servedBy(outcome: Outcome): Served {
  assert(outcome.kind === "SUCCEEDED", JSON.stringify(outcome));
  return outcome.result as unknown as Served;
}

/** Whether a run was given a process that was there before. */
async function ranInSpare(sandbox: ProcessPool, order: BodyOrder): Promise<boolean> {
  let spare: boolean | undefined;
  const stop = hear((name, fact) => {
    if (name === "body.spawned") spare = (fact as { spare: boolean }).spare;
  });
  await ran(sandbox, order);
  stop();
  assert(spare !== undefined);
  return spare;
}

/** Processes of the sandbox with this folder that run the job. */
function processesOf(state_dir: string, job_name: string): number[] {
  return [...Deno.readDirSync("/proc")].map(({ name }) => Number(name)).filter((pid) => {
    try {
      const command = Deno.readTextFileSync(`/proc/${pid}/cmdline`);
      return command.includes(state_dir) && command.includes(`${job_name}.ts`);
    } catch {
      return false;
    }
  });
}

async function sparesAre(state_dir: string, job_name: string, count: number): Promise<number[]> {
  return await waitFor(`${count} spares of ${job_name}`, () => {
    const pids = processesOf(state_dir, job_name);
    return Promise.resolve(pids.length === count ? pids : undefined);
  });
}

Deno.test("after a run a spare of the same job is ready, and serves one run of it", () =>
  withSandbox(async (sandbox, state_dir) => {
    const order = orderFor("counts", "plain");
    const first = servedBy((await ran(sandbox, order)).outcome);
    const [spare] = await sparesAre(state_dir, "counts", 1);
    const second = await ran(sandbox, order);
    assert.deepEqual(servedBy(second.outcome), { runs: 1, pid: spare, found: [] });
    assert.notEqual(first.pid, spare);
    assert.deepEqual(second.said("stdout"), ["loaded"], "what it printed ahead is in the log of its run");
    const [next] = await sparesAre(state_dir, "counts", 1);
    assert.notEqual(next, spare);
  }, { spares: 2 }));

Deno.test("a spare is never used for another digest, other permissions, other memory or another job", () =>
  withSandbox(async (sandbox, state_dir) => {
    const order = orderFor("counts", "plain");
    await ran(sandbox, order);
    await sparesAre(state_dir, "counts", 1);
    assert.equal(await ranInSpare(sandbox, { ...order, digest: "digest-2" }), false);
    assert.equal(await ranInSpare(sandbox, { ...order, permissions: { net: ["a:1"] } }), false);
    assert.equal(await ranInSpare(sandbox, { ...order, memory_mb: 129 }), false);
    assert.equal(await ranInSpare(sandbox, orderFor("add", { a: 1, b: 1 })), false);
    assert.equal(await ranInSpare(sandbox, order), true);
  }, { spares: 9 }));

Deno.test("there are never more spares than allowed; the least recently used goes", () =>
  withSandbox(async (sandbox, state_dir) => {
    await ran(sandbox, orderFor("counts", "plain"));
    await sparesAre(state_dir, "counts", 1);
    await waitFor("a run of another job to find a spare", async () => { // once the other one has been there for a while
      return await ranInSpare(sandbox, orderFor("add", { a: 1, b: 1 })) || undefined;
    });
    await sparesAre(state_dir, "counts", 0);
    await sparesAre(state_dir, "add", 1);
  }, { spares: 1 }));

Deno.test("many kinds at once do not end each other's spares before they were used", () =>
  withSandbox(async (sandbox, state_dir) => {
    const kinds = ["one", "two", "three", "four"].map((digest) => orderFor("counts", "plain", { digest }));
    for (const kind of kinds) sandbox.expect(kind, 1);
    const loaded = await sparesAre(state_dir, "counts", 2);
    for (const kind of kinds.slice(0, 2)) assert(loaded.includes(servedBy((await ran(sandbox, kind)).outcome).pid));
  }, { spares: 2 }));

Deno.test("reused processes of many kinds idle beyond the spares while memory is free, and go when it is short", () =>
  withSandbox(async (sandbox, state_dir) => {
    const { systemMemoryInfo } = Deno;
    let free = 1;
    Deno.systemMemoryInfo = () => ({ ...systemMemoryInfo(), total: 100, available: 100 * free });
    try {
      const kinds = ["one", "two", "three"].map((digest) =>
        orderFor("counts", "plain", { digest, isolation_reuse: 9 })
      );
      for (const kind of kinds) await ran(sandbox, kind);
      await sparesAre(state_dir, "counts", 3);
      free = 0.2;
      await sparesAre(state_dir, "counts", 1);
      assert.equal(await ranInSpare(sandbox, kinds[2] as BodyOrder), true, "the oldest went");
    } finally {
      Deno.systemMemoryInfo = systemMemoryInfo;
    }
  }, { spares: 1 }));

Deno.test("without spares every run has a process of its own, and none is left", () =>
  withSandbox(async (sandbox) => {
    const order = orderFor("counts", "plain", { isolation_reuse: 5 });
    const one = servedBy((await ran(sandbox, order)).outcome);
    const two = servedBy((await ran(sandbox, order)).outcome);
    assert.notEqual(one.pid, two.pid);
    assert.deepEqual([...membersOf(one.pid), ...membersOf(two.pid)], []);
  }));

Deno.test("a spare that was killed is not used", () =>
  withSandbox(async (sandbox, state_dir) => {
    const order = orderFor("counts", "plain");
    await ran(sandbox, order);
    const [spare] = await sparesAre(state_dir, "counts", 1) as [number];
    Deno.kill(spare, "SIGKILL");
    const at_once = servedBy((await ran(sandbox, order)).outcome); // before its end can be known here
    assert.notEqual(at_once.pid, spare);
    const [next] = await sparesAre(state_dir, "counts", 1) as [number];
    Deno.kill(next, "SIGKILL");
    await groupGone(next);
    assert.notEqual(servedBy((await ran(sandbox, order)).outcome).pid, next);
  }, { spares: 1 }));

Deno.test("with reuse one process serves n runs, in a clean folder each, and is then replaced", () =>
  withSandbox(async (sandbox) => {
    const order = orderFor("counts", "plain", { isolation_reuse: 3 });
    const served: Served[] = [];
    for (let run = 0; run < 4; run++) served.push(servedBy((await ran(sandbox, order)).outcome));
    assert.deepEqual(served.map(({ runs }) => runs), [1, 2, 3, 1]);
    assert.equal(new Set(served.slice(0, 3).map(({ pid }) => pid)).size, 1);
    assert.notEqual(served[3]?.pid, served[0]?.pid);
    assert.deepEqual(served.map(({ found }) => found), [[], [], [], []]);
    await groupGone(served[0]?.pid as number);
  }, { spares: 1 }));

Deno.test("all that a run in a reused process says is in its own log", () =>
  withSandbox(async (sandbox) => {
    for (let run = 0; run < 3; run++) {
      const heard = await ran(sandbox, orderFor("counts", "stderr", { isolation_reuse: 9 }));
      assert.deepEqual(heard.said("stderr"), Array.from({ length: 500 }, (_, line) => `line ${line}`));
      assert.equal(heard.said("info").length, 1);
    }
  }, { spares: 1 }));

Deno.test("a throw keeps a reused process, an exit, a cancel and late output replace it", () =>
  withSandbox(async (sandbox) => {
    const serve = (args: string) => ran(sandbox, orderFor("counts", args, { isolation_reuse: 9 }));
    const one = servedBy((await serve("plain")).outcome);
    assert.equal((await serve("throw")).outcome.kind, "FAILED");
    assert.deepEqual(servedBy((await serve("plain")).outcome), { runs: 3, pid: one.pid, found: [] });
    const exited = (await serve("exit")).outcome;
    assert.equal(exited.kind === "FAILED" && exited.error_name, "Exited");
    const two = servedBy((await serve("talk on")).outcome);
    assert.equal(two.runs, 1);
    await groupGone(two.pid);
    assert.equal(servedBy((await serve("plain")).outcome).runs, 1);
  }, { spares: 1 }));

Deno.test("a job that can start processes is never reused", () =>
  withSandbox(async (sandbox) => {
    const order = orderFor("counts", "plain", { isolation_reuse: 9, permissions: { unsafe: { run: ["sh"] } } });
    assert.equal(servedBy((await ran(sandbox, order)).outcome).runs, 1);
    assert.equal(servedBy((await ran(sandbox, order)).outcome).runs, 1);
  }, { spares: 1 }));

Deno.test("many bodies at once do not disturb each other", () =>
  withSandbox(async (sandbox) => {
    const sums = await Promise.all(Array.from({ length: 12 }, async (_, n) => {
      const heard = new Heard(sandbox, orderFor("add", { a: n, b: n }));
      const outcome = await heard.body.outcome;
      return outcome.kind === "SUCCEEDED" ? (outcome.result as { sum: number }).sum : outcome;
    }));
    assert.deepEqual(sums, Array.from({ length: 12 }, (_, n) => 2 * n));
  }, { spares: 3 }));
