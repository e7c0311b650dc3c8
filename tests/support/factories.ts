/**
 * Rows put straight into any state, without walking the way there. Columns that the state needs are filled in; every
 * column can be given, and what is given wins, so that a test can also ask for a row that the schema refuses.
 */
import assert from "node:assert/strict";
import { json, type Sql } from "../../src/postgres/connection.ts";
import { acquire, type Term } from "../../src/nodes/leadership.ts";

type Columns = Record<string, unknown>;

export interface DefinitionRow {
  id: number;
  name: string;
  digest: string;
}

export interface RunRow {
  id: number;
  job_definition_id: number;
  state: string;
  version: number;
  attempt: number;
  start_token: string | null;
}

export interface WorkerTestRow {
  worker_id: string;
  node_id: string;
}

const DAY_MS = 86_400_000;
/** Not compared with any clock: a moment that lies behind. */
const EARLIER = new Date(Date.UTC(2026, 0, 1));
const TERMINAL = ["SUCCEEDED", "FAILED", "CANCELED", "TIMED_OUT", "SKIPPED"];

/** The term of who leads from now on. */
export async function aTerm(sql: Sql, worker_id = "leader"): Promise<Term> {
  const term = await acquire(sql, { worker_id, lease_ms: 60_000, epoch_hint: 0 });
  assert(term);
  return term;
}

/** A job on demand without args. */
export async function aDefinition(sql: Sql, columns: Columns = {}): Promise<DefinitionRow> {
  const name = String(columns.name ?? `job_${unique()}`);
  return await insert<DefinitionRow>(sql, "job_definition", {
    name,
    command_name: `${name}.ts`,
    type: "demand",
    digest: "digest",
    ...columns,
  });
}

/** A run of `job_definition_id`, or of a definition made for it. PENDING unless `state` says otherwise. */
export async function aRun(sql: Sql, columns: Columns = {}): Promise<RunRow> {
  const state = String(columns.state ?? "PENDING");
  const taken = state === "ASSIGNED" || state === "RUNNING";
  const job_definition_id = columns.job_definition_id ?? (await aDefinition(sql)).id;
  return await insert<RunRow>(sql, "job_run", {
    job_definition_id,
    source: "enqueue",
    state,
    ...(taken ? { assigned_worker_id: "w-of-nobody", assigned_at: EARLIER } : {}),
    ...(state === "RUNNING" ? { leader_epoch: 1, fence: 1, start_token: unique(), started_at: EARLIER } : {}),
    ...(TERMINAL.includes(state) ? { finished_at: new Date(EARLIER.getTime() + DAY_MS) } : {}),
    ...columns,
  });
}

/** A worker, with its node; its lease ends in a minute unless `lease_ms` (less than 0: it has ended) says otherwise. */
export async function aWorker(sql: Sql, { lease_ms = 60_000, ...columns }: Columns = {}): Promise<WorkerTestRow> {
  const node_id = String(columns.node_id ?? "here");
  await sql`insert into node (node_id, status) values (${node_id}, 'available') on conflict do nothing`;
  const [clock] = await sql<{ lease_until: Date }[]>`
    select clock_timestamp() + ${Number(lease_ms)} * interval '1 ms' as lease_until`;
  return await insert<WorkerTestRow>(sql, "worker", {
    worker_id: `w-${unique()}`,
    node_id,
    lease_until: clock?.lease_until,
    pid: 1,
    process_started: "0",
    grpc_host: "127.0.0.1",
    grpc_port: 1,
    slots: 10,
    features: ["steps"],
    ...columns,
  });
}

/** Objects go into jsonb columns; lists of texts, dates and plain values go as they are. */
async function insert<Row extends object>(sql: Sql, table: string, columns: Columns): Promise<Row> {
  const given = Object.entries(columns).filter(([, value]) => value !== undefined);
  const row = Object.fromEntries(given.map(([name, value]) => [name, isJson(value) ? json(sql, value) : value]));
  const [inserted] = await sql<Row[]>`insert into ${sql(table)} ${sql(row)} returning *`;
  return inserted as Row;
}

function isJson(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

function unique(): string {
  return crypto.randomUUID().slice(0, 8);
}
