/**
 * Alerts: what somebody should look at. A condition that begins opens one, its end closes it, once each: one alert of a
 * kind and subject is open at a time. Each opening and closing leaves a delivery in the same statement, which workers
 * send to the webhook (alerts/alert_delivery.ts).
 *
 *   condition --judgeAlerts, by the leader--> open --condition over, or judged after an `ack` that covers it--> closed
 *   nobody leads, or due work does not start --watchLeader, by the others--> open
 *   delivery: due --claim--> being sent --record--> delivered | due again, later | given up
 *
 * The leader judges all but its own absence; that, and once more what is overdue, is judged by workers that do not lead:
 * the watcher must not be the watched. Both use the same words for overdue, so that one does not close what the other opens.
 */
import type { Actor } from "../access/audit.ts";
import { nobodyHas } from "../runs/code_mismatch.ts";
import type { Db } from "../postgres/connection.ts";
import { GUESSED, WITHIN_MINUTES } from "../access/login_attempts.ts";
import { fenceBeside, type Term } from "../nodes/leadership.ts";
import { inStates, MAY_START } from "../runs/run_states.ts";
import { stored } from "../locale/message.ts";
import { storedMessage } from "../postgres/stored_message.ts";

/** What there is; `alerts.about.KIND` of the locales says what each tells of its subject. */
export const ALERT_KINDS = [
  "run.failed",
  "run.quarantined",
  "run.overdue",
  "code.missing",
  "node.away",
  "leader.none",
  "bulk.paused",
  "key.blocked",
  "certificate.expiring",
  "clock.skewed",
  "login.guessed",
] as const;
export type AlertKind = typeof ALERT_KINDS[number];

export interface Limits {
  overdue_seconds: number;
  no_code_seconds: number;
  /** Whether the leader's own worker may run jobs. */
  leader_runs: boolean;
  no_leader_seconds: number;
  certificate_days: number;
  clock_skew_seconds: number;
}

export interface AlertCondition {
  kind: AlertKind;
  subject: string;
  message: string;
  what: "opened" | "closed";
}

/** Opens what is true and not open, closes what is open and not true. */
export async function judgeAlerts(sql: Db, term: Term, limits: Limits): Promise<AlertCondition[]> {
  return await sql<AlertCondition[]>`
    with ${fenceBeside(sql, term)},
    found as materialized (
      ${lastRuns(sql, "failed")}
      union all ${lastRuns(sql, "quarantined")}
      union all ${overdue(sql, limits)}
      union all ${codeMissing(sql, limits)}
      union all ${nodesAway(sql)}
      union all ${guessed(sql)}
      union all
      select 'bulk.paused', b.id::text, ${
    storedMessage(
      sql,
      "alerts.message.bulk_paused",
      sql`jsonb_build_object('name', b.name, 'job_name', d.name, 'reason', b.reason)`,
    )
  },
             jsonb_build_object('bulk_id', b.id, 'name', b.name, 'job_name', d.name)
        from bulk b join job_definition d on d.id = b.job_definition_id
       where b.state = 'PAUSED' and b.changed_by = 'system' and b.finished_at is null
      union all
      select 'key.blocked', serial_key, ${
    storedMessage(sql, "alerts.message.key_stopped", sql`jsonb_build_object('reason', reason)`)
  }, jsonb_build_object('job_run_id', job_run_id)
        from serial_key_pause where stopped_by = 'system'
      union all
      select 'certificate.expiring', node_id, ${
    storedMessage(sql, "alerts.message.certificate", sql`jsonb_build_object('not_after', min(tls_not_after))`)
  }, jsonb_build_object('not_after', min(tls_not_after))
        from worker where state <> 'DEAD' and tls_not_after < clock_timestamp() + ${limits.certificate_days} * interval '1 day'
       group by node_id
      union all
      select 'clock.skewed', node_id, ${
    storedMessage(sql, "alerts.message.clock", sql`jsonb_build_object('ms', max(abs(clock_skew_ms)))`)
  },
             jsonb_build_object('clock_skew_ms', max(abs(clock_skew_ms)))
        from worker where state <> 'DEAD' and abs(clock_skew_ms) > ${limits.clock_skew_seconds}::float8 * 1000 group by node_id),
    opened as (
      insert into alert (kind, subject, message, detail, opened_by)
      select f.kind, f.subject, f.message, f.detail, 'leader' from fence, found f
      on conflict (kind, subject) where closed_at is null do nothing returning id, kind, subject, message),
    closed as (
      update alert a set closed_at = clock_timestamp() from fence
       where a.closed_at is null and not exists (select from found f where f.kind = a.kind and f.subject = a.subject)
      returning a.id, a.kind, a.subject, a.message),
    changed as (select *, 'opened' as what from opened union all select *, 'closed' from closed),
    told as (insert into alert_delivery (alert_id, what) select id, what from changed)
    select kind, subject, message, what from changed`;
}

