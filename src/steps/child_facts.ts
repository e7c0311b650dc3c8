/**
 * What has to be known before a body's `call`, `start` or `callMany` makes anything, and the sentence that refuses it: a job that
 * `permissions.call` does not name, or that is not there, args that do not fit, a depth beyond 16, and a run that would wait for the serial key of
 * one that waits for it.
 */
import { unfitIn } from "../definitions/args_schema.ts";
import type { Permissions } from "../job.ts";
import { type Db, type Fragment, json } from "../postgres/connection.ts";
import { mayCall } from "../sandbox/permissions.ts";

/** How many calls a run may be below the first. */
export const DEEPEST = 16;

export interface ChildQuery {
  /** The parent. */
  job_run_id: number;
  job_name: string;
  args: unknown;
  /** False: it waits for nobody, so the serial key of its parent is no matter. */
  is_awaited: boolean;
  /** It is the parent's own job, and takes its place. */
  goes_on?: boolean;
  serial_key?: string;
}

export interface ChildFacts {
  /** Null: no such job takes runs. */
  job_definition_id: number | null;
  args_schema: string | null;
  parent_job: string;
  permissions: Permissions;
  depth: number;
  /** Somebody wants the parent to end. */
  to_end: boolean;
  /** The parent, or one above it that waits for it, that has the child's serial key. */
  blocked_by: number | null;
  serial_key: string | null;
}

/** In the order of the queries; undefined: there is no such parent. */
export async function readChildFacts(sql: Db, queries: ChildQuery[]): Promise<(ChildFacts | undefined)[]> {
  const asked = queries.map((query, place) => ({ ...query, place }));
  const rows = await sql<(ChildFacts & { place: number })[]>`
    select a.place, d.id as job_definition_id, d.args_schema::text, pd.name as parent_job, pd.permissions, p.depth + 1 as depth,
           p.cancel_requested_at is not null or p.ending is not null as to_end, k.serial_key,
           case when a.is_awaited then ${blockedBy(sql, sql`k.serial_key`)} end as blocked_by
      from jsonb_to_recordset(${json(sql, asked)})
             as a(place int, job_run_id bigint, job_name text, args jsonb, is_awaited boolean, serial_key text)
      join job_run p on p.id = a.job_run_id join job_definition pd on pd.id = p.job_definition_id
      left join job_definition d on d.name = a.job_name and d.removed_at is null
      cross join lateral (select ${
    serialKeyOf(sql, sql`coalesce(a.serial_key, fill_template(d.serial_key, a.args))`)
  } as serial_key) k`;
  const facts = new Map(rows.map(({ place, ...row }) => [place, row]));
  return queries.map((_, place) => facts.get(place));
}

/** That of a run of job `d`, as runs/create_runs.ts gives it. */
export function serialKeyOf(sql: Db, own: Fragment): Fragment {
  return sql`case when d.concurrency_policy <> 'allow' then 'job:' || d.name else ${own} end`;
}

/** One of run `p` and those that wait for it that has this serial key: who wants it next waits until that has ended, which waits for him. */
export function blockedBy(sql: Db, serial_key: Fragment): Fragment {
  return sql`(
    with recursive up as (
      select p.id, p.serial_key, p.parent_run_id, p.parent_key is not null or p.bulk_id is not null as is_awaited
      union all
      select o.id, o.serial_key, o.parent_run_id, o.parent_key is not null or o.bulk_id is not null
        from up join job_run o on o.id = up.parent_run_id where up.is_awaited)
    select up.id from up where up.serial_key = ${serial_key} limit 1)`;
}

/** Undefined: nothing is in the way. `args` undefined: they are looked at elsewhere. */
export function whyNoChild(
  cannot: string,
  { job_run_id, job_name, args, goes_on }: Pick<ChildQuery, "job_run_id" | "job_name" | "goes_on"> & { args?: unknown },
  facts: ChildFacts,
): string | undefined {
  if (!goes_on && !mayCall(facts.permissions, job_name)) {
    return `${cannot}: permissions.call of ${facts.parent_job} does not name it; add "${job_name}" there, and \`deno task sync\``;
  }
  if (facts.job_definition_id === null) {
    return `${cannot}: no such job takes runs; a new one is added by a file in jobs/ and \`deno task sync\``;
  }
  if (facts.to_end) return `${cannot}: run ${job_run_id} is to end`;
  if (!goes_on && facts.depth > DEEPEST) {
    return `${cannot}: run ${job_run_id} is ${DEEPEST} calls below the first, which is the most; let one of those above call it`;
  }
  const unfit = args === undefined ? undefined : unfitArgs(facts.args_schema, args);
  if (unfit) return `${cannot}: its args do not fit: ${unfit}`;
  if (facts.blocked_by !== null) return whyBlocked(cannot, facts.blocked_by, facts.serial_key);
}

export function whyBlocked(cannot: string, blocked_by: number, serial_key: string | null): string {
  return `${cannot}: it would wait for run ${blocked_by}, which has its serial key "${serial_key}" and waits for it; ` +
    "give one of the two another serial key";
}

/** Where args do not fit, and why; undefined: they do. */
export function unfitArgs(args_schema: string | null, args: unknown): string | undefined {
  return unfitIn(args_schema, args)?.map(({ path = [], message }) =>
    [path.map((step) => String(typeof step === "object" ? step.key : step)).join("."), message].filter(Boolean).join(
      ": ",
    )
  ).join("; ");
}
