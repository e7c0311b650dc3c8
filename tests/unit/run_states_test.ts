/** Each list of states is written once: in run_states.ts for the code, and the same in the conditions of schema.sql. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { ACTIVE, HOLDS_KEY, MAY_START, NOT_ENDED, STATES, TERMINAL, WAITING } from "../../src/runs/run_states.ts";
import { sourcesIn } from "../support/source_tree.ts";

const LISTS = { STATES, ACTIVE, HOLDS_KEY, MAY_START, NOT_ENDED, TERMINAL };
/** Of these states a list is about what has not ended. */
const BETWEEN = ["SUSPENDED", "RETRYING", "ORPHANED"];

/** Lists of three words and more in SQL that hold more than one of the states between a run's beginning and its end. */
function listsIn(text: string): string[][] {
  return [...text.matchAll(/\(((?:'[A-Z_]+',\s*)+'[A-Z_]+')\)/g)]
    .map(([, list = ""]) => [...list.matchAll(/'([A-Z_]+)'/g)].map(([, state = ""]) => state))
    .filter((states) => states.length > 2 && states.filter((state) => BETWEEN.includes(state)).length > 1);
}

Deno.test("each list of states in schema.sql is one of those of the code", () => {
  const known = Object.values(LISTS).map((list) => [...list].sort().join());
  const lists = listsIn(Deno.readTextFileSync(`${PROJECT_DIR}schema.sql`));
  assert(lists.length > 10);
  const others = lists.filter((list) => !known.includes([...list].sort().join()));
  assert.deepEqual(others, [], `take one of ${Object.keys(LISTS).join(", ")}`);
});

Deno.test("no statement has a list of its own", () => {
  const own = sourcesIn("src").filter(({ path }) => path !== "src/runs/run_states.ts")
    .flatMap(({ path, text }) => listsIn(text).map((list) => `${path}: ${list.join()}`));
  // definitions come before runs in the one way of imports
  assert.deepEqual(own, ["src/definitions/definition_rows.ts: PENDING,ASSIGNED,SUSPENDED,RETRYING,ORPHANED"]);
});

Deno.test("each state is in the lists that follow from others", () => {
  assert.deepEqual([...NOT_ENDED, ...TERMINAL], STATES);
  assert.deepEqual(NOT_ENDED.filter((state) => state !== "PENDING"), HOLDS_KEY);
  assert.deepEqual(NOT_ENDED.filter((state) => !ACTIVE.includes(state)), MAY_START);
  assert.deepEqual(MAY_START.filter((state) => state !== "SUSPENDED"), WAITING);
});
