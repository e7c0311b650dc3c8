/** What the whole cluster is like now, in numbers: for scrapers. One round trip, over partial indexes and small tables only. */
import { NEWS_HOURS } from "../alerts/alerts.ts";
import { NO_LEADER_ROW } from "../nodes/leadership.ts";
import type { Db } from "../postgres/connection.ts";

export interface Figures {
  epoch: number;
  failovers: number;
  has_leader: boolean;
  workers: { active: number; draining: number; detached: number };
  nodes: { available: number; busy: number; unavailable: number; maintenance: number };
  /** Of workers that take work, and bodies that they have or are given. */
  slots: number;
  slots_used: number;
  /** Seconds until the first certificate of a live worker ends; null: none is known. */
  certificate_seconds: number | null;
  /** Of the live worker whose clock is the most wrong; null: none is known. */
  clock_skew_seconds: number | null;
  events_waiting: number;
  event_oldest_seconds: number;
  bulks: { running: number; paused: number; canceling: number };
  keys_stopped: number;
  jobs_paused: number;
  alerts: Record<string, number>;
  /** Those that are too old to be sent wait no more. */
  deliveries_waiting: number;
  /** Since the leader last counted and looked. */
  counted_seconds_ago: number;
}

export async function readFigures(sql: Db): Promise<Figures> {
  const [row] = await sql<Figures[]>`
    with live as materialized (select * from worker where state <> 'DEAD' and lease_until > clock_timestamp())
    select t.epoch, t.failovers, t.lease_until > clock_timestamp() as has_leader,
      (select json_build_object('active', count(*) filter (where state = 'ACTIVE'), 'draining', count(*) filter (where state = 'DRAINING'),
                                'detached', count(*) filter (where state = 'DETACHED')) from live) as workers,
      (select json_build_object('available', count(*) filter (where is_active and status = 'available'),
                                'busy', count(*) filter (where is_active and status = 'busy'),
                                'unavailable', count(*) filter (where is_active and status = 'unavailable'),
                                'maintenance', count(*) filter (where not is_active)) from node) as nodes,
      (select coalesce(sum(slots), 0)::int from live where state = 'ACTIVE') as slots,
      (select count(*)::int from job_run r where r.state in ('ASSIGNED', 'RUNNING')
        and r.assigned_worker_id in (select worker_id from live where state = 'ACTIVE')) as slots_used,
      (select extract(epoch from min(tls_not_after) - clock_timestamp())::float8 from live) as certificate_seconds,
      (select max(abs(clock_skew_ms)) / 1000.0::float8 from live) as clock_skew_seconds,
      (select count(*)::int from event where processed_at is null) as events_waiting,
      (select coalesce(extract(epoch from clock_timestamp() - min(created_at)), 0)::float8 from event where processed_at is null) as event_oldest_seconds,
      (select json_build_object('running', count(*) filter (where state = 'RUNNING'), 'paused', count(*) filter (where state = 'PAUSED'),
                                'canceling', count(*) filter (where state = 'CANCELED')) from bulk where finished_at is null) as bulks,
      (select count(*)::int from serial_key_pause) as keys_stopped,
      (select count(*)::int from job_definition where paused_at is not null) as jobs_paused,
      (select coalesce(json_object_agg(kind, open), '{}') from (
         select kind, count(*)::int as open from alert where closed_at is null group by kind) a) as alerts,
      (select count(*)::int from alert_delivery where delivered_at is null and given_up_at is null
        and created_at > clock_timestamp() - ${NEWS_HOURS} * interval '1 hour') as deliveries_waiting,
      (select extract(epoch from clock_timestamp() - counted_at)::float8 from run_stat_mark where id = 1) as counted_seconds_ago
    from leader_term t where t.id = 1`;
  if (!row) throw new Error(NO_LEADER_ROW);
  return row;
}
