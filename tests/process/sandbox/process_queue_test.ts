/** Runs that wait behind one another in one process: whose is what it says, and what becomes of them when it does not go on. */
import assert from "node:assert/strict";
import type { RunningBody } from "../../../src/sandbox/body.ts";
import type { FromBody } from "../../../src/sandbox/frames.ts";
import { ProcessQueue } from "../../../src/sandbox/process_queue.ts";
import { DurationEstimates, START_MS } from "../../../src/sandbox/duration_estimate.ts";
import type { Outcome, ProcessPool } from "../../../src/sandbox/process_pool.ts";
import type { Child, ChildListener } from "../../../src/sandbox/process.ts";
import { type BodyName, Heard, orderFor, ran, withSandbox } from "../../support/bodies.ts";
import { monotonicMs, rest } from "../../../src/platform/timers.ts";
import { waitFor } from "../../support/waiting.ts";
import { english } from "../../../src/locale/english.ts";

interface Served {
  pid: number;
  found: number;
}

type More = { timeout_ms?: number; isolation_reuse?: number; name?: BodyName };
const order = (job_run_id: number, args: string, { name = "waits", ...more }: More = {}) =>
  orderFor(name, args, { job_run_id, isolation_reuse: 1_000, ...more });

/** Whatever is measured on a busy machine. */
class Quick extends DurationEstimates {
  override mostInLine(): number {
    return 100;
  }
}

/** And recalls nobody: on a busy machine a run of 15 ms may be heard of after 50. */
class Unhurried extends Quick {
  override readonly patience_ms = 60_000;
}

/** A sandbox that knows this job as a quick one, and has one process for it. */
function withQuickJob(
  test: (sandbox: ProcessPool) => Promise<void>,
  pace: DurationEstimates = new Quick(),
  name: BodyName = "waits",
): Promise<void> {
  return withSandbox(async (sandbox) => {
    for (let run = 1; run <= PRIMED; run++) servedBy((await ran(sandbox, order(run, "prime", { name }))).outcome);
    await test(sandbox);
  }, { spares: 3, slots: () => 1, pace });
}

const PRIMED = 20;

function servedBy(outcome: Outcome): Served {
  assert(outcome.kind === "SUCCEEDED", JSON.stringify(outcome));
  return outcome.result as unknown as Served;
}

/** One that goes before, has begun, and does `args`; and `count` quick ones behind it. */
async function queued(sandbox: ProcessPool, args: string, count: number): Promise<{ front: Heard; behind: Heard[] }> {
  const front = new Heard(sandbox, order(100, args));
  const behind = Array.from({ length: count }, (_, place) => new Heard(sandbox, order(101 + place, `print ${place}`)));
  assert.equal(new Set(behind.map(({ body }) => body.pid)).size, 1, "they wait in one process");
  assert.equal(behind[0]?.body.pid, front.body.pid);
  await front.saying(`begun ${args}`);
  return { front, behind };
}

/** Each of them ran once, and what it said is in its own log. */
async function allRanOnce(behind: Heard[]): Promise<void> {
  for (const [place, heard] of behind.entries()) {
    assert.equal(servedBy(await heard.body.outcome).found, 0, "in a clean folder");
    assert.deepEqual(heard.said("info"), [`begun print ${place}`]);
    assert.deepEqual([heard.said("stdout"), heard.said("stderr")], [[`out ${place}`], [`err ${place}`]]);
  }
}

Deno.test("quick runs that come at once are done by one process, each with its own log and folder", () =>
  withQuickJob(async (sandbox) => {
    const all = Array.from({ length: 90 }, (_, place) => new Heard(sandbox, order(100 + place, `print ${place}`)));
    await allRanOnce(all);
    assert.equal(new Set(all.map(({ body }) => body.pid)).size, 1);
  }));

Deno.test("a process that is killed fails the run under way, and those behind it run elsewhere, once", () =>
  withQuickJob(async (sandbox) => {
    const { front, behind } = await queued(sandbox, "spin 3000", 50);
    Deno.kill(front.body.pid, "SIGKILL");
    const outcome = await front.body.outcome;
    assert.equal(outcome.kind === "FAILED" && outcome.error_name, "Killed");
    await allRanOnce(behind);
  }));

