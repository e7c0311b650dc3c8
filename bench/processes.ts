/**
 * What processes cost, as the kernel tells it: CPU seconds of a process and all below it, those that it has reaped among
 * them, and memory. These seconds come in ticks of 10 ms, so only sums over many runs mean anything; what does next to
 * nothing is counted by its threads, in nanoseconds.
 */
const TICKS_PER_SECOND = 100;
const PAGE_KIB = 4;

interface Stat {
  pid: number;
  parent: number;
  cpu: number;
  rss_mib: number;
}

/** CPU seconds so far of each of these processes with all that is below them. */
export function cpuOf(roots: number[]): number[] {
  const all = [...processes()];
  return roots.map((root) => below(root, all).reduce((sum, { cpu }) => sum + cpu, 0));
}

/** Nanoseconds on a core so far of each thread of a process and of all below it, by pid and thread; none that has ended. */
export function threadTimesOf(root: number): Map<string, number> {
  return new Map(below(root, [...processes()]).flatMap(({ pid }) => [...threadTimes(pid)]));
}

/** MiB in memory of each of these processes alone; 0 for one that is gone. */
export function rssOf(pids: number[]): number[] {
  const all = new Map([...processes()].map((stat) => [stat.pid, stat]));
  return pids.map((pid) => all.get(pid)?.rss_mib ?? 0);
}

/** A process and all of its descendants. */
export function treeOf(root: number): { pid: number; rss_mib: number }[] {
  return below(root, [...processes()]);
}

/** Open files of a process. */
export function openFilesOf(pid: number): number {
  return namesIn(`/proc/${pid}/fd`).length;
}

function* threadTimes(pid: number): Generator<[thread: string, ns: number]> {
  for (const thread of namesIn(`/proc/${pid}/task`)) {
    try {
      const [ns] = Deno.readTextFileSync(`/proc/${pid}/task/${thread}/schedstat`).split(" ");
      yield [`${pid}/${thread}`, Number(ns)];
    } catch {
      // it ended while it was looked at
    }
  }
}

function namesIn(path: string): string[] {
  try {
    return [...Deno.readDirSync(path)].map(({ name }) => name);
  } catch {
    return [];
  }
}

function below(root: number, all: Stat[]): Stat[] {
  const found = all.filter(({ pid }) => pid === root);
  for (const one of found) found.push(...all.filter(({ parent }) => parent === one.pid));
  return found;
}

function* processes(): Generator<Stat> {
  for (const { name } of Deno.readDirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    try {
      const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ").map(Number);
      const [utime = 0, stime = 0, cutime = 0, cstime = 0] = fields.slice(11, 15);
      yield {
        pid,
        parent: fields[1] ?? 0,
        cpu: (utime + stime + cutime + cstime) / TICKS_PER_SECOND,
        rss_mib: (fields[21] ?? 0) * PAGE_KIB / 1024,
      };
    } catch {
      // it ended while it was looked at
    }
  }
}