/** By who does not lead: opens "nobody leads", and with `overdue` what does not start. The leader closes them. */
export async function watchLeader(
  sql: Db,
  by: { worker_id: string; overdue: boolean },
  limits: Pick<Limits, "no_leader_seconds" | "overdue_seconds" | "leader_runs">,
): Promise<AlertCondition[]> {
  return await sql<AlertCondition[]>`
    with found as (
      select 'leader.none' as kind, 'leader' as subject, ${
    storedMessage(sql, "alerts.message.no_leader", sql`jsonb_build_object('since', since)`)
  } as message, jsonb_build_object('since', since) as detail
        from leader_term, greatest(lease_until, acquired_at, resigned_at, watched_from) since
       where epoch > 0 and since < clock_timestamp() - ${limits.no_leader_seconds} * interval '1 s' and lease_until < clock_timestamp()
      ${by.overdue ? sql`union all (${overdue(sql, limits)})` : sql``}),
    opened as (
      insert into alert (kind, subject, message, detail, opened_by) select kind, subject, message, detail, ${by.worker_id} from found
      on conflict (kind, subject) where closed_at is null do nothing returning id, kind, subject, message),
    told as (insert into alert_delivery (alert_id, what) select id, 'opened' from opened)
    select kind, subject, message, 'opened' as what from opened`;
}

/**
 * Nothing ran until now, and was not meant to, as before a `dev` that starts: what is late, away or without a leader counts from here. Where
 * a worker is alive, others are at work on this database and all of that means what it says.
 */
export async function watchFromNow(sql: Db): Promise<void> {
  await sql`
    update leader_term set watched_from = clock_timestamp()
     where id = 1 and not exists (select from worker where state <> 'DEAD' and lease_until > clock_timestamp())`;
}

/** Until a run of the job succeeds, or somebody has seen it. */
function lastRuns(sql: Db, what: "failed" | "quarantined") {
  const [at, run] = [sql(`last_${what}_at`), sql(`last_${what}_run`)];
  return sql`
    select ${`run.${what}`}::text as kind, d.name as subject, ${
    storedMessage(sql, `alerts.message.${what}`, sql`jsonb_build_object('job_run_id', s.${run})`)
  } as message,
           jsonb_build_object('job_run_id', s.${run}, 'at', s.${at}) as detail
      from run_stat s join job_definition d on d.id = s.job_definition_id
     where s.grain_seconds = 0 and s.${at} > coalesce(s.last_succeeded_at, '-infinity') and d.removed_at is null
       and not ${acked(sql, `run.${what}`, sql`d.name`, sql`s.${at}`)}`;
}

/**
 * Due work that may start and does not, and slots that nobody made runs of. A run that was cut short has waited since then, and not since it was first
 * due; one that is given to a worker has not started yet. What an operator paused is not overdue, nor what no worker has the code of, which says so itself.
 */
