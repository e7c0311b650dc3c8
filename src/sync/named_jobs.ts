/**
 * What jobs say of other jobs: those they come `after`, and those their bodies may `call`. Checked over all files at once, since a file
 * that goes away, or a new `after`, may break one that has not changed.
 */
import type { DefinitionSetting } from "../definitions/definition_rows.ts";
import { shown, wordLike } from "../platform/shown.ts";
import { isPattern, mayCall } from "../sandbox/permissions.ts";
import { placeOf, type SyncProblem } from "./problem.ts";

export type NamingJob = Pick<DefinitionSetting, "name" | "after_jobs" | "permissions"> & {
  file: { path: string; command_name: string };
};

interface Misnamed {
  job: NamingJob;
  key: "after" | "call";
  /** As it stands in the file. */
  value?: string;
  reason: string;
  fix: string;
}

export interface NamingAnswer {
  problems: SyncProblem[];
  warnings: { job: string; warning: string }[];
}

export async function namedJobs(jobs: NamingJob[]): Promise<NamingAnswer> {
  const unknown = [
    ...jobs.flatMap((job) => unknownAfter(job, jobs)),
    ...jobs.flatMap((job) => unknownCalls(job, jobs)),
  ];
  const after = new Map(jobs.map((job) => [job.name, job]));
  const cycles = unknown.some(({ key }) => key === "after") ? [] : cyclesIn(after);
  const apart = unknown.length + cycles.length > 0 ? [] : jobs.flatMap((job) => withoutCommonJob(job, after));
  const problems = await Promise.all([...unknown, ...cycles, ...apart].map(placed));
  return { problems, warnings: jobs.flatMap((job) => emptyPatterns(job, jobs)) };
}

async function placed({ job, key, value, reason, fix }: Misnamed): Promise<SyncProblem> {
  const source = await Deno.readTextFile(job.file.path).catch(() => "");
  return { file: job.file.command_name, ...placeOf(source, { key, value }), reason, fix };
}

function unknownAfter(job: NamingJob, jobs: NamingJob[]): Misnamed[] {
  return job.after_jobs.filter((name) => !jobs.some((other) => other.name === name))
    .map((value) => ({ job, key: "after", value, ...unknownJob("after", value, jobs) }));
}

function unknownCalls(job: NamingJob, jobs: NamingJob[]): Misnamed[] {
  const { call = [] } = job.permissions;
  if (call === true) return [];
  return call.filter((name) => !isPattern(name) && !jobs.some((other) => other.name === name))
    .map((value) => ({ job, key: "call", value, ...unknownJob("permissions.call", value, jobs) }));
}

function unknownJob(option: string, name: string, jobs: NamingJob[]): { reason: string; fix: string } {
  const names = jobs.map((job) => job.name);
  const like = wordLike(name, names);
  return {
    reason: `${option} names ${shown(name)}, and no file has a job of that name`,
    fix: like ? `did you mean "${like}"?` : "correct the name, or put the file back",
  };
}

/** Each circle of jobs that wait for each other, once, told in the file of its first job by name. */
function cyclesIn(jobs: Map<string, NamingJob>): Misnamed[] {
  const found: Misnamed[] = [];
  const done = new Set<string>();
  const walk = (name: string, way: string[]): void => {
    const since = way.indexOf(name);
    if (since >= 0) return void found.push(cycleOf(way.slice(since), jobs));
    if (done.has(name)) return;
    for (const before of jobs.get(name)?.after_jobs ?? []) walk(before, [...way, name]);
    done.add(name);
  };
  for (const name of [...jobs.keys()].sort()) walk(name, []);
  return found;
}

function cycleOf(cycle: string[], jobs: Map<string, NamingJob>): Misnamed {
  const [first, before] = [cycle[0] as string, cycle[1] ?? cycle[0] as string];
  return {
    job: jobs.get(first) as NamingJob,
    key: "after",
    value: before,
    reason: `after goes in a circle, in which each waits for the next: ${[...cycle, first].join(" -> ")}`,
    fix: "take one of these names out of the `after` of its job",
  };
}

/** A group begins at one run: a job that comes after several needs one that leads to all of them. */
function withoutCommonJob(job: NamingJob, jobs: Map<string, NamingJob>): Misnamed[] {
  if (job.after_jobs.length < 2 || commonRoots(job.after_jobs, jobs).size > 0) return [];
  const [first] = job.after_jobs;
  const names = `${job.after_jobs.slice(0, -1).join(", ")} and ${job.after_jobs.at(-1)}`;
  return [{
    job,
    key: "after",
    value: first as string,
    reason: `after names ${names}, which do not come from one common job: no run of one belongs to a run of the other`,
    fix: "let them come after one job themselves, or write one job that calls them in its body",
  }];
}

/** The jobs whose run begins a group in which each of these has a run. */
function commonRoots(names: readonly string[], jobs: Map<string, NamingJob>): Set<string> {
  return names.map((name) => rootsOf(name, jobs)).reduce((all, some) => all.intersection(some));
}

function rootsOf(name: string, jobs: Map<string, NamingJob>): Set<string> {
  const { after_jobs } = jobs.get(name) as NamingJob;
  return new Set([name, ...(after_jobs.length > 0 ? commonRoots(after_jobs, jobs) : [])]);
}

function emptyPatterns({ name, permissions: { call = [] } }: NamingJob, jobs: NamingJob[]): NamingAnswer["warnings"] {
  if (call === true) return [];
  return call.filter((one) => isPattern(one) && !jobs.some((job) => mayCall({ call: [one] }, job.name)))
    .map((one) => ({ job: name, warning: `permissions.call names ${shown(one)}, and no job's name begins so` }));
}
