/** What came of the slots of schedules, for a calendar. Nothing here changes a row. */
import { type Db, json } from "./db.ts";
import type { RunState } from "./runs.ts";

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
  /** Runs of its job before this one were too many to be read: what came of older slots is not known here. */
  known_from: Date | null;
}

/** Of one job; the newest of them. */
export const RUNS_READ = 15_000;

/** The runs of slots from one instant on and before another, oldest first. */
export async function readSlotRuns(
  sql: Db,
  job_schedule_ids: number[],
  range: { from: Date; until: Date },
): Promise<{ places: SlotPlace[]; runs: SlotRun[] }> {
  const ids = json(sql, job_schedule_ids);
  const [places, runs] = await Promise.all([
    sql<Omit<SlotPlace, "known_from">[]>`
      select s.id as job_schedule_id, s.job_definition_id, s.last_slot, d.created_at as job_since
        from job_schedule s join job_definition d on d.id = s.job_definition_id
       where s.id = any(array(select jsonb_array_elements_text(${ids})::bigint))`,
    sql<SlotRun[]>`
      select r.* from (
        select distinct job_definition_id from job_schedule s
         where s.id = any(array(select jsonb_array_elements_text(${ids})::bigint))) d
        cross join lateral (
          select id, job_definition_id, job_schedule_id, rerun_of, scheduled_for, due_at, started_at, finished_at, state
            from job_run o where o.job_definition_id = d.job_definition_id
             and o.scheduled_for >= ${range.from} and o.scheduled_for < ${range.until}
           order by o.scheduled_for desc limit ${RUNS_READ}) r`,
  ]);
  const counts = Map.groupBy(runs, (run) => run.job_definition_id);
  const known_from = (job_definition_id: number) => {
    const theirs = counts.get(job_definition_id) ?? [];
    return theirs.length < RUNS_READ
      ? null
      : theirs.reduce((a, b) => a.scheduled_for < b.scheduled_for ? a : b).scheduled_for;
  };
  return {
    places: places.map((place) => ({ ...place, known_from: known_from(place.job_definition_id) })),
    runs: runs.filter((run) => run.job_schedule_id !== null || run.rerun_of !== null).sort((a, b) => a.id - b.id),
  };
}