Deno.test("what came of a run is known while the one behind it is under way, whose process can be killed for it", () =>
  withQuickJob(async (sandbox) => {
    const [before, after] = [new Heard(sandbox, order(100, "print 0")), new Heard(sandbox, order(101, "spin 20000"))];
    assert.equal(before.body.pid, after.body.pid);
    await allRanOnce([before]);
    after.body.abandon("over");
    assert.equal((await after.body.outcome).kind, "LOST", "it had not ended");
  }));

Deno.test("a run that ends its process is alone to be blamed", () =>
  withQuickJob(async (sandbox) => {
    const { front, behind } = await queued(sandbox, "exit", 20);
    const outcome = await front.body.outcome;
    assert.equal(outcome.kind === "FAILED" && outcome.error_name, "Exited");
    await allRanOnce(behind);
  }));

for (
  const { args, kind } of [
    { args: "close stdout", kind: "FAILED" },
    { args: "close stderr", kind: "SUCCEEDED" },
    { args: "close stdin", kind: "SUCCEEDED" },
    { args: "leave", kind: "SUCCEEDED" },
  ]
) {
  Deno.test(`a run that spoils its process by "${args}" is alone to be blamed`, () =>
    withQuickJob(async (sandbox) => {
      for (let round = 0; round < 5; round++) {
        const { front, behind } = await queued(sandbox, args, 20);
        assert.equal((await front.body.outcome).kind, kind);
        await allRanOnce(behind);
      }
    }));
}

Deno.test("those behind a run that takes long are run elsewhere meanwhile, and its process goes on to serve", () =>
  withQuickJob(async (sandbox) => {
    const { front, behind } = await queued(sandbox, "hang", 20);
    await allRanOnce(behind);
    assert.deepEqual(front.said("info"), ["begun hang"]);
    front.body.cancel("enough");
    const outcome = await front.body.outcome;
    assert.equal(outcome.kind, "CANCELED");
    assert.match(english((outcome as { error_summary: string }).error_summary), /ended by itself after its signal/);
  }));

Deno.test("the cancel of a run that waits takes it out, and touches no other", () =>
  withQuickJob(async (sandbox) => {
    const front = new Heard(sandbox, order(100, "hang"));
    const behind = Array.from({ length: 3 }, (_, place) => new Heard(sandbox, order(101 + place, `print ${place}`)));
    const [, canceled] = behind as [Heard, Heard, Heard];
    assert(canceled.body.waits, "and at once: those behind a run that takes long are recalled soon");
    canceled.body.cancel("not needed");
    const outcome = await canceled.body.outcome;
    assert.equal(outcome.kind, "CANCELED");
    assert.match(english((outcome as { error_summary: string }).error_summary), /before run\(\) was called/);
    assert.deepEqual(canceled.lines, []);
    servedBy(await behind[0]!.body.outcome);
    servedBy(await behind[2]!.body.outcome);
    front.body.abandon("over");
    assert.equal((await front.body.outcome).kind, "LOST");
  }));

Deno.test("a timeout tells the run under way alone, and counts from a run's own start", () =>
  withQuickJob(async (sandbox) => {
    const front = new Heard(sandbox, order(100, "hang", { timeout_ms: 400 }));
    const spins = new Heard(sandbox, order(101, "spin 900"));
    const behind = new Heard(sandbox, order(102, "print 0", { timeout_ms: 600 }));
    assert.equal((await front.body.outcome).kind, "TIMED_OUT");
    servedBy(await spins.body.outcome);
    await allRanOnce([behind]);
  }));

for (
  const [how, kind] of [["timeout", "TIMED_OUT"], ["cancel", "CANCELED"], ["abandon", "LOST"]] as const
) {
  Deno.test(`a run that waited, and whose process is killed for it before it has begun, is begun nowhere: ${how}`, () =>
    withQuickJob(
      async (sandbox) => {
        const name = "checks";
        const before = new Heard(sandbox, order(100, "print", { name }));
        const timeout_ms = how === "timeout" ? 300 : 30_000;
        const ended = new Heard(sandbox, order(101, "stall", { name, timeout_ms }));
        assert.equal(ended.body.pid, before.body.pid);
        await ended.saying("checking");
        if (how !== "timeout") ended.body[how]("over");
        let outcome: Outcome | undefined;
        ended.body.outcome.then((its) => outcome = its);
        const { kind: found } = await waitFor("its end", () => Promise.resolve(outcome), 10_000);
        assert.equal(found, kind);
        assert.deepEqual(ended.said("stdout"), ["checking"]);
      },
      new Quick(),
      "checks",
    ));
}

