/**
 * Who is alive, as the kernel tells it. A process group is empty when no process in it is more than a zombie: zombies
 * run nothing, and where nobody reaps orphans they stay for ever. Where there is no /proc (macOS) the kernel's answer
 * to a signal decides, zombies included.
 */
import { rest } from "../base/loop.ts";

/** When the kernel started this pid, in its own ticks: pid and this together name a process for ever. Empty: no such process, or no /proc. */
export async function processStarted(pid: number): Promise<string> {
  const text = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => "");
  return fieldsOf(text)[19] ?? "";
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
  if (!mayHaveMembers(group)) return [];
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

/** The cheap question that is enough for nearly every group: the kernel knows none of that number. */
function mayHaveMembers(group: number): boolean {
  try {
    Deno.kill(-group, 0 as unknown as Deno.Signal);
    return true;
  } catch (error) {
    return !(error instanceof Deno.errors.NotFound);
  }
}

function isMember(pid: number, group: number): boolean {
  try {
    const [state, , member_of] = fieldsOf(Deno.readTextFileSync(`/proc/${pid}/stat`));
    return Number(member_of) === group && state !== "Z" && state !== "X";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false; // it ended while we looked
    throw error;
  }
}

/** The fields of /proc/<pid>/stat after the command's name, which may hold anything: state, parent, group, ... */
function fieldsOf(stat: string): string[] {
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}
