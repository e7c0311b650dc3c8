/**
 * Runs for slots of the past. A backfill is a bulk whose items have their runs from the start: so it can be watched,
 * turned up or down, paused and canceled like any other, and its failures repeated.
 *
 * A slot's run has the key that the leader would have given it, `time:{schedule}:{slot}`: whoever comes second, the
 * leader or another backfill, makes none. One that repeats a slot that was SKIPPED has that key with `:again` behind it, and so
 * comes once as well. A slot so old that its run may have been deleted is none of a backfill's. They are no runs of source `schedule`, so they are never late, and never in the way of a slot of today.
 */
import { insertingRuns, now } from "../runs/create_runs.ts";
import { recordAudit } from "../access/audit.ts";
import { createBulk } from "./bulks.ts";
import { type Db, json, type Sql } from "../postgres/connection.ts";
import type { RunState } from "../runs/run_states.ts";

/** So many slots are one statement. */
const AT_ONCE = 1_000;

/** A slot's run: none; one that ended SKIPPED and was not repeated; any other; none any more, perhaps (runs/retention/run_retention.ts). */
export type SlotState = "free" | "skipped" | "taken" | "forgotten";

export interface PastSlot {
  job_schedule_id: number;
  /** ISO 8601, to the second. */
  slot: string;
}

/** What there is of each slot, in the order in which they were given. */
export async function readSlots(sql: Db, slots: PastSlot[]): Promise<SlotState[]> {
  const states: SlotState[] = [];
  for (let from = 0; from < slots.length; from += AT_ONCE) {
    const part = slots.slice(from, from + AT_ONCE);
    const rows = await sql<{ state: RunState | null; again: boolean; forgotten: boolean }[]>`
      select (select r.state from job_run r where r.idempotency_key = k.key) as state,
             exists (select from job_run r where r.idempotency_key = k.key || ':again') as again,
             exists (select from schedule_watermark f where f.job_schedule_id = k.job_schedule_id and k.slot <= f.upto) as forgotten
        from jsonb_to_recordset(${json(sql, part.map((one, place) => ({ ...one, place, key: keyOf(one) })))})
               as k(place int, job_schedule_id bigint, slot timestamptz, key text) order by k.place`;
    states.push(...rows.map(stateOf));
  }
  return states;
}

function stateOf(
  { state, again, forgotten }: { state: RunState | null; again: boolean; forgotten: boolean },
): SlotState {
  if (state === null) return forgotten ? "forgotten" : "free";
  return state === "SKIPPED" && !again && !forgotten ? "skipped" : "taken"; // that it was repeated may be forgotten
}

export interface NewBackfill {
  job_name: string;
  /** For people: "backfill of nightly". */
  name: string;
  /** What it is made for, oldest first; those that have a run, or turn out to, are left out. */
  slots: PastSlot[];
  /** Repeat those whose run was SKIPPED. */
  skipped: boolean;
  /** Without the runs of jobs that come after theirs. */
  alone?: boolean;
  parallel: number;
  priority: number;
  actor: string;
  reason: string;
}

/** All of it is one transaction. Undefined: no slot needed a run, and nothing was made. */
export async function createBackfill(
  sql: Sql,
  wish: NewBackfill,
): Promise<{ bulk_id: number; runs: number } | undefined> {
  const { job_name, name, parallel, priority, actor, reason } = wish;
  try {
    return await sql.begin(async (tx) => {
      const made = await createBulk(tx, { job_name, name, parallel, priority, interval_seconds: 0, actor, reason });
      if ("unknown_job" in made) return undefined;
      const { bulk_id } = made;
      let runs = 0;
      for (let from = 0; from < wish.slots.length; from += AT_ONCE) {
        const slots = wish.slots.slice(from, from + AT_ONCE);
        runs += await insertRuns(tx, slots, { bulk_id, first_seq: runs + 1, skipped: wish.skipped, alone: wish.alone });
      }
      if (runs === 0) throw new NothingToDo();
      await tx`update bulk set next_seq = ${
        runs + 1
      }, started_at = clock_timestamp(), fed_at = clock_timestamp() where id = ${bulk_id}`;
      const after = { job_name, name, bulk_id, runs, first: wish.slots[0]?.slot, last: wish.slots.at(-1)?.slot };
      await recordAudit(tx, {
        actor,
        action: "schedule.backfill",
        target_type: "job",
        target_id: job_name,
        after: { ...after, skipped: wish.skipped, alone: wish.alone },
        reason,
      });
      return { bulk_id, runs };
    });
  } catch (error) {
    if (error instanceof NothingToDo) return undefined;
    throw error;
  }
}

/** Takes the bulk back. */
class NothingToDo extends Error {}

async function insertRuns(
  tx: Db,
  slots: PastSlot[],
  to: { bulk_id: number; first_seq: number; skipped: boolean; alone?: boolean },
): Promise<number> {
  const asked = slots.map((one, place) => ({ ...one, place, key: keyOf(one) }));
  const rows = await tx`
    with ask as (
      select a.place, d.id as job_definition_id, 'bulk' as source, case when old.id is null then a.key else a.key || ':again' end as key,
             d.default_args_json || s.args_json as args, b.priority, ${now(tx)} as due_at, a.slot,
             fill_template(d.node, d.default_args_json || s.args_json) as node, old.id as rerun_of, null as own_serial_key,
             case when old.id is null then s.id end as job_schedule_id, null::bigint as event_id, b.id as bulk_id,
             null::bigint as leader_epoch
        from jsonb_to_recordset(${json(tx, asked)}) as a(place int, job_schedule_id bigint, slot timestamptz, key text)
        join bulk b on b.id = ${to.bulk_id} join job_schedule s on s.id = a.job_schedule_id
        join job_definition d on d.id = s.job_definition_id
        left join job_run old on old.idempotency_key = a.key
       where (old.id is null or (${to.skipped} and old.state = 'SKIPPED'))
         and not exists (select from schedule_watermark f where f.job_schedule_id = s.id and a.slot <= f.upto)),
    ${insertingRuns(tx, { alone: to.alone })}
    insert into bulk_item (bulk_id, seq, args_json, job_run_id, rerun_of)
    select ask.bulk_id, ${to.first_seq} - 1 + row_number() over (order by ask.place), ask.args, born.id, ask.rerun_of
      from born join ask on ask.key = born.idempotency_key
    returning 1`;
  return rows.length;
}

function keyOf({ job_schedule_id, slot }: PastSlot): string {
  return `time:${job_schedule_id}:${slot}`;
}
