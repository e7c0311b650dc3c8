/** What came of a chaos run, in figures and as a text, and the story of what went wrong. */
import { json, type Sql } from "../../../src/postgres/connection.ts";
import { type Effect, explain, type Violation } from "../checker.ts";
import type { Happened } from "./nemesis.ts";
import type { Witness } from "./witness.ts";
import type { Moment } from "./world.ts";

export interface Report {
  seed: number;
  minutes: number;
  workers: number;
  faults: number;
  faults_by_kind: Record<string, number>;
  faults_with_nothing_to_strike: number;
  faults_left_out: string[];
  runs: number;
  runs_by_state: Record<string, number>;
  runs_by_source: Record<string, number>;
  bodies: number;
  repeated_bodies: number;
  repeated_by_cause: Record<string, number>;
  /** Births that were asked for again, since no answer had come. */
  asked_again: number;
  terms: number;
  workers_lost: number;
  /** Milliseconds from the fault. */
  leader_taken_over: Record<string, Spread>;
  run_started_under_new_leader: Record<string, Spread>;
  runs_of_killed_workers_running_again: Spread;
  first_start_after_healing_ms: number | null;
  failures_of_loops: Record<string, number>;
  violations: Violation[];
}

export interface Spread {
  count: number;
  median_ms: number;
  max_ms: number;
}

function spreadOf(values: number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b).map(Math.round);
  return { count: sorted.length, median_ms: sorted[Math.floor(sorted.length / 2)] ?? 0, max_ms: sorted.at(-1) ?? 0 };
}

export async function figuresOf(
  sql: Sql,
  seen: { effects: Effect[]; happened: Happened[]; witness: Witness },
): Promise<
  Omit<
    Report,
    | "seed"
    | "minutes"
    | "workers"
    | "faults_with_nothing_to_strike"
    | "faults_left_out"
    | "asked_again"
    | "first_start_after_healing_ms"
    | "violations"
  >
> {
  const { effects, happened, witness } = seen;
  const states = await sql<{ name: string; count: number }[]>`
    select state as name, count(*)::int from job_run group by state order by 1`;
  const sources = await sql<{ name: string; count: number }[]>`
    select source as name, count(*)::int from job_run group by source order by 1`;
  const [terms] = await sql<{ epoch: number }[]>`select epoch from leader_term`;
  const failovers = witness.failovers(happened);
  const causes = await causesOfRepeats(sql, effects);
  return {
    faults: happened.length,
    faults_by_kind: countsOf(happened.map(({ name }) => name)),
    runs: states.reduce((sum, { count }) => sum + count, 0),
    runs_by_state: Object.fromEntries(states.map(({ name, count }) => [name, count])),
    runs_by_source: Object.fromEntries(sources.map(({ name, count }) => [name, count])),
    bodies: effects.length,
    repeated_bodies: causes.length,
    repeated_by_cause: countsOf(causes),
    terms: terms?.epoch ?? 0,
    workers_lost: witness.facts.get("worker.lost") ?? 0,
    leader_taken_over: spreads(failovers.map(({ name, elected_ms }) => [name, elected_ms])),
    run_started_under_new_leader: spreads(failovers.map(({ name, started_ms }) => [name, started_ms])),
    runs_of_killed_workers_running_again: spreadOf(await recoveries(sql, happened)),
    failures_of_loops: Object.fromEntries([...witness.failures].sort(([, a], [, b]) => b - a).slice(0, 12)),
  };
}

/** Why each body that was followed by another of its run was, by what is kept of its attempt. */
async function causesOfRepeats(sql: Sql, effects: Effect[]): Promise<string[]> {
  const last = new Map<number, number>();
  for (const { job_run_id, attempt } of effects) last.set(job_run_id, Math.max(attempt, last.get(job_run_id) ?? 0));
  const repeated = effects.filter(({ job_run_id, attempt }) => attempt < (last.get(job_run_id) as number));
  const kept = await sql<{ job_run_id: number; attempt: number; outcome: string; error_summary: string | null }[]>`
    select job_run_id, attempt, outcome, error_summary from job_run_attempt
     where job_run_id = any(${repeated.map(({ job_run_id }) => job_run_id)})`;
  const causes = new Map(kept.map((one) => [`${one.job_run_id}:${one.attempt}`, causeOf(one)]));
  return repeated.map(({ job_run_id, attempt }) => causes.get(`${job_run_id}:${attempt}`) ?? "not explained");
}

function causeOf({ outcome, error_summary }: { outcome: string; error_summary: string | null }): string {
  if (outcome === "FAILED" || outcome === "TIMED_OUT") return `${outcome}, and retried`;
  return `${outcome}: ${(error_summary ?? "").replace(/w\d+-[0-9a-f]{8}/g, "W").replace(/\d+/g, "N")}`;
}

