/**
 * Messages: what the world sends to a run (`run_message`). Each is kept until a wait of its name takes it (commitSteps), so one may come
 * before the wait does. A trigger leaves a `wake_check` in the same transaction, by which the leader raises `wakes` (wakes.ts), and notifies the
 * worker that has the run. The run's own row is not locked: a sender's transaction may take long, and all steps of its worker would wait.
 */
import type { Actor } from "../access/audit.ts";
import { type Db, json } from "../postgres/connection.ts";

export interface NewMessage {
  job_run_id: number;
  name: string;
  payload: unknown;
  /** Unique in its run: a repeat gives back the first. */
  dedupe_key?: string;
  sent_by: string;
  /** Of an operator's act, which is audited; undefined: a program or another run has sent it. */
  by?: Actor;
}

/** `is_new` false: the key was used before, and this is the message of that time. */
export type SentMessage = { id: number; is_new: boolean } | { refused: MessageRefusal };

export type MessageRefusal =
  | { code: "unknown_run" }
  | { code: "ended"; state: string }
  | { code: "unknown_message"; known: string[] }
  | { code: "box_full"; most: number };

/** Messages of a run that no wait has taken. */
export const MOST_UNREAD = 1_000;

/** On the pool, or in the caller's transaction; a message of one that is rolled back never was. */
export async function sendMessage(sql: Db, message: NewMessage): Promise<SentMessage> {
  const { job_run_id, name, dedupe_key = null, by } = message;
  const noted = by
    ? sql`, noted as (
      insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
      select ${by.actor}, 'run.send', 'run', ${job_run_id}::text, jsonb_build_object('message_id', id, 'name', ${name}::text), ${by.reason}
        from sent)`
    : sql``;
  const [row] = await sql<
    { state: string; ended: boolean; known: string[]; unread: number; id: number | null; old_id: number | null }[]
  >`
    with run as materialized (
      select r.id, r.state, r.finished_at is not null as ended, d.messages
        from job_run r join job_definition d on d.id = r.job_definition_id where r.id = ${job_run_id}),
    box as materialized (
      select (select id from run_message where job_run_id = ${job_run_id} and dedupe_key = ${dedupe_key}) as old_id,
             (select count(*) from (
               select from run_message where job_run_id = ${job_run_id} and taken_by is null and for_key is null limit ${MOST_UNREAD}) m) as unread),
    sent as (
      insert into run_message (job_run_id, name, payload, dedupe_key, sent_by)
      select run.id, ${name}, coalesce(${
    json(sql, message.payload)
  }, 'null'), ${dedupe_key}, ${message.sent_by} from run, box
       where not run.ended and run.messages -> ${name}::text is not null and box.unread < ${MOST_UNREAD} and box.old_id is null
      on conflict (job_run_id, dedupe_key) where dedupe_key is not null do nothing
      returning id)${noted}
    select run.state, run.ended, array(select json_object_keys(run.messages) order by 1) as known, box.unread::int, box.old_id,
           (select id from sent) as id
      from run, box`;
  if (!row) return { refused: { code: "unknown_run" } };
  if (row.id !== null) return { id: row.id, is_new: true };
  if (row.old_id !== null) return { id: row.old_id, is_new: false };
  if (row.ended) return { refused: { code: "ended", state: row.state } };
  if (!row.known.includes(name)) return { refused: { code: "unknown_message", known: row.known } };
  if (row.unread >= MOST_UNREAD) return { refused: { code: "box_full", most: MOST_UNREAD } };
  return await sendMessage(sql, message); // its key was committed by another since this statement began: now it is seen
}
