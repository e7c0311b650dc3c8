/**
 * How the runs that a filter means are found, as quickly among millions as among a few. The planner would often read all of them: it
 * does not know that the failures of a job are all old, and a list of states fits no partial index. So what leads is chosen here, the
 * first of these that is asked for, and each of its parts is one walk through one index:
 *
 *   serial key | error's name | bulk | job, by state | state | (none of these) the newest runs
 */
import type { Db, Fragment } from "../postgres/connection.ts";
import type { RunFilter } from "./run_filter.ts";
import { ACTIVE, inStates, MAY_START, NOT_ENDED, type RunState, STATES, TERMINAL, WAITING } from "./run_states.ts";

/** A part of what is meant; no run is in two parts. */
export interface ScanPart {
  /** A condition on run `r`. */
  lead: Fragment;
  /** walk: an index gives it in the order of ids. heap: it has none, and is small as a rule. jobs: it is one walk for each job. */
  kind: "walk" | "heap" | "jobs";
  /** What the walk's index has before the id, where the planner would think that another order is as good. */
  first?: Fragment;
  /** Something is asked for besides, so rows of it are looked through. */
  sifted: boolean;
  /** What is looked for besides all that is asked for, so that no run is in two parts. */
  besides?: Fragment;
}

/** `job_definition_id`: of the filter's job. */
export function partsOf(sql: Db, filter: RunFilter, job_definition_id: number | null): ScanPart[] {
  const { states = STATES } = filter;
  const ended = states.filter((state) => TERMINAL.includes(state));
  const open = states.filter((state) => !TERMINAL.includes(state));
  const besides = (leading: (keyof RunFilter)[]) =>
    ASKED.some((name) => filter[name] !== undefined && !leading.includes(name));
  const walk = (lead: Fragment, ...leading: (keyof RunFilter)[]): ScanPart => ({
    lead,
    kind: "walk",
    sifted: besides(leading),
  });
  if (filter.id !== undefined) return [walk(sql`r.id = ${filter.id}`, ...ASKED)];
  if (filter.serial_key !== undefined) {
    const lead = sql`r.serial_key = ${filter.serial_key}`;
    return [
      ...ended.length > 0 ? [walk(sql`${lead} and r.finished_at is not null`, "serial_key")] : [],
      ...open.length > 0 ? [heap(sql`${lead} and ${inStates(sql, NOT_ENDED, sql`r.state`)}`)] : [],
    ];
  }
  if (filter.error_name !== undefined) return [walk(sql`r.error_name = ${filter.error_name}`, "error_name")];
  if (filter.bulk_id !== undefined) {
    const bulk = walk(sql`r.bulk_id = ${filter.bulk_id}`, "bulk_id", "states");
    return states.map((state) => inOrderOfState(sql, filter, state, bulk));
  }
  if (job_definition_id === null && (filter.states === undefined || besides(["states"]))) return [walk(sql`true`)];
  const job = job_definition_id === null ? sql`` : sql`and r.job_definition_id = ${job_definition_id}`;
  const past = (state: RunState): ScanPart => ({
    ...inOrderOfState(sql, filter, state, walk(sql`r.finished_at is not null ${job}`, "states", "job_name")),
    kind: job_definition_id === null ? "jobs" : "walk",
  });
  const suspended: ScanPart = {
    ...walk(sql`r.state = 'SUSPENDED' ${job}`, "states", "job_name"),
    kind: job_definition_id === null ? "jobs" : "walk",
  };
  const one = (states: readonly RunState[]) => inStates(sql, states, sql`r.state`);
  const waits = open.some((state) => WAITING.includes(state));
  return [
    ...ended.map(past),
    ...open.includes("SUSPENDED") ? [suspended] : [],
    ...waits
      ? [heap(sql`${one(WAITING)} and not r.held ${job}`), heap(sql`r.held and r.state <> 'SUSPENDED' ${job}`)]
      : [],
    ...open.some((state) => ACTIVE.includes(state)) ? [heap(sql`${one(ACTIVE)} ${job}`)] : [],
  ];
}

/**
 * Those of the part in a state, as a range of its index (by bulk or job, state and id), in its order. Of equations the planner thinks that all runs from
 * the newest on come in that order as well, and reads those of a month to find a few.
 */
function inOrderOfState(sql: Db, filter: RunFilter, state: RunState, part: ScanPart): ScanPart {
  const { before_id = Number.MAX_SAFE_INTEGER, after_id = 0 } = filter;
  const lead =
    sql`${part.lead} and (r.state, r.id) < (${state}::text, ${before_id}::bigint) and (r.state, r.id) > (${state}::text, ${after_id}::bigint)`;
  return { ...part, lead, first: sql`r.state` };
}

/** Ids of the runs of a job that have come due, the newest `most` of those that have ended and of those that wait; none of those under way. */
export function newestOf(sql: Db, job_definition_id: Fragment, most: number): Fragment {
  const walk = (which: Fragment) =>
    sql`(select r.id from job_run r where r.job_definition_id = ${job_definition_id} and r.scheduled_for <= clock_timestamp() and ${which}
          order by r.scheduled_for desc limit ${most})`;
  return sql`${walk(sql`r.finished_at is not null`)} union all ${walk(inStates(sql, MAY_START, sql`r.state`))}`;
}

/** All runs from the newest on, whatever leads. */
export function byAge(sql: Db): ScanPart {
  return { lead: sql`true`, kind: "walk", sifted: true };
}

function heap(lead: Fragment): ScanPart {
  return { lead, kind: "heap", sifted: false };
}

/** Beside those that lead: what is looked for in each row. Times and edges are bounds of the ids. */
const ASKED: (keyof RunFilter)[] = [
  "job_name",
  "states",
  "serial_key",
  "node",
  "ran_on",
  "worker_id",
  "error_name",
  "bulk_id",
];