/** From the kill of a worker until what it was running was RUNNING again. */
async function recoveries(sql: Sql, happened: Happened[]): Promise<number[]> {
  const kills = happened.flatMap(({ kills, struck_at }) => kills ? [{ worker_id: kills, at: struck_at }] : []);
  const rows = await sql<{ ms: number }[]>`
    select extract(epoch from again.at - k.at)::float8 * 1000 as ms
      from jsonb_to_recordset(${json(sql, kills)}) as k(worker_id text, at timestamptz)
      join job_run_attempt a on a.worker_id = k.worker_id and a.outcome = 'LOST' and a.ended_at > k.at
      join job_run_event again on again.job_run_id = a.job_run_id and again.attempt = a.attempt + 1
       and again.to_state = 'RUNNING' and again.from_state = 'ASSIGNED'`;
  return rows.map(({ ms }) => ms);
}

function spreads(pairs: [name: string, value: number][]): Record<string, Spread> {
  const groups = Map.groupBy(pairs, ([name]) => name);
  return Object.fromEntries([...groups].map(([name, list]) => [name, spreadOf(list.map(([, value]) => value))]));
}

function countsOf(names: string[]): Record<string, number> {
  const groups = [...Map.groupBy(names, (name) => name)];
  return Object.fromEntries(groups.map(([name, list]) => [name, list.length] as const).sort(([, a], [, b]) => b - a));
}

export function textOf(report: Report): string {
  const counts = (of: Record<string, number>) =>
    Object.entries(of).map(([name, count]) => `  ${String(count).padStart(6)}  ${name}`);
  const times = (of: Record<string, Spread>) =>
    Object.entries(of).map(([name, spread]) => `  ${shown(spread).padEnd(40)}  ${name}`);
  return [
    `Seed ${report.seed}: ${report.minutes} minutes, ${report.workers} workers, ${report.faults} faults ` +
    `(${report.faults_with_nothing_to_strike} more found nothing to strike), ${report.runs} runs, ${report.bodies} bodies`,
    "Faults:",
    ...counts(report.faults_by_kind),
    ...report.faults_left_out.map((reason) => `  left out: ${reason}`),
    "Runs:",
    ...counts(report.runs_by_state),
    ...counts(report.runs_by_source),
    `Bodies that were followed by another of their run: ${report.repeated_bodies}`,
    ...counts(report.repeated_by_cause),
    `Births asked for again: ${report.asked_again}; terms: ${report.terms}; workers that found themselves dead: ${report.workers_lost}`,
    "From the fault until another worker leads:",
    ...times(report.leader_taken_over),
    "From the fault until a run has started under it:",
    ...times(report.run_started_under_new_leader),
    `From the kill of a worker until its runs are RUNNING again: ${shown(report.runs_of_killed_workers_running_again)}`,
    `First start after all was healed: ${report.first_start_after_healing_ms ?? "-"} ms`,
    "Loops that failed, and went on:",
    ...counts(report.failures_of_loops),
  ].join("\n");
}

function shown({ count, median_ms, max_ms }: Spread): string {
  return `median ${median_ms} ms, max ${max_ms} ms of ${count}`;
}

/** Each kind of violation, and for the first runs of each what happened to them and around them. */
export async function storyOf(
  sql: Sql,
  violations: Violation[],
  seen: { effects: Effect[]; moments: Moment[] },
): Promise<string> {
  const lines = violations.slice(0, 100).map(({ invariant, detail, job_run_id }) =>
    `${invariant}${job_run_id ? ` run ${job_run_id}` : ""}: ${detail}`
  );
  const runs = new Set<number>();
  for (const group of Map.groupBy(violations, ({ invariant }) => invariant).values()) {
    for (const { job_run_id } of group.slice(0, 3)) if (job_run_id) runs.add(job_run_id);
  }
  for (const id of runs) {
    lines.push("", await explain(sql, id, seen.effects), ...await around(sql, id, seen.moments));
  }
  return lines.join("\n");
}

const AROUND_MS = 8_000;

async function around(sql: Sql, job_run_id: number, moments: Moment[]): Promise<string[]> {
  const [life] = await sql<{ from: Date | null; until: Date | null }[]>`
    select min(at) as from, max(at) as until from job_run_event where job_run_id = ${job_run_id}`;
  const from_ms = (life?.from?.getTime() ?? 0) - AROUND_MS;
  const until_ms = (life?.until?.getTime() ?? 0) + AROUND_MS;
  return moments.filter(({ at }) => at.getTime() >= from_ms && at.getTime() <= until_ms)
    .map(({ at, text }) => `  ${at.toISOString().slice(11, 23)}  ${text}`);
}
