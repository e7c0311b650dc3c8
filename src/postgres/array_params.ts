/**
 * Lists that a statement is given, one element for each of the runs that it moves. A row finds its own by place and not by a join, with which the
 * planner might read the whole table.
 */
import type { Db, Fragment } from "./connection.ts";

/** In the order of ids, in which rows are then locked, and in which `placeAmong` finds them. */
export function byId<One extends { job_run_id: number }>(list: readonly One[]): One[] {
  return list.toSorted((a, b) => a.job_run_id - b.job_run_id);
}

/** Where a run's id is in a sorted list of them: found by halves, while `array_position` looks at one after another. */
export function placeAmong(sql: Db, sorted_ids: number[], id = sql`r.id`): Fragment {
  return sql`width_bucket(${id}, ${sorted_ids}::bigint[])`;
}

/**
 * The text at that place of a list, of whose elements many are the same. Postgres passes over all texts before the one that it is asked for (and over all
 * elements of a list with a null) but finds a number at once: so each text goes once, and its number as often as it is there.
 */
export function textAt(sql: Db, list: readonly string[], place: Fragment): Fragment {
  const { numbers, kinds } = numbered(list, (text) => text);
  return sql`(${kinds}::text[])[(${numbers}::int[])[${place}]]`;
}

/** The first of each kind, and of each element the number of its kind, from 1 on as Postgres counts. */
export function numbered<One>(
  list: readonly One[],
  kindOf: (one: One) => unknown,
): { numbers: number[]; kinds: One[] } {
  const known = new Map<unknown, number>();
  const kinds: One[] = [];
  const numbers = list.map((one) => {
    const kind = kindOf(one);
    const number = known.get(kind) ?? kinds.push(one);
    known.set(kind, number);
    return number;
  });
  return { numbers, kinds };
}

/** A value as the text of a jsonb, for a list of them; null for what JSON has no word for. */
export function jsonText(value: unknown): string | null {
  return value === null ? null : JSON.stringify(value) ?? null;
}
