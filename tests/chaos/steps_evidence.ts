/** What bodies of workflows themselves did and were told: the only witness of steps and deliveries, laid beside the rows that claim them. */
import { json, type TransactionSql } from "../../src/postgres/connection.ts";

/** One body of a step. Lines and times are of the one clock and file that all bodies write. */
export interface StepBody {
  job_run_id: number;
  /** Of its execution: each start of a run has its own. */
  fence: number;
  key: string;
  /** As it was told itself. */
  tries: number;
  /** Where the line of its begin stands among all lines. */
  line: number;
  began_ms: number;
  /** Undefined: it was cut off. */
  ended_ms?: number;
  /** What it returned; of one that threw, undefined. */
  value?: unknown;
  once?: boolean;
}

/** One answer that the code of a run got. */
export interface Delivery {
  job_run_id: number;
  fence: number;
  /** Counts the answers in this execution, from 1. */
  place: number;
  key: string;
  line: number;
  at_ms: number;
  /** `DONE`, or the error's name. */
  outcome: string;
  value?: unknown;
}

export interface StepEvidence {
  bodies: StepBody[];
  deliveries: Delivery[];
  /** From then on, in milliseconds of the ledger's clock, nothing was at fault any more. */
  healed_ms?: number;
  /** How soon a run must start again for which something has come, where nothing is at fault. */
  wake_within_ms?: number;
}

/** As tables that live as long as the transaction: step_body and delivery, each with its attempt, and journal: what the code is told of, numbered. */
export async function laySteps(tx: TransactionSql, evidence: StepEvidence, zero: string | null): Promise<void> {
  await tx`
    create temp table step_body on commit drop as
    select b.*, v.attempt, ${zero}::timestamptz + began_ms * interval '1 ms' as began_at
      from jsonb_to_recordset(${
    json(tx, evidence.bodies)
  }) as b(job_run_id bigint, fence bigint, key text, tries int, line bigint,
             began_ms float8, ended_ms float8, value jsonb, once boolean)
      left join lateral (${attemptOf(tx)} b.job_run_id and v.fence = b.fence) v on true`;
  await tx`
    create temp table delivery on commit drop as
    select d.*, v.attempt, ${zero}::timestamptz + at_ms * interval '1 ms' as told_at
      from jsonb_to_recordset(${
    json(tx, evidence.deliveries)
  }) as d(job_run_id bigint, fence bigint, place int, key text, line bigint,
             at_ms float8, outcome text, value jsonb)
      left join lateral (${attemptOf(tx)} d.job_run_id and v.fence = d.fence) v on true`;
  await tx`
    create temp table journal on commit drop as
    select s.*, row_number() over (partition by s.job_run_id order by s.seq) as place
      from run_step s where s.seq is not null and s.kind not in ('undo', 'mark')`;
  await tx`create index on step_body (job_run_id, key)`;
  await tx`create index on delivery (job_run_id, place)`;
  await tx`create index on journal (job_run_id, place)`;
  for (const table of ["step_body", "delivery", "journal"]) await tx`analyze ${tx(table)}`;
}

function attemptOf(tx: TransactionSql) {
  return tx`
    select v.attempt from job_run_event v where v.to_state = 'RUNNING' and v.from_state <> 'RUNNING' and v.job_run_id =`;
}
