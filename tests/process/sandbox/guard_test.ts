/** The dead man's guard: a body outlives neither the death nor the freezing of its worker, nor the end of its right to run. */
import assert from "node:assert/strict";
import { monotonicMs, within } from "../../../src/platform/timers.ts";
import { failpointsIn, setFailpoints } from "../../../src/platform/failpoint.ts";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { fromFileUrl } from "../../../src/platform/paths.ts";
import { membersOf } from "../../../src/sandbox/process_table.ts";
import { outcomeOf } from "../../../src/sandbox/outcome.ts";
import { Child } from "../../../src/sandbox/process.ts";
import { Watchdog, WINDOW_SECONDS } from "../../../src/sandbox/watchdog.ts";
import { NUMBER_SETTINGS } from "../../../src/settings/setting_list.ts";
import { bodyFile, groupGone, Heard, orderFor, withSandbox } from "../../support/bodies.ts";
import { waitFor } from "../../support/waiting.ts";
import { english } from "../../../src/locale/english.ts";

interface Said {
  pid?: number;
  line?: string;
  fields?: { pid: number } | null;
  outcome?: { kind: string; error_summary: string };
}

/** So long that what happens does not happen for a silence. */
const ENDLESS_SECONDS = 86_400;

/** A worker in a process of its own whose body is running. */
async function workerWith(
  name: string,
  args: string,
  use: (worker: Deno.ChildProcess, heard: Said[]) => Promise<void>,
  window_seconds = WINDOW_SECONDS,
) {
  const state_dir = await Deno.makeTempDir({ prefix: "dandori-guard-" });
  const program = fromFileUrl(new URL("../../support/sandbox_worker.ts", import.meta.url));
  const worker = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", program, name, args, state_dir, String(window_seconds)],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const heard: Said[] = [];
  const listening = listen(worker.stdout, heard);
  try {
    await waitFor("the body to run", () => Promise.resolve(heard.find((said) => said.line)));
    await use(worker, heard);
  } finally {
    signal(worker, "SIGKILL");
    await Promise.all([worker.status, listening, worker.stdin.close().catch(() => {})]);
    await Deno.remove(state_dir, { recursive: true });
  }
}

async function listen(stream: ReadableStream<Uint8Array>, heard: Said[]): Promise<void> {
  let open = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (open + text).split("\n");
    open = lines.pop() as string;
    heard.push(...lines.map((line) => JSON.parse(line) as Said));
  }
}

function signal(process: Deno.ChildProcess, name: Deno.Signal): void {
  try {
    process.kill(name);
  } catch {
    // it has ended
  }
}

function pidIn(heard: Said[]): number {
  return heard.find((said) => said.pid)?.pid as number;
}

Deno.test("a worker that is killed leaves no body that spins: at once, and not after a silence", () =>
  workerWith("hangs", "spin", async (worker, heard) => {
    const group = pidIn(heard);
    assert.deepEqual(membersOf(group), [group]);
    worker.kill("SIGKILL");
    await groupGone(group);
  }, ENDLESS_SECONDS));

Deno.test("the guard strikes a second before a lease can be over: its margin is never shorter than that", () => {
  const { least } = NUMBER_SETTINGS.worker_margin_seconds;
  assert(WINDOW_SECONDS + 1 <= least, `a silence of ${WINDOW_SECONDS} s, and a margin of ${least} s`);
});

Deno.test("a worker that is killed leaves no grandchild that ignores TERM", () =>
  workerWith("grandchild", "spins", async (worker, heard) => {
    const group = pidIn(heard);
    assert(membersOf(group).length >= 2);
    worker.kill("SIGKILL");
    await groupGone(group);
  }));

Deno.test("a worker that freezes loses its body and grandchild, and says LOST when it wakes", () =>
  workerWith("grandchild", "spins", async (worker, heard) => {
    const group = pidIn(heard);
    worker.kill("SIGSTOP");
    await groupGone(group);
    worker.kill("SIGCONT");
    const { outcome } = await waitFor("the outcome", () => Promise.resolve(heard.find((said) => said.outcome)));
    assert.equal(outcome?.kind, "LOST");
    assert.match(english(outcome?.error_summary ?? ""), /guard of bodies: its worker was frozen/);
  }));

Deno.test("a worker that may run nothing any more loses its body, as LOST", () =>
  workerWith("hangs", "spin", async (worker, heard) => {
    const writer = worker.stdin.getWriter();
    await writer.write(new TextEncoder().encode("let go\n"));
    writer.releaseLock();
    const { outcome } = await waitFor("the outcome", () => Promise.resolve(heard.find((said) => said.outcome)));
    assert.equal(outcome?.kind, "LOST");
    assert.deepEqual(membersOf(pidIn(heard)), []);
  }));

Deno.test("a body outlives many beats of a healthy worker, also when its guard is killed and replaced", () =>
  workerWith("hangs", "never looks", async (worker, heard) => {
    const group = pidIn(heard);
    const [guard] = guardsOf(worker.pid) as [number];
    Deno.kill(guard, "SIGKILL");
    const next = await waitFor("another guard", () => {
      return Promise.resolve(guardsOf(worker.pid).find((pid) => pid !== guard));
    });
    const began_ms = monotonicMs();
    await waitFor("five seconds", () => Promise.resolve(monotonicMs() - began_ms > 5_000 ? true : undefined));
    assert.deepEqual(membersOf(group), [group]);
    assert.deepEqual(guardsOf(worker.pid), [next]);
    worker.kill("SIGKILL");
    await groupGone(group);
  }));

