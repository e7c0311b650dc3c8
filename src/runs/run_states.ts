/**
 * The states of a run, and the lists of them that statements ask for: one list each, so that a state is decided about once. Partial indexes of
 * schema.sql are of the same lists (tests/unit/run_states_test.ts compares them).
 */
import type { Db, Fragment } from "../postgres/connection.ts";

export const STATES = [
  "PENDING",
  "ASSIGNED",
  "RUNNING",
  "SUSPENDED",
  "RETRYING",
  "ORPHANED",
  "SUCCEEDED",
  "FAILED",
  "CANCELED",
  "TIMED_OUT",
  "SKIPPED",
] as const;
export type RunState = typeof STATES[number];

/** Nothing leaves these. */
export const TERMINAL: readonly RunState[] = ["SUCCEEDED", "FAILED", "CANCELED", "TIMED_OUT", "SKIPPED"];
export const NOT_ENDED: readonly RunState[] = ["PENDING", "ASSIGNED", "RUNNING", "SUSPENDED", "RETRYING", "ORPHANED"];
/** A worker has it: it takes a slot, its limit and its resources. */
export const ACTIVE: readonly RunState[] = ["ASSIGNED", "RUNNING"];
/** A worker gets it once nothing holds it. */
export const MAY_START: readonly RunState[] = ["PENDING", "SUSPENDED", "RETRYING", "ORPHANED"];
/** The same for people: it wants to start. A suspended run waits for something else. */
export const WAITING: readonly RunState[] = ["PENDING", "RETRYING", "ORPHANED"];
/** From its first assignment to its end no other run of its serial key goes on. */
export const HOLDS_KEY: readonly RunState[] = ["ASSIGNED", "RUNNING", "SUSPENDED", "RETRYING", "ORPHANED"];

/** Written out, as the conditions of partial indexes are: the planner does not see into a parameter. */
export function inStates(sql: Db, states: readonly RunState[], of: Fragment = sql`state`): Fragment {
  return sql`${of} in (${
    sql.unsafe(STATES.filter((state) => states.includes(state)).map((state) => `'${state}'`).join(", "))
  })`;
}

/** The same in words that fit no index: for the guard of rows that are found by their ids. */
export function isStill(sql: Db, states: readonly RunState[], of: Fragment = sql`state`): Fragment {
  const each = states.map((state) => sql`${of} is not distinct from ${sql.unsafe(`'${state}'`)}`);
  return sql`(${each.reduce((any, one) => sql`${any} or ${one}`)})`;
}
