/** What /proc tells of a process. */

/** The fields of /proc/<pid>/stat after the command's name, which may hold anything: state, parent, group, ... */
export function fieldsOf(stat: string): string[] {
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** When the kernel started this pid, in its own ticks: pid and this together name a process for ever. Empty: no such process, or no /proc. */
export function processStarted(pid: number): string {
  try {
    return fieldsOf(Deno.readTextFileSync(`/proc/${pid}/stat`))[19] ?? "";
  } catch {
    return "";
  }
}