Deno.test("a run whose args end the process that checks them is begun elsewhere once, and no more", () =>
  withQuickJob(
    async (sandbox) => {
      const breaks = new Heard(sandbox, order(100, "break", { name: "checks" }));
      const outcome = await breaks.body.outcome;
      assert.match(outcome.kind === "FAILED" ? outcome.error_summary : outcome.kind, /Uncaught.*of the schema/);
      assert.deepEqual(breaks.said("stdout"), ["breaking", "breaking"]);
    },
    new Quick(),
    "checks",
  ));

Deno.test("a process that was told which run is its last serves none after it, also when that one was taken back", () =>
  withQuickJob(async (sandbox) => {
    const isolation_reuse = PRIMED + 2;
    const long = new Heard(sandbox, order(100, "rest 300", { isolation_reuse }));
    const last = new Heard(sandbox, order(101, "hang", { isolation_reuse }));
    const { pid } = long.body;
    assert.equal(last.body.pid, pid);
    await last.saying("begun hang");
    assert.notEqual(last.body.pid, pid, "it was taken back");
    servedBy(await long.body.outcome);
    servedBy((await ran(sandbox, order(102, "print 0", { isolation_reuse }))).outcome);
    last.body.abandon("over");
    assert.equal((await last.body.outcome).kind, "LOST");
  }));

Deno.test("a worker that stops gives back all, and none that waited has begun", () =>
  withQuickJob(async (sandbox) => {
    const { front, behind } = await queued(sandbox, "spin 3000", 20);
    for (const { body } of [front, ...behind]) body.abandon("its worker is stopping");
    for (const { body } of [front, ...behind]) assert.equal((await body.outcome).kind, "LOST");
    assert(behind.every(({ lines }) => lines.length === 0));
  }));

/** Whatever is measured on a busy machine, runs take so long. */
class Told extends DurationEstimates {
  takes_ms = 1;

  override note(...[key, code]: Parameters<DurationEstimates["note"]>): void {
    super.note(key, code, this.takes_ms);
  }
}

Deno.test("there is room behind while a job is quick, and none when its runs have become long", () => {
  const pace = new Told();
  return withQuickJob(async (sandbox) => {
    const code = { job_file: order(0, "").job_file, digest: order(0, "").digest };
    assert.equal(sandbox.roomBehind(code), 0, "nothing runs");
    const one = new Heard(sandbox, order(100, "print 1"));
    assert(sandbox.roomBehind(code) > 0);
    await one.body.outcome;
    pace.takes_ms = 300;
    for (let run = 0; run < 5; run++) await ran(sandbox, order(200 + run, "print 1"));
    const [slow, other] = [new Heard(sandbox, order(300, "hang")), new Heard(sandbox, order(301, "print 1"))];
    assert.notEqual(slow.body.pid, other.body.pid);
    assert.equal(sandbox.roomBehind(code), 0);
    slow.body.abandon("over");
    await waitFor("all to end", async () => (await Promise.all([slow.body.outcome, other.body.outcome])).length);
  }, pace);
});

Deno.test("what runs take is told; where each has a process of its own, that is more than its body", () =>
  withSandbox(async (sandbox) => {
    const told = () => sandbox.codeTimes().map(({ digest, body_us }) => digest === order(0, "").digest ? body_us : NaN);
    assert.deepEqual([told(), sandbox.codesKnown], [[], 0]);
    for (let run = 1; run <= 6; run++) await ran(sandbox, order(run, "print 1", { isolation_reuse: 1 }));
    assert.equal(sandbox.codesKnown, 1);
    const start_us = START_MS * 1_000; // counts where each has its own
    assert(told().length === 1 && told().every((us) => us > start_us), `${told()} us`);
    for (let run = 11; run <= 60; run++) await ran(sandbox, order(run, "print 1"));
    assert(told().every((us) => us < start_us), `${told()} us`);
  }, { spares: 3 }));

const BUSY_MS = 250;

Deno.test("what a run takes is by its own clock, also when its worker was too busy to hear it begin and end", () =>
  withSandbox(async (sandbox) => {
    const busy = async (command: string, run: number) => {
      const heard = new Heard(sandbox, order(run, command));
      await rest(1); // the order is written
      for (const until_ms = monotonicMs() + BUSY_MS; monotonicMs() < until_ms;);
      await heard.body.outcome;
    };
    for (let run = 1; run <= 12; run++) await busy("spin 50", run);
    const [slow] = sandbox.codeTimes();
    assert(slow && slow.body_us >= 50_000 && slow.body_us < BUSY_MS * 1_000, `${slow?.body_us} us`);
    for (let run = 21; run <= 80; run++) await ran(sandbox, order(run, "print 1"));
    await busy("print 1", 99);
    const [quick] = sandbox.codeTimes();
    const a_tenth_us = BUSY_MS * 1_000 / 10; // what the last run counts for
    assert(quick && quick.body_us < a_tenth_us, `${quick?.body_us} us`);
  }, { spares: 3 }));

