/**
 * A server that lives no longer than we do.
 *
 * It runs below a small shell guard that holds the other end of a pipe from us: when we close it, or die in whatever
 * way, the guard tells the server to end. So a `dev` that is killed leaves no database behind. Guard and server have a
 * session of their own: a Ctrl-C of the terminal reaches only us, and we end things in order.
 */
import { rest, within } from "../platform/timers.ts";
import { freePort } from "../ops/free_port.ts";
import { commandLine, signalGroup, signalProcess } from "../sandbox/process_table.ts";

/** A user of this machine, by number. */
export interface Owner {
  uid: number;
  gid: number;
}

export interface ServiceOptions {
  name: string;
  command: string[];
  /** What the server takes as "end in good order". */
  end_signal: "INT" | "TERM";
  /** Its output, from this start on. */
  log_file: string;
  /** Its whole environment. */
  env: Record<string, string>;
  cwd: string;
  owner?: Owner;
  /** A folder that the guard removes once the server has ended, so that it goes even when we were killed. */
  remove_after?: string;
}

export interface Service {
  name: string;
  url: string;
  /** What is running, in a few words. */
  detail: string;
  /** How it ended, once it has; also when it was stopped. */
  ended: Promise<string>;
  /** Ends it, by force after `grace_ms`. Resolves when it is gone. */
  stop(grace_ms?: number): Promise<void>;
}

/** $1 log file, $2 signal, $3 folder to remove or "", then the server's command. Ends with the server's exit code. */
const GUARD = `
log=$1; signal=$2; remove=$3; shift 3
exec 3<&0 </dev/null >"$log" 2>&1
"$@" 3<&- &
server=$!
( while read -r _; do :; done; kill -s "$signal" "$server" ) <&3 &
watcher=$!
exec 3<&-
wait "$server"; code=$?
kill "$watcher" 2>/dev/null
[ -z "$remove" ] || rm -rf "$remove"
exit "$code"`;

const READY_WITHIN_MS = 60_000;
const STOP_WITHIN_MS = 20_000;
const FORCE_WITHIN_MS = 5_000;

/** Starts a server and waits until `probe` says true. Rejects with what it printed when it ends before that. */
export async function startService(
  options: ServiceOptions,
  ready: { url: string; detail: string; probe: () => Promise<boolean>; stop?: AbortSignal },
): Promise<Service> {
  const guard = spawnGuarded(options);
  const service: Service = {
    name: options.name,
    url: ready.url,
    detail: ready.detail,
    ended: guard.status.then((status) => status.signal ? `signal ${status.signal}` : `exit code ${status.code}`),
    stop: (grace_ms = STOP_WITHIN_MS) => stopGuarded(guard, grace_ms),
  };
  try {
    await untilReady(service, { ...ready, log_file: options.log_file });
  } catch (error) {
    await service.stop(0);
    throw error;
  }
  return service;
}

function spawnGuarded(options: ServiceOptions): Deno.ChildProcess {
  const { owner, log_file, end_signal, remove_after = "", command } = options;
  return new Deno.Command("/bin/sh", {
    args: ["-c", GUARD, "dandori-guard", log_file, end_signal, remove_after, ...command],
    cwd: options.cwd,
    clearEnv: true,
    env: options.env,
    detached: true,
    stdin: "piped",
    stdout: "null",
    stderr: "null",
    ...owner,
  }).spawn();
}

async function untilReady(
  service: Service,
  on: { probe: () => Promise<boolean>; stop?: AbortSignal; log_file: string },
): Promise<void> {
  let end: string | undefined;
  service.ended.then((how) => end = how);
  const late = AbortSignal.timeout(READY_WITHIN_MS);
  while (!on.stop?.aborted) {
    if (end) throw new Error(`Cannot start ${service.name}: it ended with ${end}\n${lastLines(on.log_file)}`);
    if (await on.probe()) return;
    if (late.aborted) {
      const seconds = READY_WITHIN_MS / 1000;
      throw new Error(
        `Cannot start ${service.name}: no answer within ${seconds} s\n${lastLines(on.log_file)}`,
      );
    }
    await rest(30, on.stop);
  }
}

async function stopGuarded(guard: Deno.ChildProcess, grace_ms: number): Promise<void> {
  await guard.stdin.close().catch(() => {}); // closed already, by an earlier stop or its own end
  try {
    await within(grace_ms, "ending a service", guard.status);
  } catch {
    signalGroup(guard.pid, "SIGKILL");
    await within(FORCE_WITHIN_MS, "killing a service", guard.status);
  }
}

/** The end of a log, for an error message. */
export function lastLines(file: string): string {
  try {
    return Deno.readTextFileSync(file).trimEnd().split("\n").slice(-12).map((line) => `  | ${line}`).join("\n");
  } catch {
    return "  | (it printed nothing)";
  }
}

/** Port and password of a server, kept so that its address stays the same; readable by this user only. */
export interface SavedAddress {
  port: number;
  password: string;
}

/** What was kept in `file`, with a port that is free now; made when there is nothing yet. */
export function keepAddress(file: string): SavedAddress {
  const before = readKept(file);
  const kept: SavedAddress = {
    port: freePort(before?.port),
    password: before?.password ?? crypto.randomUUID().replaceAll("-", ""),
  };
  if (kept.port !== before?.port) { // as a whole or not at all, as on a disk that is full: without the password the data are lost
    Deno.writeTextFileSync(`${file}.new`, JSON.stringify(kept) + "\n", { mode: 0o600 });
    Deno.renameSync(`${file}.new`, file);
  }
  return kept;
}

/** What was kept in `file`, if anything. */
export function readKept(file: string): SavedAddress | undefined {
  try {
    const { port, password } = JSON.parse(Deno.readTextFileSync(file)) as Partial<SavedAddress>;
    return Number.isInteger(port) && typeof password === "string" ? { port, password } as SavedAddress : undefined;
  } catch {
    return undefined; // none yet, or broken: made anew
  }
}

/** Ends a server that an earlier start left behind, and waits until it is gone. */
export async function endLeftover(pid: number, signal: Deno.Signal): Promise<void> {
  const patience = AbortSignal.timeout(STOP_WITHIN_MS);
  signalProcess(pid, signal);
  while (commandLine(pid)) {
    if (patience.aborted) signalProcess(pid, "SIGKILL");
    await rest(30);
  }
}
