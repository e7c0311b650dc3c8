/**
 * Judges what happened, after everything was healed and had come to rest: each invariant of the protocol is one SQL
 * statement over the tables, the history (history.ts) and the ledger of bodies, and gives a row for each violation.
 *
 * The ledger is what bodies themselves did, noted by whoever saw it on one clock. It is the only witness that a body
 * ran; rows can only tell that one should have.
 */
import { json, type Sql, type TransactionSql } from "../../src/postgres/connection.ts";
import { INVARIANTS } from "./invariants.ts";
import { laySteps, type StepEvidence } from "./steps_evidence.ts";

/** One body. Times in milliseconds of any one clock that all entries share. */
export interface Effect {
  job_run_id: number;
  attempt: number;
  fence: number;
  worker_id?: string;
  started_ms: number;
  /** When it ended or was last seen alive; undefined: nothing was seen of it but its start. */
  ended_ms?: number;
  /** What it came to, where that is known. */
  outcome?: "SUCCEEDED" | "FAILED" | "TIMED_OUT" | "CANCELED" | "SUSPENDED" | "LOST";
  /** Of a failure: whether its job's policy, `max_retries` and nothing finer, says to try again. */
  retryable?: boolean;
}

export interface Evidence {
  effects: Effect[];
  /** Slots, events and enqueues that were made, by the idempotency key of the run that each must have. */
  new_runs?: string[];
  /** Whether those are all: a run with another key is then one that nobody asked for. */
  only_these_new_runs?: boolean;
  /** Bodies for which the lease rule promises nothing, e.g. of runs that an operator closed by force. */
  exempt?: { job_run_id: number; attempt: number; reason: string }[];
  /** Processes of bodies that are still there at the end, each in a few words. */
  left_behind?: string[];
  /** When the ledger's clock showed 0 ms, by Postgres' clock; where the two can be compared, to within `tolerance_ms`. */
  clock?: { zero: Date; tolerance_ms: number };
  /** Of bodies that have steps. */
  steps?: StepEvidence;
  leader_lease_ms: number;
  worker_lease_ms: number;
}

export interface Violation {
  /** I1 to I18 as the protocol numbers them, W1 to W14 those of workflows, or the name of a rule that has no number. */
  invariant: string;
  detail: string;
  job_run_id?: number;
}

/** Everything that is wrong; empty when nothing is. Changes nothing. */
export async function check(sql: Sql, evidence: Evidence): Promise<Violation[]> {
  const found: Violation[] = [];
  await sql.begin("isolation level repeatable read", async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`set local idle_in_transaction_session_timeout = 0`;
    await lay(tx, evidence);
    for (const { invariant, violations } of INVARIANTS) {
      for (const row of await violations(tx, evidence)) {
        found.push({ invariant, detail: row.detail, ...(row.job_run_id ? { job_run_id: row.job_run_id } : {}) });
      }
    }
  });
  const left = (evidence.left_behind ?? []).map((detail) => ({ invariant: "I18", detail }));
  return [...found, ...left];
}

/** The evidence as tables that live as long as the transaction. */
async function lay(tx: TransactionSql, evidence: Evidence): Promise<void> {
  const zero = evidence.clock?.zero.toISOString() ?? null;
  await tx`
    create temp table effect on commit drop as
    select row_number() over (order by started_ms) as n, e.*, r.serial_key,
           ${zero}::timestamptz + started_ms * interval '1 ms' as started_at,
           ${zero}::timestamptz + coalesce(ended_ms, started_ms) * interval '1 ms' as ended_at,
           exists (select from jsonb_to_recordset(${
    json(tx, evidence.exempt ?? [])
  }) as x(job_run_id bigint, attempt int)
                    where x.job_run_id = e.job_run_id and x.attempt = e.attempt) as exempt
      from jsonb_to_recordset(${
    json(tx, evidence.effects)
  }) as e(job_run_id bigint, attempt int, fence bigint, worker_id text,
             started_ms float8, ended_ms float8, outcome text, retryable boolean)
      left join job_run r on r.id = e.job_run_id`;
  await tx`create index on effect (job_run_id, attempt)`;
  await tx`
    create temp table birth on commit drop as
    select jsonb_array_elements_text(${json(tx, evidence.new_runs ?? [])}) as idempotency_key`;
  await tx`analyze effect`;
  await laySteps(tx, evidence.steps ?? { bodies: [], deliveries: [] }, zero);
}

/** The history of one run as lines: its row, its transitions, its attempts, the audit, and its bodies when they are given. */
export async function explain(sql: Sql, job_run_id: number, effects: Effect[] = []): Promise<string> {
  const lines = await sql<{ line: string }[]>`
    select 'run ' || r.id || ' of ' || d.name || ' (' || d.concurrency_policy || ', max_retries ' || d.max_retries || '), key '
             || coalesce(r.idempotency_key, '-') || ', serial ' || coalesce(r.serial_key, '-') || ': ' || r.state as line
      from job_run r join job_definition d on d.id = r.job_definition_id where r.id = ${job_run_id}
    union all (
    select to_char(at, 'HH24:MI:SS.MS') || '  #' || seq || ' v' || version || ' ' || coalesce(from_state, '-') || ' -> ' || to_state
             || ', attempt ' || attempt || ', worker ' || coalesce(worker_id, '-') || ', epoch ' || coalesce(leader_epoch::text, '-')
             || ' of ' || term_epoch || ', fence ' || coalesce(fence::text, '-') || case when by_leader then ', by the leader' else '' end
             || case when owner_state = 'DEAD' then ', its worker was dead' else '' end
             || case when cancel_requested then ', cancel requested' else '' end || coalesce(', ' || error_name, '')
      from job_run_event where job_run_id = ${job_run_id} order by seq)
    union all (
    select 'refused: ' || reason from job_run_refusal where job_run_id = ${job_run_id} order by seq)
    union all (
    select 'attempt ' || attempt || ' of ' || coalesce(worker_id, '-') || ' ended ' || outcome || ': ' || coalesce(error_summary, '')
      from job_run_attempt where job_run_id = ${job_run_id} order by attempt)
    union all (
    select 'audit: ' || action || ' by ' || actor || ' ' || coalesce(after_json::text, '') || ' ' || coalesce(reason, '')
      from admin_action_log where target_type = 'run' and target_id = ${job_run_id}::bigint::text order by id)`;
  const bodies = effects.filter((effect) => effect.job_run_id === job_run_id).map((effect) =>
    `body of attempt ${effect.attempt}, fence ${effect.fence}, worker ${effect.worker_id ?? "-"}: ` +
    `${Math.round(effect.started_ms)} to ${effect.ended_ms === undefined ? "?" : Math.round(effect.ended_ms)} ms, ` +
    `${effect.outcome ?? "no outcome known"}`
  );
  return [...lines.map(({ line }) => line), ...bodies].join("\n");
}
