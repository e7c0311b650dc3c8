/**
 * What a worker that died left running, found and ended.
 *
 * Every body's process carries its worker's id in its environment, and hands it on to all that it starts, into another
 * session as well. The kernel shows it in /proc/<pid>/environ from the first instant of the program on: nothing has to
 * be written down before, and nothing can be out of date. A process that has not got so far when its worker dies has
 * not got the worker's hello either; it will read the end of its input instead, and end before it loads the job file.
 *
 * Killed are whole groups, so also members that cleared their environment; the guard, which knows the groups by itself,
 * is given a moment to do its work first. Proven gone means: two looks in a row saw no such process, nor a member of a group
 * that had one. A process that cannot be judged, as in the instant in which it starts a program, is looked at until it can.
 *
 * Not found: what left its group and cleared its environment or became another user, which takes `unsafe.run`.
 */
import { monotonicMs, rest } from "../platform/timers.ts";
import { fieldsOf } from "../platform/process_stat.ts";
import { membersOf, runs, signalGroup } from "./process_table.ts";

/** The variables that carry the worker's id: in bodies, and in the guard beside the worker. */
export const BODY_MARK = "SCHEDULER_WORKER";
export const GUARD_MARK = "SCHEDULER_GUARD_OF";
/** In the command line of a process that is to become a body's, until it leads a group of its own. */
export const STARTER = "dandori-start";

export interface DeadWorker {
  worker_id: string;
  /** The kernel's start time of its process: nothing that it left behind is older. */
  process_started: string;
}

export interface OrphanProcesses {
  /** Groups that had to be killed. */
  killed: number;
  /** Pids that could not be ended or judged in time. Empty: all is proven gone. */
  left: number[];
}

const GUARD_MS = 500;
const LOOK_AGAIN_MS = 10;
const UNCLEAR_MS = 2;
/** In the command line of every body; process.ts. */
const BODY_ENTRY = "host.ts";
const PF_KTHREAD = 0x00200000;

/** Ends all that is left of a worker whose process is gone. */
export async function endOrphanProcesses(of: DeadWorker, within_ms: number): Promise<OrphanProcesses> {
  const began_ms = monotonicMs();
  const killed = new Set<number>();
  const groups = new Set<number>();
  const isLate = () => monotonicMs() - began_ms > within_ms;
  for (let clean = 0;;) {
    const found = await lookFor(of, isLate);
    const guard_is_late = monotonicMs() - began_ms > GUARD_MS;
    for (const { group, mark } of found) {
      if (group > 1 && (mark === "body" || (mark === "guard" && guard_is_late))) groups.add(group);
    }
    for (const group of groups) {
      if (membersOf(group).length === 0) groups.delete(group); // from now on the number may be another's
      else if (signalGroup(group, "SIGKILL")) killed.add(group);
    }
    clean = found.length + groups.size === 0 ? clean + 1 : 0;
    if (clean === 2) return { killed: killed.size, left: [] };
    if (isLate()) {
      return { killed: killed.size, left: [...new Set([...found.map(({ pid }) => pid), ...groups])] };
    }
    await rest(LOOK_AGAIN_MS);
  }
}

interface Found {
  pid: number;
  group: number;
  mark: "body" | "guard" | "unclear";
}

async function lookFor(of: DeadWorker, isLate: () => boolean): Promise<Found[]> {
  const found: Found[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === Deno.pid) continue;
    let mark = markOf(pid, of);
    // Judged one by one: on a busy machine there is always some process in the midst of this.
    for (; mark === "unclear" && !isLate(); mark = markOf(pid, of)) await rest(UNCLEAR_MS);
    const fields = mark && statOf(pid);
    if (mark && fields && runs(fields)) found.push({ pid, group: Number(fields[2]), mark });
  }
  return found;
}

function markOf(pid: number, of: DeadWorker): Found["mark"] | undefined {
  const environ = textOf(pid, "environ");
  if (environ) {
    const variables = environ.split("\0");
    if (variables.includes(`${BODY_MARK}=${of.worker_id}`)) return isStarting(pid) ? "unclear" : "body";
    return variables.includes(`${GUARD_MARK}=${of.worker_id}`) ? "guard" : undefined;
  }
  const fields = statOf(pid);
  if (!fields || !runs(fields) || (Number(fields[6]) & PF_KTHREAD) !== 0) return undefined;
  if (Number(fields[19]) < Number(of.process_started) || !isOurs(pid)) return undefined;
  const command = textOf(pid, "cmdline");
  if (environ === undefined) return command?.includes(BODY_ENTRY) ? "unclear" : undefined; // as where Deno is setcap
  if (!command) return "unclear"; // it is just starting a program
  return textOf(pid, "environ") === "" ? undefined : markOf(pid, of); // without any variable, or started meanwhile
}

/** Its group is still the worker's, in which others may be, siblings even. It goes on by itself, or ends. */
function isStarting(pid: number): boolean {
  const words = textOf(pid, "cmdline")?.split("\0") ?? [];
  return words[3] === STARTER || words[0]?.endsWith("/setsid") === true;
}

/** Whether it runs as the same user: whatever a worker starts does. */
function isOurs(pid: number): boolean {
  const [, real] = /^Uid:\s+(\d+)/m.exec(textOf(pid, "status") ?? "") ?? [];
  return real === undefined || Number(real) === Deno.uid();
}

function statOf(pid: number): string[] | undefined {
  const text = textOf(pid, "stat");
  return text ? fieldsOf(text) : undefined;
}

/** Undefined: it may not be read, or is gone. */
function textOf(pid: number, file: "environ" | "cmdline" | "stat" | "status"): string | undefined {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/${file}`);
  } catch {
    return undefined;
  }
}
