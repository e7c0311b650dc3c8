/**
 * Who is alive, as the kernel tells it. A process group is empty when no process in it is more than a zombie: zombies
 * run nothing, and where nobody reaps orphans they stay for ever. Where there is no /proc (macOS) the kernel's answer
 * to a signal decides, zombies included.
 */
import { rest } from "../platform/timers.ts";
import { fieldsOf } from "../platform/process_stat.ts";

/**
 * Which pids mean what: the kernel that runs since its last start, and the pid namespace. Two processes with the same
 * text see the same pids. Empty where that cannot be told, as without /proc or with one of another namespace.
 */
export function hostIdentity(): string {
  try {
    if (Deno.readLinkSync("/proc/self") !== String(Deno.pid)) return "";
    const boot = Deno.readTextFileSync("/proc/sys/kernel/random/boot_id").trim();
    const [namespace] = /\d+/.exec(Deno.readLinkSync("/proc/self/ns/pid")) ?? [];
    return boot && namespace ? `${boot}.${namespace}` : "";
  } catch {
    return "";
  }
}

/**
 * Whether the process that had this pid since `started` runs nothing any more, not even a last thread. What is frozen is
 * there; what cannot be looked at is there too.
 */
export function isGone(pid: number, started: string): boolean {
  try {
    const fields = fieldsOf(Deno.readTextFileSync(`/proc/${pid}/stat`));
    return fields[19] !== started || !runs(fields);
  } catch {
    return !isThere(pid); // /proc may hide what is not ours to look at
  }
}

/** The command line of a process, or undefined when there is no such process. */
export function commandLine(pid: number): string | undefined {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
  } catch {
    return undefined;
  }
}

/** Pids of the processes that this one started and that live; where there is no /proc, none. */
export function childrenOf(parent: number): number[] {
  try {
    return [...Deno.readDirSync("/proc")].map(({ name }) => Number(name)).filter((pid) =>
      Number.isInteger(pid) && isChild(pid, parent)
    );
  } catch {
    return [];
  }
}

function isChild(pid: number, parent: number): boolean {
  try {
    const [state, started_by] = fieldsOf(Deno.readTextFileSync(`/proc/${pid}/stat`));
    return Number(started_by) === parent && state !== "Z" && state !== "X";
  } catch {
    return false; // it ended while we looked
  }
}

/** Pids in the group that are not zombies. What cannot be looked at counts as alive. */
export function membersOf(group: number): number[] {
  if (!isThere(-group)) return []; // cheap, and enough for nearly every group
  const members: number[] = [];
  try {
    for (const entry of Deno.readDirSync("/proc")) {
      const pid = Number(entry.name);
      if (Number.isInteger(pid) && isMember(pid, group)) members.push(pid);
    }
    return members;
  } catch {
    return [group];
  }
}

/**
 * Waits while `patient`, then kills whatever is left in the group, and returns when nothing is; true: it had to kill.
 * Safe after the group's first process was reaped: a number is not given out again while it names a group with
 * members, and without members nothing is signalled.
 */
export async function emptyGroup(group: number, patient: () => boolean): Promise<boolean> {
  let killed = false;
  for (let wait_ms = 1; membersOf(group).length > 0; wait_ms = Math.min(wait_ms * 2, 50)) {
    if (!patient()) killed = signalGroup(group, "SIGKILL") || killed;
    await rest(wait_ms);
  }
  return killed;
}

/** False: there is no such group any more. */
export function signalGroup(group: number, signal: Deno.Signal): boolean {
  return signalProcess(-group, signal);
}

/** False: there is no such process any more. */
export function signalProcess(pid: number, signal: Deno.Signal): boolean {
  try {
    Deno.kill(pid, signal);
    return true;
  } catch {
    return false;
  }
}

/** Whether the kernel knows a process of that number, or a group if it is negative; zombies count. */
export function isThere(pid: number): boolean {
  try {
    Deno.kill(pid, 0 as unknown as Deno.Signal);
    return true;
  } catch (error) {
    return !(error instanceof Deno.errors.NotFound);
  }
}

function isMember(pid: number, group: number): boolean {
  try {
    const fields = fieldsOf(Deno.readTextFileSync(`/proc/${pid}/stat`));
    return Number(fields[2]) === group && runs(fields);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false; // it ended while we looked
    throw error;
  }
}

/** More than a zombie. One whose first thread has ended, but not its last, still runs. */
export function runs(fields: string[]): boolean {
  return fields[0] !== "X" && (fields[0] !== "Z" || Number(fields[17]) > 1);
}
