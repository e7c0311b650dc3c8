/** Who is gone and what is left of a dead worker, as the kernel tells it: with real processes, also odd ones. */
import assert from "node:assert/strict";
import { rest } from "../../../src/platform/timers.ts";
import { processStarted } from "../../../src/platform/process_stat.ts";
import { hostIdentity, isGone, membersOf } from "../../../src/sandbox/process_table.ts";
import { BODY_MARK, endOrphanProcesses, GUARD_MARK } from "../../../src/sandbox/orphan_processes.ts";
import { waitFor } from "../../support/waiting.ts";

const PATH = Deno.env.get("PATH") ?? "/usr/bin:/bin";

interface Started {
  pid: number;
  /** Another one that it started, as it printed its pid. */
  other: number;
  started: string;
  child: Deno.ChildProcess;
}

/** A shell in a session of its own that prints a pid and goes on. */
async function aShell(script: string, env: Record<string, string> = {}): Promise<Started> {
  const child = new Deno.Command("sh", {
    args: ["-c", script],
    clearEnv: true,
    env: { PATH, ...env },
    stdout: "piped",
    stderr: "null",
    detached: true,
  }).spawn();
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  reader.cancel().catch(() => {});
  const other = Number(new TextDecoder().decode(value));
  return { child, other, pid: child.pid, started: processStarted(child.pid) };
}

async function ended({ child, pid }: Started): Promise<void> {
  try {
    Deno.kill(-pid, "SIGKILL");
  } catch {
    // it has
  }
  await child.status;
}

const SLEEPS = "while :; do sleep 1; done";

Deno.test("a process is gone when its pid is free, another's, or a zombie's; not while it is frozen", async () => {
  const one = await aShell(`echo $$; ${SLEEPS}`);
  try {
    assert.equal(isGone(one.pid, one.started), false);
    assert.equal(isGone(one.pid, String(Number(one.started) - 1)), true, "an earlier process of that pid");
    Deno.kill(one.pid, "SIGSTOP");
    await waitFor("the freeze", () => Promise.resolve(/\) T /.test(statOf(one.pid)) || undefined));
    assert.equal(isGone(one.pid, one.started), false, "frozen");
  } finally {
    await ended(one);
  }
  assert.equal(isGone(one.pid, one.started), true, "ended");

  const parent = await aShell(`sleep 0.3 & echo $!; exec sleep 600`); // which reaps nobody
  try {
    const started = processStarted(parent.other);
    await waitFor("a zombie", () => Promise.resolve(/\) Z /.test(statOf(parent.other)) || undefined));
    assert.equal(isGone(parent.other, started), true, "a zombie");
  } finally {
    await ended(parent);
  }
});

Deno.test("what carries a worker's mark is found in any session and killed with its group; nothing else is", async () => {
  const mine = { [BODY_MARK]: "w7-00000007" };
  const body = await aShell(`(setsid sh -c '${SLEEPS}' & echo $!); ${SLEEPS}`, mine);
  const unmarked = await aShell(`env -i sh -c '${SLEEPS}' & echo $!; ${SLEEPS}`, mine);
  const leaderless = await aShell(`(sh -c 'echo $$; ${SLEEPS}' &) ; exit 0`, mine);
  const another = await aShell(`echo $$; ${SLEEPS}`, { [BODY_MARK]: "w7-000000071" });
  const guard = await aShell(`echo $$; ${SLEEPS}`, { [GUARD_MARK]: "w7-00000007" });
  const dead = { worker_id: "w7-00000007", process_started: body.started };
  try {
    Deno.kill(body.pid, "SIGSTOP"); // also what is frozen
    const { killed, left } = await endOrphanProcesses(dead, 10_000);
    assert.deepEqual(left, []);
    assert(killed >= 4, `${killed} groups were killed`);
    for (const { pid } of [body, unmarked, leaderless, guard]) assert.deepEqual(membersOf(pid), []);
    assert.deepEqual(membersOf(another.pid).includes(another.pid), true);
    assert.deepEqual(await endOrphanProcesses(dead, 10_000), { killed: 0, left: [] });
  } finally {
    await Promise.all([body, unmarked, leaderless, another, guard].map(ended));
  }
});

Deno.test("what is started while its like is being killed does not get away", async () => {
  const mine = { [BODY_MARK]: "w8-00000008" };
  const breeding = await aShell(`echo $$; while :; do setsid sh -c 'sleep 600' & sleep 0.01; done`, mine);
  try {
    await rest(50); // some are there, more are coming
    const { left } = await endOrphanProcesses({ worker_id: "w8-00000008", process_started: breeding.started }, 20_000);
    assert.deepEqual(left, []);
    assert.deepEqual(
      await endOrphanProcesses({ worker_id: "w8-00000008", process_started: breeding.started }, 20_000),
      {
        killed: 0,
        left: [],
      },
    );
  } finally {
    await ended(breeding);
  }
});

Deno.test("a pid namespace of its own is another host", async () => {
  const code = `import { hostIdentity } from "${new URL("../../../src/sandbox/process_table.ts", import.meta.url)}";
    console.log(hostIdentity());`;
  const say = async (...around: string[]) => {
    const [program, ...args] = [...around, Deno.execPath(), "eval", "--no-check", code];
    const { stdout } = await new Deno.Command(program as string, { args }).output();
    return new TextDecoder().decode(stdout).trim();
  };
  const here = await say();
  assert.equal(here, hostIdentity());
  assert.match(here, /^[0-9a-f-]+\.\d+$/);
  if (!mayUnshare()) return;
  const inside = await say(...UNSHARE, "--mount-proc");
  assert.match(inside, /^[0-9a-f-]+\.\d+$/);
  assert.notEqual(inside, here);
  assert.equal(await say(...UNSHARE), "", "/proc shows the pids of others");
});

const UNSHARE = ["unshare", "--user", "--map-root-user", "--pid", "--fork"];

function mayUnshare(): boolean {
  try {
    const [program, ...args] = [...UNSHARE, "--mount-proc", "true"];
    return new Deno.Command(program as string, { args, stderr: "null" }).outputSync().success;
  } catch {
    return false;
  }
}

function statOf(pid: number): string {
  return Deno.readTextFileSync(`/proc/${pid}/stat`);
}
