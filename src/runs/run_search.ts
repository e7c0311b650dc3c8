/**
 * Which runs a filter means: their ids and how many they are. What is asked for besides what leads (run_scans.ts) is looked for along the
 * walk, in so many rows at most. A search that has come no further says how far it came, and the next one goes on there; so none takes
 * longer than that, whatever is asked for and however many runs there are.
 */
import type { Db, Fragment } from "../postgres/connection.ts";
import { matches, type RunFilter } from "./run_filter.ts";
import { byAge, partsOf, type ScanPart } from "./run_scans.ts";
import { inStates } from "./run_states.ts";
import { STATES, TERMINAL } from "./run_states.ts";

export interface SearchResult {
  /** The newest first; after a run (`after_id`), or where it is wished, the oldest first. */
  ids: number[];
  /** Only runs from where it began to this one were looked at; null: all. */
  looked_to: number | null;
}

export interface Effort {
  most: number;
  /** Rows that are looked through at most. */
  look?: number;
  oldest_first?: boolean;
}

const LOOK = 20_000;
/** Heaps are read whole up to here. */
const LARGEST_HEAP = 10_000;
/** States without a job are looked for among so many of the newest runs before they are for each job. */
const NEAR = 5_000;

export async function searchRuns(sql: Db, filter: RunFilter, effort: Effort): Promise<SearchResult> {
  const search = await searchOf(sql, filter, effort);
  if (!search) return { ids: [], looked_to: null };
  if (search.parts.some(({ kind }) => kind === "jobs")) {
    const near = await idsOf(sql, { ...search, parts: [byAge(sql)], look: NEAR });
    if (near.length === search.most) return { ids: near, looked_to: null };
  }
  const ids = await idsOf(sql, search);
  const looked_to = await endOf(sql, search, ids.length);
  const within = (id: number) => looked_to === null || (search.oldest_first ? id <= looked_to : id >= looked_to);
  return { ids: ids.filter(within), looked_to };
}

/** How many runs a filter means, counted up to `most`. `more`: there are more, or there may be. */
export async function countRuns(sql: Db, filter: RunFilter, effort: Effort): Promise<{ runs: number; more: boolean }> {
  const search = await searchOf(sql, filter, effort);
  if (!search) return { runs: 0, more: false };
  const parts = search.parts.map((part) => rowsOf(sql, search, part));
  const [row] = await sql<{ n: number }[]>`
    select count(*)::int as n from (select from (${anyOf(sql, parts)}) u limit ${search.most}) found`;
  const runs = row?.n ?? 0;
  return { runs, more: runs >= search.most || await endOf(sql, search, runs) !== null };
}

interface Search extends Required<Effort> {
  parts: ScanPart[];
  /** Conditions on run `r`: where to begin and to end; and all that is asked for. */
  edge: Fragment;
  /** The same for a heap, which has an index of its own: by that of ids the planner would read all runs up to the edge. */
  heap_edge: Fragment;
  fits: Fragment;
}

/** Undefined: nothing can fit. */
async function searchOf(sql: Db, filter: RunFilter, effort: Effort): Promise<Search | undefined> {
  const known = await lookUp(sql, filter);
  if (!known) return undefined;
  const { job_definition_id: job } = known;
  const [before, after, first, last] = [filter.before_id, filter.after_id, known.first_id, known.last_id];
  const within = (id: Fragment) =>
    all(sql, [
      before !== undefined && sql`${id} < ${before}`,
      after !== undefined && sql`${id} > ${after}`,
      first !== null && sql`${id} >= ${first}`,
      last !== null && sql`${id} < ${last}`,
    ]);
  const fits = all(sql, [
    matches(sql, { ...filter, job_name: undefined }),
    job !== null && sql`r.job_definition_id = ${job}`,
  ]);
  const oldest_first = filter.after_id !== undefined;
  const search = {
    look: LOOK,
    oldest_first,
    ...effort,
    parts: partsOf(sql, filter, job),
    edge: within(sql`r.id`),
    heap_edge: within(sql`(r.id + 0)`),
    fits,
  };
  if (search.parts.length === 0) return undefined; // of no state
  const heaps = search.parts.filter(({ kind }) => kind === "heap");
  if (!await anyTooLarge(sql, search, heaps)) return search;
  const by_age = { ...byAge(sql), besides: inStates(sql, STATES.filter((state) => !TERMINAL.includes(state))) };
  return { ...search, parts: [...search.parts.filter(({ kind }) => kind !== "heap"), by_age] };
}

interface Known {
  job_definition_id: number | null;
  /** The first run that was created at the filter's `since`, or a little before; and the last, or a little after, of `until`. */
  first_id: number | null;
  last_id: number | null;
}

/** Runs are numbered as they are created, but for those that are created at once. */
const AT_ONCE = 1_000;

