/** What runs ask people now: waits for messages that have a question. Nothing here changes a row, and none of it reads more than it shows. */
import type { Json } from "../job.ts";
import type { Db } from "../postgres/connection.ts";

/** A wait of a run that people can end by an answer. */
export interface OpenPrompt {
  job_run_id: number;
  job_name: string;
  key: string;
  /** Of the message that it waits for. */
  name: string;
  ask: string | null;
  /** JSON, cut off where it is long. */
  show: string | null;
  show_bytes: number;
  /** Users and roles who are asked; empty: all operators. */
  who: string[];
  /** The one who must not answer. */
  not_by: string | null;
  since: Date;
  until: Date | null;
  /** JSON Schema of the message; null: there is none, or it is long. */
  schema: Json;
}

/** Letters of what a list shows of each. */
const ASK_CHARS = 1_000;
const SHORT_CHARS = 400;
const LONG_CHARS = 50_000;
const SCHEMA_BYTES = 4_000;

/** The oldest first. */
export function listPrompts(sql: Db, most: number): Promise<OpenPrompt[]> {
  return sql<OpenPrompt[]>`${
    promptsFor(sql, { show: SHORT_CHARS, schema: SCHEMA_BYTES })
  } order by s.began_at limit ${most}`;
}

/** Those of one run, with what they show. `name`: for that message alone. */
export function promptsOfRun(sql: Db, job_run_id: number, name: string | null = null): Promise<OpenPrompt[]> {
  return sql<OpenPrompt[]>`${promptsFor(sql, { show: LONG_CHARS, schema: 0 })} and s.job_run_id = ${job_run_id}
    and (${name}::text is null or s.waits_for = ${name}) order by s.began_at limit 20`;
}

/** Counted up to `most`. */
export async function countPrompts(sql: Db, most: number): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*)::int as n from (
      select from run_step where kind = 'message' and state = 'WAITING' and prompt is not null limit ${most}) s`;
  return row?.n ?? 0;
}

function promptsFor(sql: Db, most: { show: number; schema: number }) {
  return sql`
    select s.job_run_id, d.name as job_name, s.key, s.waits_for as name, left(s.prompt->>'ask', ${ASK_CHARS}) as ask,
           left((s.prompt->'show')::text, ${most.show}) as show, coalesce(octet_length((s.prompt->'show')::text), 0) as show_bytes,
           case jsonb_typeof(s.prompt->'who') when 'array'
                then array(select jsonb_array_elements_text(s.prompt->'who') limit 20) else '{}' end as who,
           s.prompt->>'notBy' as not_by, s.began_at as since, s.until,
           case when octet_length((d.messages->s.waits_for->'schema')::text) <= ${most.schema}
                then d.messages->s.waits_for->'schema' end as schema
      from run_step s join job_run r on r.id = s.job_run_id join job_definition d on d.id = r.job_definition_id
     where s.kind = 'message' and s.state = 'WAITING' and s.prompt is not null`;
}
