/**
 * The workers of `dev`: real processes, each on a node of its own with a certificate of its own. One that dies is
 * started again, more slowly each time. They have a session of their own, so that a Ctrl-C is ours to pass on, and they
 * stop when the pipe to us closes, in whatever way we end.
 */
import { PROJECT_DIR } from "../platform/config.ts";
import { after, rest } from "../platform/timers.ts";
import { resolvePath } from "../platform/paths.ts";
import { signalGroup, signalProcess } from "../sandbox/process_table.ts";
import { Backoff } from "./backoff.ts";

export interface WorkerPlan {
  node_id: string;
  env: Record<string, string>;
}

export interface SupervisedWorkerOptions {
  stop: AbortSignal;
  /** Kill instead of asking. */
  hurry: AbortSignal;
  /** Each line that a worker prints. */
  heard(node_id: string, line: string): void;
  say(node_id: string, text: string): void;
}

/**
 * As of the task in deno.json.
 *
 * - `-A`: with anything less Deno hides /proc, where bodies are proven gone.
 * - `--cached-only --node-modules-dir=manual`: it runs with what is installed. Without them Deno asks a package registry at each
 *   start at which deno.json names what is not there, and a worker could not start where that does not answer.
 * - `--no-code-cache`: what Deno keeps of code that was compiled before is 2 MiB of a worker, for ever, and saves 0.05 s at its start.
 * - `--max-semi-space-size=8`: new objects are made in 8 MiB instead of V8's 32. That stays in a core's caches, so all is quicker by
 *   some 5 %, and a busy worker is 40 MiB smaller.
 */
export const WORKER_ARGS = [
  "run",
  "-A",
  "--cached-only",
  "--node-modules-dir=manual",
  "--no-code-cache",
  "--v8-flags=--max-semi-space-size=8",
  resolvePath(PROJECT_DIR, "main.ts"),
  "worker",
  "--stop-with-stdin",
];

/** More than `drain_grace_seconds` needs by default; then it is held to be stuck. */
const STOP_WITHIN_MS = 60_000;

/** Keeps one worker alive until `stop`, and resolves when its process is gone. */
export async function superviseWorker(seat: WorkerPlan, on: SupervisedWorkerOptions): Promise<void> {
  const patience = new Backoff();
  while (!on.stop.aborted) {
    patience.began();
    const how = await liveOnce(seat, on);
    if (on.stop.aborted) return;
    const wait_ms = patience.ended();
    on.say(seat.node_id, `worker ended with ${how}; it is started again in ${wait_ms / 1000} s`);
    await rest(wait_ms, on.stop);
  }
}

async function liveOnce(seat: WorkerPlan, on: SupervisedWorkerOptions): Promise<string> {
  const child = new Deno.Command(Deno.execPath(), {
    args: WORKER_ARGS,
    cwd: PROJECT_DIR,
    env: seat.env,
    detached: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const unwatch = endWith(child, seat, on);
  const heard = (line: string) => on.heard(seat.node_id, line);
  const [status] = await Promise.all([child.status, eachLine(child.stdout, heard), eachLine(child.stderr, heard)]);
  unwatch();
  await child.stdin.close().catch(() => {});
  return status.signal ? `signal ${status.signal}` : `exit code ${status.code}`;
}

/** TERM on `stop`; KILL on `hurry`, or when it takes too long. */
function endWith(child: Deno.ChildProcess, seat: WorkerPlan, on: SupervisedWorkerOptions): () => void {
  let giveUpLater = () => {};
  const kill = () => void signalGroup(child.pid, "SIGKILL");
  const ask = () => {
    signalProcess(child.pid, "SIGTERM");
    giveUpLater = after(STOP_WITHIN_MS, () => {
      on.say(seat.node_id, `worker did not stop within ${STOP_WITHIN_MS / 1000} s, so it is killed`);
      kill();
    });
  };
  on.stop.addEventListener("abort", ask);
  on.hurry.addEventListener("abort", kill);
  if (on.stop.aborted) ask();
  return () => {
    giveUpLater();
    on.stop.removeEventListener("abort", ask);
    on.hurry.removeEventListener("abort", kill);
  };
}

/** Calls `heard` for each line until the stream ends. */
export async function eachLine(stream: ReadableStream<Uint8Array>, heard: (line: string) => void): Promise<void> {
  let rest_of_line = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest_of_line + text).split("\n");
    rest_of_line = lines.pop() as string;
    for (const line of lines) heard(line);
  }
  if (rest_of_line) heard(rest_of_line);
}
