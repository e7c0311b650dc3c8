/**
 * What has changed since it was last looked at: a mark for each topic, which differs when something of it was written. One
 * statement for all who watch. Marks come from where the table is small or an index leads: rows' own `xmin`, highest ids.
 * Runs that wait are too many to look at: who shows some watches them by their ids.
 */
import type { Db } from "./connection.ts";

export const TOPICS = ["runs", "jobs", "bulks", "events", "nodes", "settings", "audit", "alerts", "waiting"] as const;
/** `run:812` is that run with its log and its steps; `runs` all new runs, starts and ends. */
export type Topic = typeof TOPICS[number] | `run:${number}`;

export async function readChanges(sql: Db, topics: readonly Topic[]): Promise<Map<Topic, string>> {
  const run_ids = topics.filter((topic) => topic.startsWith("run:")).map((topic) => Number(topic.slice("run:".length)));
  const rows = await sql<{ topic: Topic; mark: string | null }[]>`
    select topic, case topic
      when 'runs' then (select concat_ws(':', (select max(id) from job_run), count(*), sum(xmin::text::bigint))
                          from job_run where state in ('ASSIGNED', 'RUNNING'))
      when 'jobs' then (select concat_ws(':', count(*), sum(d.xmin::text::bigint),
                                         (select sum(s.xmin::text::bigint) from job_schedule s)) from job_definition d)
      when 'bulks' then (select concat_ws(':', (select max(id) from bulk), count(*), sum(xmin::text::bigint))
                           from bulk where finished_at is null)
      when 'events' then (select concat_ws(':', max(id), (select min(id) from event where processed_at is null)) from event)
      when 'nodes' then (select concat_ws(':', (select epoch from leader_term),
          (select degrade_epoch from leader_term),
          (select md5(string_agg(concat_ws(',', worker_id, state, subleader, slots, lease_until > clock_timestamp(),
                                           div(extract(epoch from seen_at), 10)), ';' order by worker_id))
             from worker where state <> 'DEAD'),
          (select concat_ws(',', count(*), sum(xmin::text::bigint)) from code_mismatch),
          (select sum(xmin::text::bigint) from node)))
      when 'settings' then (select concat_ws(':', count(*), sum(xmin::text::bigint)) from scheduler_settings)
      when 'alerts' then (select concat_ws(':', max(id), count(*) filter (where closed_at is null),
                                           count(*) filter (where acked_at is null and closed_at is null),
                                           (select concat_ws(',', max(id), sum(attempts), count(delivered_at)) from alert_delivery
                                             where created_at > clock_timestamp() - interval '1 hour'))
                            from alert where closed_at is null or opened_at > clock_timestamp() - interval '1 day')
      when 'waiting' then (select concat_ws(':', count(*), max(began_at)) from (
          select began_at from run_step where kind = 'message' and state = 'WAITING' and prompt is not null
           order by began_at desc limit 1000) asked)
      when 'audit' then (select max(id)::text from admin_action_log)
    end as mark
      from unnest(${topics.filter((topic) => !topic.startsWith("run:"))}::text[]) as topic
    union all
    select 'run:' || r.id, concat_ws(':', r.xmin::text, (select max(l.id) from job_run_log l where l.job_run_id = r.id),
             (select concat_ws(',', count(*), max(s.xmin::text::bigint)) from run_step s where s.job_run_id = r.id))
      from job_run r where r.id = any(${run_ids}::bigint[])`;
  return new Map(rows.map(({ topic, mark }) => [topic, mark ?? ""]));
}