function overdue(sql: Db, { overdue_seconds, leader_runs }: Pick<Limits, "overdue_seconds" | "leader_runs">) {
  const before = sql`now() - ${overdue_seconds} * interval '1 s'`;
  return sql`
    select 'run.overdue' as kind, d.name as subject,
           ${storedMessage(sql, "alerts.message.overdue", sql`jsonb_build_object('due_at', o.due_at)`)} as message,
           jsonb_build_object('due_at', o.due_at, 'job_run_id', o.id) as detail
      from job_definition d cross join lateral (
        (select greatest(r.due_at, r.woken_at) as due_at, r.id from job_run r
          where r.job_definition_id = d.id and ${
    inStates(sql, MAY_START, sql`r.state`)
  } and not r.held and r.due_at < ${before} and (r.woken_at < ${before}) is not false
            and not exists (select from queue_block_reason q
                             where q.job_definition_id = d.id and q.node = coalesce(r.node, '') and ${lacksCode(sql)})
            and not exists (select from job_run_attempt a where a.job_run_id = r.id and a.attempt = r.attempt
                             and a.started_at is not null and a.ended_at > ${before})
          order by r.job_definition_id, coalesce(r.node, ''), r.priority, r.due_at limit 1)
        union all
        (select r.due_at, r.id from alert a join job_run r on r.id = (a.detail->>'job_run_id')::bigint
          where a.kind = 'run.overdue' and a.subject = d.name and a.closed_at is null and r.state = 'ASSIGNED')
        union all
        (select s.next_slot, null from job_schedule s
          where s.job_definition_id = d.id and s.enabled and s.paused_at is null and d.enabled and s.next_slot < ${before} limit 1)
        limit 1) o
     where d.paused_at is null and (select watched_from from leader_term) < ${before}
       and not exists (select from (${nobodyHas(sql, { leader_runs })}) n where n.job_definition_id = d.id)
       and not exists (select from scheduler_settings where name = 'dispatch' and value = '"paused"')`;
}

/** Whether a run queue `q` waits for workers with the job's code, and not for a free one of those that have it. */
function lacksCode(sql: Db) {
  return sql`q.reason->>'code' = 'no_code' and (q.reason->'params'->>'having')::int = 0`;
}

/**
 * One for each job and version, and for each node or labels that its runs are pinned to where only the workers there lack it, of which the
 * leader keeps account (dispatch_queues.ts). Open, it stays so until somebody has it, also when workers come or go meanwhile, so that it is told once. */
function codeMissing(sql: Db, { no_code_seconds, leader_runs }: Pick<Limits, "no_code_seconds" | "leader_runs">) {
  return sql`
    select 'code.missing', c.subject,
           ${
    storedMessage(
      sql,
      "alerts.message.missing",
      sql`jsonb_build_object('where', c.place, 'version', left(c.digest, 7), 'job_name', c.name, 'others', c.others)`,
    )
  },
           jsonb_strip_nulls(jsonb_build_object('job_name', c.name, 'digest', c.digest, 'node', c.node))
      from (select n.since, n.digest, (
                     select coalesce(jsonb_agg(jsonb_build_object(
                              'code', case when o->>'digest' is null then 'runs.version.none' else 'runs.version.have' end,
                              'params', jsonb_strip_nulls(jsonb_build_object('workers', (o->>'workers')::int, 'version', left(o->>'digest', 7))))), '[]')
                       from jsonb_array_elements(n.others) o) as others,
                   null as node, null::jsonb as place, d.name, d.name || ' ' || left(n.digest, 7) as subject
              from (${nobodyHas(sql, { leader_runs })}) n join job_definition d on d.id = n.job_definition_id
            union all
            select q.since, d.digest, coalesce(q.reason->'params'->'others', '[]'), q.node, q.reason->'params'->'where',
                   d.name, d.name || ' ' || left(d.digest, 7) || ' ' || q.node
              from queue_block_reason q join job_definition d on d.id = q.job_definition_id
             where q.node <> '' and ${
    lacksCode(sql)
  } and q.reason->'params'->>'digest' = d.digest and d.paused_at is null
               and not exists (select from (${nobodyHas(sql, { leader_runs })}) n where n.job_definition_id = d.id)) c
     where c.since < clock_timestamp() - ${no_code_seconds} * interval '1 s'
        or exists (select from alert a where a.kind = 'code.missing' and a.subject = c.subject and a.closed_at is null)`;
}

/**
 * A node that stopped well is not away, nor is one to which a worker has come since a check found none. Closed when it answers, is put into maintenance, or somebody has seen it; who has seen it is not told
 * again at each check that finds the same.
 */