Deno.test("a body whose worker stands still before a guard knows of it does not begin afterwards", () =>
  withSandbox(async (sandbox) => {
    const until_ms = monotonicMs() + 2_000;
    sandbox.hold(() => monotonicMs() < until_ms);
    const heard = new Heard(sandbox, orderFor("hangs", "spin", { timeout_ms: 10_000 }));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4_000); // longer than guards wait
    const outcome = await heard.body.outcome;
    assert.deepEqual([outcome.kind, heard.lines], ["LOST", []]);
  }));

Deno.test("a guard without bash does the same with timeout and dd", async () => {
  const tools = await Deno.makeTempDir({ prefix: "dandori-tools-" });
  for (const tool of ["sh", "timeout", "dd", "sleep"]) await Deno.symlink(await whereIs(tool), `${tools}/${tool}`);
  const sleeper = () => new Deno.Command("sleep", { args: ["60"], detached: true, stdin: "null" }).spawn();
  const [kept, removed] = [sleeper(), sleeper()];
  const watchdog = new Watchdog({ PATH: tools }, { bashes: [] });
  try {
    await watchdog.add(kept.pid);
    await watchdog.add(removed.pid);
    watchdog.remove(removed.pid);
    const until_ms = monotonicMs() + 4_000;
    while (monotonicMs() < until_ms) {
      watchdog.beat();
      await waitFor("a while", () => Promise.resolve(true), 1);
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    assert.deepEqual(membersOf(kept.pid), [kept.pid], "it lives while the beat goes on");
    const { signal } = await kept.status;
    assert.equal(signal, "SIGKILL");
    assert.deepEqual(membersOf(removed.pid), [removed.pid], "what was taken off its list lives on");
  } finally {
    await watchdog.close();
    for (const process of [kept, removed]) signal(process, "SIGKILL");
    await removed.status;
    await Deno.remove(tools, { recursive: true });
  }
});

Deno.test("a right to run that ends between the start of a process and its guard keeps the body from beginning", async () => {
  await withSandbox(async (sandbox) => {
    let allowed = true;
    sandbox.hold(() => allowed);
    setFailpoints(failpointsIn("after-spawn-before-guard:1:delay:50", []));
    try {
      const body = new Heard(sandbox, orderFor("add", { a: 1, b: 2 }));
      allowed = false;
      const outcome = await body.body.outcome;
      assert.match(
        JSON.stringify(outcome),
        /"LOST".*runs\.end\.not_started.*this worker may run nothing now.*"unbegun":true/,
      );
    } finally {
      setFailpoints([]);
    }
  });
});

Deno.test("bodies that end do not keep the others alive when the worker may run nothing any more", async () => {
  const sleeper = () => new Deno.Command("sleep", { args: ["60"], detached: true, stdin: "null" }).spawn();
  const kept = sleeper();
  const watchdog = new Watchdog({ PATH: Deno.env.get("PATH") as string });
  try {
    await watchdog.add(kept.pid);
    let over = false;
    const ended = kept.status.then(() => over = true);
    const gone = [...Array(30).keys()].map((place) => 4_000_000 + place); // no process has such a number
    while (!over && gone.length > 0) {
      watchdog.remove(gone.pop() as number);
      await within(1_000, "the end of the body", ended).catch(() => {});
    }
    assert(
      gone.length > 0,
      "its guard heard nothing but that others had ended, and let it live for as long as they did",
    );
  } finally {
    await watchdog.close();
    signal(kept, "SIGKILL");
    await kept.status;
  }
});

Deno.test("without any guard no body is started, and its run is given back", async () => {
  const watchdog = new Watchdog({ PATH: "/nowhere" }, { bashes: [] });
  const child = new Child({
    mode: "run",
    job_file: bodyFile("hangs"),
    permissions: {},
    memory_mb: 128,
    project_dir: PROJECT_DIR,
    temp_dir: undefined,
    env: {},
    secret_paths: [],
    owner: undefined,
  }, watchdog);
  const end = await child.ended;
  assert.equal(end.was_ready, false);
  const story = { ended_by_us: undefined, verdict: undefined, exiting: undefined, started: false, lapsed: false, end };
  const subject = { job_name: "hangs", timeout_ms: 1, memory_mb: 1, permissions: {}, project_dir: PROJECT_DIR };
  const outcome = outcomeOf(story, subject);
  assert.match(
    JSON.stringify(outcome),
    /"LOST".*Cannot guard bodies.*neither bash nor sh, timeout, dd is in PATH.*"unbegun":false/,
  );
});

async function whereIs(tool: string): Promise<string> {
  const { stdout } = await new Deno.Command("sh", { args: ["-c", `command -v ${tool}`] }).output();
  return new TextDecoder().decode(stdout).trim();
}

function guardsOf(parent: number): number[] {
  return [...Deno.readDirSync("/proc")].map(({ name }) => Number(name)).filter((pid) => {
    try {
      const [, ppid] = Deno.readTextFileSync(`/proc/${pid}/stat`).split(") ")[1]?.split(" ") ?? [];
      return Number(ppid) === parent && Deno.readTextFileSync(`/proc/${pid}/cmdline`).includes("groups=");
    } catch {
      return false;
    }
  });
}
