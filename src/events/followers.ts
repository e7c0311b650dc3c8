/**
 * Jobs that come `after` others: `after: ["load_orders", "load_users"]`. Runs that follow from one run are its group (`group_id`, the id of the
 * first). The end of a run in a group leaves a `group_check` in the same transaction, if its job has followers. For each follower of it the
 * leader decides here, once the newest runs of all jobs that it names have ended in that group and no older one goes on:
 *
 *   its rule is met               -> a run, PENDING; its args hold `runs`, the ids of those it comes after
 *   its rule is not met           -> a run that is SKIPPED from the start, and says why: so a graph has no holes
 *   it has a run in the group     -> nothing, unless that one was SKIPPED and the rule is met by now, or the run it follows
 *                                    `repeats_followers` and is newer
 *
 * A check is deleted in the statement that acts on it. One run per group and follower is promised by the key `after:{group}:{definition}`, or with
 * `:{n}` for the nth, whoever else leads. RETRYING and SUSPENDED runs have not ended. A named job without a run in the group keeps it waiting
 * for ever: sync refuses names that do not come from one common job (sync/named_jobs.ts).
 */
import { insertingRuns, now } from "../runs/create_runs.ts";
import type { Db } from "../postgres/connection.ts";
import { fence, type Term } from "../nodes/leadership.ts";

export interface Followed {
  checks: number;
  runs: { id: number; job_name: string; skipped: boolean }[];
}

/** What comes after the runs that have ended, for at most so many ends. */
export async function followEnds(sql: Db, term: Term, most = 500): Promise<Followed> {
  const rows = await sql<{ id: number | null; job_name: string | null; skipped: boolean; checks: number }[]>`
    with ${fence(sql, term)},
    seen as (
      delete from group_check using fence
       where id = any(array(select id from group_check order by id limit ${most})) returning group_id, job_definition_id),
    asked as materialized (
      select distinct s.group_id, f.id as follower
        from seen s join job_definition ended on ended.id = s.job_definition_id
        join job_definition f on f.after_jobs @> array[ended.name] and f.enabled and f.removed_at is null),
    judged as materialized (
      select a.group_id, a.follower, o.*, own.newest as own_newest, own.state as own_state, own.number
        from asked a join job_definition f on f.id = a.follower
        cross join lateral (${namedRuns(sql)}) o
        left join lateral (
          select r.id as newest, r.state, count(*) over () as number from job_run r
           where r.group_id = a.group_id and r.job_definition_id = a.follower order by r.id desc limit 1) own on true
       where o.jobs = cardinality(f.after_jobs) and o.all_ended),
    ask as (
      select row_number() over (order by j.group_id, j.follower) as place, f.id as job_definition_id, 'after' as source,
             'after:' || j.group_id || ':' || f.id || case when j.number is null then '' else ':' || j.number + 1 end as key,
             f.default_args_json || jsonb_build_object('runs', j.runs) as args, f.priority, ${
    now(sql)
  } as due_at, j.scheduled_for as slot,
             fill_template(f.node, f.default_args_json || jsonb_build_object('runs', j.runs)) as node, null::bigint as rerun_of,
             null as own_serial_key, null::bigint as job_schedule_id, null::bigint as event_id, null::bigint as bulk_id,
             fence.epoch as leader_epoch, j.group_id, j.repeats as repeats_followers, case when not met then
               'after: ' || case f.after_when when 'failure' then 'all it comes after have succeeded' else j.worst end end as skipped
        from judged j join job_definition f on f.id = j.follower
        cross join lateral (
          select case f.after_when when 'end' then true when 'failure' then not j.all_succeeded else j.all_succeeded end as met) rule, fence
       where j.own_newest is null or (j.own_state = 'SKIPPED' and met) or (j.repeats and j.newest > j.own_newest)),
    ${insertingRuns(sql, { followers: true })},
    skipped_ends as (
      insert into group_check (group_id, job_definition_id)
      select l.group_id, l.job_definition_id from born join lined l using (id) where l.skipped is not null and l.has_followers)
    select born.id, d.name as job_name, l.skipped is not null as skipped, 0 as checks
      from born join lined l using (id) join job_definition d on d.id = born.job_definition_id
    union all select null, null, false, (select count(*) from seen)::int`;
  return {
    checks: rows.reduce((sum, { checks }) => sum + checks, 0),
    runs: rows.flatMap(({ id, job_name, skipped }) =>
      id === null ? [] : [{ id, job_name: job_name as string, skipped }]
    ),
  };
}

/** Whether a job that is not removed comes after this one. */
export async function hasFollowers(sql: Db, job_name: string): Promise<boolean> {
  const rows = await sql`select from job_definition where name = ${job_name} and has_followers`;
  return rows.length > 0;
}

/** Of the jobs that follower `f` names, in the group of `a`: the newest run of each, and what is to be known of them together. */
function namedRuns(sql: Db) {
  return sql`
    select count(*) as jobs, bool_and(n.ended) as all_ended, bool_and(n.state = 'SUCCEEDED') as all_succeeded, max(n.id) as newest,
           bool_or(n.repeats_followers) as repeats, jsonb_object_agg(n.name, n.id) as runs, max(n.scheduled_for) as scheduled_for,
           (array_agg('run ' || n.id || ' of ' || n.name || ' is ' || n.state order by n.id) filter (where n.state <> 'SUCCEEDED'))[1] as worst
      from (
        select distinct on (d.id) d.name, r.id, r.state, r.scheduled_for, r.repeats_followers,
               not exists (select from job_run g where g.group_id = a.group_id and g.job_definition_id = d.id and g.finished_at is null) as ended
          from job_definition d join job_run r on r.group_id = a.group_id and r.job_definition_id = d.id
         where d.name = any(f.after_jobs) and d.removed_at is null order by d.id, r.id desc) n`;
}