function nodesAway(sql: Db) {
  return sql`
    select 'node.away' as kind, n.node_id as subject, coalesce(n.check_result->>'problem', ${
    stored("alerts.message.no_worker")
  }) as message,
           jsonb_build_object('checked_at', n.checked_at) as detail
      from node n cross join lateral (
        select w.state, w.dead_epoch, w.started_at, w.ended_at, w.seen_at from worker w where w.node_id = n.node_id order by w.state = 'DEAD', w.started_at desc limit 1) w
     where n.is_active and n.status = 'unavailable' and n.checked_at is not null and (w.state <> 'DEAD' or w.dead_epoch is not null)
       and not (w.state <> 'DEAD' and w.started_at > n.checked_at and n.check_result->>'worker_id' is null)
       and not (w.state = 'DEAD' and w.seen_at < (select watched_from from leader_term))
       and not ${acked(sql, "node.away", sql`n.node_id`, sql`coalesce(w.ended_at, n.status_at)`)}`;
}

/** Until the tries are fewer again, or forgotten. Tries in the user's own browsers are not counted. */
function guessed(sql: Db) {
  return sql`
    select 'login.guessed', u.name, ${
    storedMessage(
      sql,
      "alerts.message.guessed",
      sql`jsonb_build_object('tries', t.tries, 'addresses', t.addresses, 'minutes', ${WITHIN_MINUTES}::int)`,
    )
  },
           jsonb_build_object('tries', t.tries, 'addresses', t.addresses)
      from (select name, count(*) as tries, count(distinct address) as addresses from admin_login_attempt
             where device is null and at > clock_timestamp() - ${WITHIN_MINUTES} * interval '1 minute'
             group by name having count(*) >= ${GUESSED}) t
      join admin_user u on u.name = t.name and u.disabled_at is null`;
}

function acked(sql: Db, kind: AlertKind, subject: ReturnType<Db>, since: ReturnType<Db>) {
  return sql`exists (select from alert a where a.kind = ${kind} and a.subject = ${subject} and a.acked_at > ${since})`;
}

export interface Alert {
  id: number;
  kind: AlertKind;
  subject: string;
  message: string;
  detail: unknown;
  opened_at: Date;
  opened_by: string;
  closed_at: Date | null;
  acked_at: Date | null;
  acked_by: string | null;
  ack_reason: string | null;
  /** When the webhook took the news of its opening; null: not yet, or there is none. */
  told_at: Date | null;
  last_error: string | null;
}

/** Open ones first, then the newest. */
export async function listAlerts(sql: Db, which: { open?: boolean; limit?: number } = {}): Promise<Alert[]> {
  return await sql<Alert[]>`
    select a.*, v.delivered_at as told_at, v.last_error from alert a
      left join lateral (select delivered_at, last_error from alert_delivery v where v.alert_id = a.id and v.what = 'opened' limit 1) v on true
     where ${which.open ? sql`a.closed_at is null` : sql`true`}
     order by a.closed_at is not null, a.opened_at desc limit ${which.limit ?? 50}`;
}

/** Somebody has seen it. Failures and lost nodes are closed by that at the next look; others when they are over. False: it is not open, or was seen. */
export async function ackAlert(sql: Db, id: number, by: Actor): Promise<boolean> {
  const rows = await sql`
    with acked as (
      update alert set acked_at = clock_timestamp(), acked_by = ${by.actor}, ack_reason = ${by.reason}
       where id = ${id} and closed_at is null and acked_at is null returning id, kind, subject)
    insert into admin_action_log (actor, action, target_type, target_id, after_json, reason)
    select ${by.actor}, 'alert.ack', 'alert', id::text, jsonb_build_object('kind', kind, 'subject', subject), ${by.reason} from acked returning 1`;
  return rows.length > 0;
}