async function lookUp(sql: Db, { job_name, ran_on, since, until }: RunFilter): Promise<Known | undefined> {
  const [row] = await sql<(Known & { known: boolean })[]>`
    select (select id from job_definition where name = ${job_name ?? null}) as job_definition_id,
           ${since ? sql`(${firstSince(sql, since)}) - ${AT_ONCE}` : sql`null::bigint`} as first_id,
           ${until ? sql`(${firstSince(sql, until)}) + ${AT_ONCE}` : sql`null::bigint`} as last_id,
           ${ran_on === undefined ? sql`true` : sql`exists (select from worker where node_id = ${ran_on})`} as known`;
  if (!row?.known || (job_name !== undefined && row.job_definition_id === null)) return undefined;
  return row;
}

/** The first run that was created then or later, or what the next will be: by halves, so that it needs no index of its own. */
function firstSince(sql: Db, at: Date): Fragment {
  return sql`
    with recursive half(low, high) as (
      select (select coalesce(min(id), 1) from job_run), (select coalesce(max(id), 0) + 1 from job_run)
      union all
      select case when m.created_at < ${at} then m.id + 1 else h.low end, case when m.created_at < ${at} then h.high else (h.low + h.high) / 2 end
        from half h left join lateral (
          select id, created_at from job_run where id >= (h.low + h.high) / 2 and id < h.high order by id limit 1) m on true
       where h.low < h.high)
    select low from half where low >= high limit 1`;
}

async function anyTooLarge(sql: Db, { heap_edge }: Search, heaps: ScanPart[]): Promise<boolean> {
  if (heaps.length === 0) return false;
  const sizes = heaps.map(({ lead }) =>
    sql`(select count(*)::int as n from (select from job_run r where ${lead} and ${heap_edge} limit ${
      LARGEST_HEAP + 1
    }) h)`
  );
  return (await sql<{ n: number }[]>`${anyOf(sql, sizes)}`).some(({ n }) => n > LARGEST_HEAP);
}

async function idsOf(sql: Db, search: Search): Promise<number[]> {
  const parts = search.parts.map((part) => rowsOf(sql, search, part));
  const rows = await sql<{ id: number }[]>`
    select id from (${anyOf(sql, parts)}) u order by id ${way(sql, search)} limit ${search.most}`;
  return rows.map(({ id }) => id);
}

/** The first runs of a part, in the order of the search. */
function rowsOf(sql: Db, search: Search, part: ScanPart): Fragment {
  const { edge, fits, most } = search;
  const order = orderOf(sql, search, part);
  const { lead, kind, sifted, besides = sql`true` } = part;
  if (kind === "jobs") {
    return sql`(select r.id from job_definition d cross join lateral (
      select r.id from job_run r where r.job_definition_id = d.id and ${lead} and ${edge} and ${fits} ${order} limit ${most}) r)`;
  }
  if (kind === "walk" && !sifted) {
    return sql`(select r.id from job_run r where ${lead} and ${edge} and ${fits} ${order} limit ${most})`;
  }
  const looked_at = kind === "heap"
    ? sql`${search.heap_edge} limit ${LARGEST_HEAP}`
    : sql`${edge} ${order} limit ${share(search)}`;
  return sql`(select r.id from (select * from job_run r where ${lead} and ${looked_at}) r
    where ${fits} and ${besides} ${order} limit ${most})`;
}

/** The last run that was looked at where a walk was ended before its end. One walk that found enough was not. */
async function endOf(sql: Db, search: Search, found: number): Promise<number | null> {
  const sifted = search.parts.filter((part) => part.kind === "walk" && part.sifted);
  if (sifted.length === 0 || (search.parts.length === 1 && found >= search.most)) return null;
  const ends = sifted.map((part) =>
    sql`(select r.id from job_run r where ${part.lead} and ${search.edge} ${orderOf(sql, search, part)} offset ${
      share(search) - 1
    } limit 1)`
  );
  const rows = await sql<{ id: number }[]>`${anyOf(sql, ends)}`;
  if (rows.length === 0) return null;
  const ids = rows.map(({ id }) => id);
  return search.oldest_first ? Math.min(...ids) : Math.max(...ids);
}

/** Of the effort, for each of the walks that share it. */
function share({ parts, look }: Search): number {
  return Math.ceil(look / Math.max(1, parts.filter(({ sifted }) => sifted).length));
}

function orderOf(sql: Db, search: Search, { first }: ScanPart): Fragment {
  const ids = sql`r.id ${way(sql, search)}`;
  return first ? sql`order by ${first} ${way(sql, search)}, ${ids}` : sql`order by ${ids}`;
}

function way(sql: Db, { oldest_first }: Search): Fragment {
  return oldest_first ? sql`` : sql`desc`;
}

function anyOf(sql: Db, parts: Fragment[]): Fragment {
  return parts.reduce((all, part) => sql`${all} union all ${part}`);
}

function all(sql: Db, parts: (Fragment | false)[]): Fragment {
  return parts.reduce<Fragment>((so_far, part) => part ? sql`${so_far} and ${part}` : so_far, sql`true`);
}