Deno.test("a run of an hour is told as the longest time that a status has room for", () => {
  const pace = new DurationEstimates();
  for (let run = 0; run < 5; run++) pace.note("key", { job_file: "hour.ts", digest: "h" }, 3_600_000);
  assert.deepEqual(pace.times().map(({ body_us }) => body_us), [2 ** 31 - 1]);
});

Deno.test("no more bodies run at once than there are slots, however many processes are loaded; another is loaded while there are less", () =>
  withSandbox(async (sandbox) => {
    const hangs = (run: number) => new Heard(sandbox, order(run, "spin 40"));
    sandbox.expect(order(1, ""), 4);
    sandbox.expect(order(1, ""), 4);
    sandbox.expect(order(1, ""), 4);
    assert.equal(sandbox.spares, 3);
    const [first, second, third] = [hangs(1), hangs(2), hangs(3)];
    assert.notEqual(first.body.pid, second.body.pid);
    assert(
      [first.body.pid, second.body.pid].includes(third.body.pid) && third.body.waits,
      "a third is loaded, and not used",
    );
    await Promise.all([first, second, third].map(({ body }) => body.outcome));
  }, { spares: 4, slots: () => 2, pace: new Quick() }));

Deno.test("who waits since no process is loaded has one loaded for those who come after, up to the slots", () =>
  withSandbox(async (sandbox) => {
    const pids = new Set<number>();
    const round = async (from: number) => {
      const all = Array.from({ length: 6 }, (_, place) => new Heard(sandbox, order(from + place, "spin 15")));
      for (const { body } of all) pids.add(body.pid);
      await Promise.all(all.map(({ body }) => body.outcome));
      for (const { body } of all) pids.add(body.pid);
    };
    await round(10);
    for (let from = 20; pids.size < 3 && from < 1_000; from += 10) await round(from);
    for (let from = 1_000; from < 1_050; from += 10) await round(from);
    assert.equal(pids.size, 3);
    assert.equal(sandbox.spares, 3, "one for each slot, however many waited");
  }, { spares: 4, slots: () => 3, pace: new Unhurried() }));

/** Two runs in the line of a process that says what the test says; `did` tells what came of it. */
function recalledLine(begun: boolean): { line: ProcessQueue; did: string[]; say: (frame: FromBody) => void } {
  let listener: ChildListener | undefined;
  const did: string[] = [];
  const child = {
    fit: true,
    ready: true,
    listen: (new_listener: ChildListener) => void (listener = new_listener),
    order: () => {},
    hush: () => did.push("hush"),
    signal: () => did.push("recall"),
    resume: () => did.push("resume"),
  } as unknown as Child;
  const body = {
    front: () => {},
    hear: () => {},
    closed: () => did.push("closed"),
    condemned: false,
    leavesRoom: true,
  };
  const line = new ProcessQueue(child, {
    onReturned: ({ job_run_id }) => did.push(`returned ${job_run_id}`),
    onIdle: () => did.push("idle"),
  }, 50);
  line.add({ ...body, job_run_id: 1, begun } as unknown as RunningBody);
  line.add({ ...body, job_run_id: 2, begun: false } as unknown as RunningBody);
  line.recall();
  return { line, did, say: (frame) => listener?.onFrame(frame) };
}

Deno.test("a process that still owes the answer to a recall is given to nobody before it has come", () => {
  const { line, did, say } = recalledLine(false);
  for (const kind of ["result", "result", "idle", "idle"] as const) say({ kind, result: null });
  assert.deepEqual(did, ["recall", "closed", "closed"]);
  assert.equal(line.open, false);
  say({ kind: "recalled", job_run_id: 0 });
  assert.deepEqual(did.slice(3), ["resume", "hush", "idle"]);
});

Deno.test("a run that has begun is not taken back to be begun elsewhere, whatever its process says", () => {
  const { did, say } = recalledLine(true);
  say({ kind: "recalled", job_run_id: 2 });
  assert.deepEqual(did, ["recall", "resume", "returned 2"]);
});