/** Has a test message sent to the webhook; gives its delivery. */
export async function requestTest(sql: Db, by: Actor): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    with asked as (insert into alert_delivery (what) values ('test') returning id),
    noted as (
      insert into admin_action_log (actor, action, target_type, target_id, reason)
      select ${by.actor}, 'alert.test', 'alert_delivery', id::text, ${by.reason} from asked)
    select id from asked`;
  return row?.id ?? 0;
}

export interface AlertDelivery {
  id: number;
  what: "opened" | "closed" | "test";
  attempts: number;
  claim: string;
  created_at: Date;
  alert:
    | Pick<Alert, "id" | "kind" | "subject" | "message" | "detail"> & { opened_at: string; closed_at: string | null }
    | null;
}

/** After so long news is no news; it is not sent any more. */
export const NEWS_HOURS = 24;

/**
 * Takes deliveries that are due, for `lease_ms`: who has not recorded by then has lost its claim. The closing of an alert
 * waits until its opening was told, given up, or no news any more.
 */
export async function claimDeliveries(
  sql: Db,
  worker_id: string,
  on: { lease_ms: number; most: number },
): Promise<AlertDelivery[]> {
  return await sql<AlertDelivery[]>`
    with due as materialized (
      select v.id from alert_delivery v
       where v.delivered_at is null and v.given_up_at is null and v.next_try_at <= clock_timestamp()
         and v.created_at > clock_timestamp() - ${NEWS_HOURS} * interval '1 hour'
         and not (v.what = 'closed' and exists (select from alert_delivery o where o.alert_id = v.alert_id and o.what = 'opened'
                   and o.delivered_at is null and o.given_up_at is null
                   and o.created_at > clock_timestamp() - ${NEWS_HOURS} * interval '1 hour'))
       order by v.next_try_at, v.id limit ${on.most} for update skip locked)
    update alert_delivery v
       set claim = gen_random_uuid(), claimed_by = ${worker_id}, attempts = attempts + 1,
           next_try_at = clock_timestamp() + ${on.lease_ms} * interval '1 ms'
     where v.id = any(array(select id from due))
    returning v.id, v.what, v.attempts, v.claim::text, v.created_at,
      (select json_build_object('id', a.id, 'kind', a.kind, 'subject', a.subject, 'message', a.message, 'detail', a.detail,
                                'opened_at', a.opened_at, 'closed_at', a.closed_at) from alert a where a.id = v.alert_id) as alert`;
}

/** What came of it. False: the claim was lost meanwhile, and somebody else sends it as well. */
export async function recordDelivery(
  sql: Db,
  { id, claim }: Pick<AlertDelivery, "id" | "claim">,
  outcome: "delivered" | { error: string; retry_ms: number | null },
): Promise<boolean> {
  const failed = outcome === "delivered" ? undefined : outcome;
  const rows = await sql`
    update alert_delivery set claim = null, last_error = ${failed?.error ?? null},
           delivered_at = case when ${failed === undefined} then clock_timestamp() end,
           given_up_at = case when ${failed?.retry_ms === null} then clock_timestamp() end,
           next_try_at = clock_timestamp() + ${failed?.retry_ms ?? 0} * interval '1 ms'
     where id = ${id} and claim = ${claim}::uuid and delivered_at is null returning 1`;
  return rows.length > 0;
}

/** What came of a delivery so far. */
export interface DeliveryView {
  attempts: number;
  delivered_at: Date | null;
  last_error: string | null;
  claimed_by: string | null;
}

export async function readDelivery(sql: Db, id: number): Promise<DeliveryView | undefined> {
  const [row] = await sql<DeliveryView[]>`
    select attempts, delivered_at, last_error, claimed_by from alert_delivery where id = ${id}`;
  return row;
}

/**
 * Deletes closed alerts and news that are older than they are kept, some of them. The last of a job or node that somebody has seen stays: else
 * what it was about, if it is so still, would be news again.
 */
export async function trimAlerts(sql: Db, term: Term, days: number): Promise<void> {
  await sql`
    with ${fenceBeside(sql, term)},
    news as (
      delete from alert_delivery v using fence where v.created_at < clock_timestamp() - ${days} * interval '1 day'
         and v.id = any(array(select id from alert_delivery order by id limit 1000)))
    delete from alert a using fence where a.closed_at is not null and a.id = any(array(
      select o.id from alert o where o.closed_at < clock_timestamp() - ${days} * interval '1 day'
         and (o.acked_at is null or o.kind not in ('run.failed', 'run.quarantined', 'node.away')
              or exists (select from alert n where n.kind = o.kind and n.subject = o.subject and n.acked_at > o.acked_at))
       order by o.id limit 1000))`;
}
