/** What runs that have not ended have recorded so far, over all of one job: what a change of its code would meet. */
import type { Db } from "../postgres/connection.ts";
import type { StepKind } from "../sandbox/frames/step_frames.ts";

export interface JournalsInFlight {
  /** Runs with a journal. */
  runs: number;
  /** There are more, which were not looked at. */
  more: boolean;
  /** Since the first row of the oldest. */
  oldest_seconds: number;
  /** What they wait for, most first. A run may wait for several things. */
  waits: RecordedName[];
  /** What their code has asked for by a name of its own, and how many have recorded it. */
  names: RecordedName[];
}

export interface RecordedName {
  kind: StepKind;
  /** Of a sleep it may be empty. */
  name: string;
  runs: number;
}

const MOST_RUNS = 10_000;
const MOST_NAMES = 1_000;
/** A job to `call` is most often named by its file. */
const NAMED: readonly StepKind[] = ["step", "sleep", "message", "event", "mark"];

/** Undefined: no run that goes on has a journal. */
export async function journalsInFlight(sql: Db, job_definition_id: number): Promise<JournalsInFlight | undefined> {
  const live = sql`select id from job_run where job_definition_id = ${job_definition_id}`;
  const [found] = await sql<{ runs: number; oldest_seconds: number; recorded: (RecordedName & { waits: number })[] }[]>`
    with live as (
      ${live} and state = 'SUSPENDED' union all ${live} and state in ('ASSIGNED', 'RUNNING')
      union all ${live} and state in ('RETRYING', 'ORPHANED')),
    run as materialized (
      select id from live where exists (select from run_step s where s.job_run_id = live.id) order by id limit ${
    MOST_RUNS + 1
  }),
    row as materialized (
      select s.job_run_id, s.kind, s.began_at, s.state = 'WAITING' as waits, case when s.kind in ('message', 'event') then s.waits_for
               else regexp_replace(regexp_replace(s.key, '^(\\[.*\\])?[a-z]+:', ''), '(\\[[^]]*\\])?(#[0-9]+)?$', '') end as name
        from run join run_step s on s.job_run_id = run.id)
    select (select count(*)::int from run) as runs,
           (select extract(epoch from clock_timestamp() - min(began_at))::float8 from row) as oldest_seconds,
           (select coalesce(jsonb_agg(to_jsonb(n)), '[]') from (
             select kind, name, count(distinct job_run_id) as runs, count(distinct job_run_id) filter (where waits) as waits
               from row group by kind, name order by 3 desc, 1, 2 limit ${MOST_NAMES}) n) as recorded`;
  if (!found || found.runs === 0) return undefined;
  const named = found.recorded.map(({ kind, name, runs, waits }) => ({ kind, name: name ?? "", runs, waits }));
  return {
    runs: Math.min(found.runs, MOST_RUNS),
    more: found.runs > MOST_RUNS,
    oldest_seconds: found.oldest_seconds,
    waits: named.filter(({ waits }) => waits > 0).map(({ kind, name, waits }) => ({ kind, name, runs: waits }))
      .sort((a, b) => b.runs - a.runs),
    names: named.filter(({ kind, name }) => NAMED.includes(kind) && name !== "")
      .map(({ kind, name, runs }) => ({ kind, name, runs })),
  };
}
