/** What came of the slots of schedules, for a calendar. Nothing here changes a row. */
import type { Db } from "../postgres/connection.ts";
import type { RunState } from "../runs/run_states.ts";
import { firstStart } from "../runs/run_view.ts";

/** A run of a slot, or one that repeats it. */
export interface SlotRun {
  id: number;
  job_definition_id: number;
  /** Null: it repeats `rerun_of`. */
  job_schedule_id: number | null;
  rerun_of: number | null;
  scheduled_for: Date;
  due_at: Date;
  started_at: Date | null;
  finished_at: Date | null;
  state: RunState;
}

/** How far a schedule has been looked after. */
export interface SlotPlace {
  job_schedule_id: number;
  job_definition_id: number;
  /** Every slot up to here was dealt with. */
  last_slot: Date;
  /** Its job was not there before. */
  job_since: Date;
  /** Its runs before this one were too many to be read, or were deleted: what came of older slots is not known here. */
  known_from: Date | null;
}

/** Of one schedule; the newest of them. */
const RUNS_READ = 15_000;

/** The runs of slots from one instant on and before another, with those that repeat them, oldest first. */
export async function readSlotRuns(
  sql: Db,
  job_schedule_ids: number[],
  range: { from: Date; until: Date },
): Promise<{ places: SlotPlace[]; runs: SlotRun[] }> {
  const [places, runs] = await Promise.all([
    sql<SlotPlace[]>`
      select s.id as job_schedule_id, s.job_definition_id, s.last_slot, d.created_at as job_since, f.upto + interval '1 s' as known_from
        from job_schedule s join job_definition d on d.id = s.job_definition_id
        left join schedule_watermark f on f.job_schedule_id = s.id
       where s.id = any(${job_schedule_ids}::bigint[])`,
    sql<SlotRun[]>`
      select ${shown(sql)} from unnest(${job_schedule_ids}::bigint[]) as s(id) cross join lateral (
        select * from job_run o where o.job_schedule_id = s.id and o.scheduled_for >= ${range.from} and o.scheduled_for < ${range.until}
         order by o.scheduled_for desc limit ${RUNS_READ}) r`,
  ]);
  const of_schedule = Map.groupBy(runs, (run) => run.job_schedule_id);
  const known_from = (job_schedule_id: number) => {
    const theirs = of_schedule.get(job_schedule_id) ?? [];
    return theirs.length < RUNS_READ ? undefined : (theirs.at(-1) as SlotRun).scheduled_for;
  };
  const repeats = await readRepeats(sql, runs);
  return {
    places: places.map((place) => ({ ...place, known_from: known_from(place.job_schedule_id) ?? place.known_from })),
    runs: [...runs, ...repeats].sort((a, b) => a.id - b.id),
  };
}

/** Few of many runs are repeated, so those that repeat any run of that time are read, and not looked for run by run. */
async function readRepeats(sql: Db, runs: SlotRun[]): Promise<SlotRun[]> {
  let first = Infinity, last = 0;
  for (const { id } of runs) [first, last] = [Math.min(first, id), Math.max(last, id)];
  if (last === 0) return [];
  return await sql<SlotRun[]>`
    with recursive repeat as (
      (select r.* from job_run r join job_run was on was.id = r.rerun_of and was.job_schedule_id is not null
        where r.rerun_of between ${first} and ${last} order by r.rerun_of limit ${RUNS_READ})
      union all
      select r.* from repeat join job_run r on r.rerun_of = repeat.id)
    select ${shown(sql)} from repeat r`;
}

function shown(sql: Db) {
  return sql`r.id, r.job_definition_id, r.job_schedule_id, r.rerun_of, r.scheduled_for, r.due_at, ${
    firstStart(sql)
  } as started_at, r.finished_at, r.state`;
}
