/** Runs are found by the index that leads to them: whatever a filter asks for, what is found is what a plain look at all rows finds. */
import assert from "node:assert/strict";
import { actOnMany, countMeant } from "../../../src/actions/many_runs.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { matches, type RunFilter } from "../../../src/runs/run_filter.ts";
import { countRuns, searchRuns } from "../../../src/runs/run_search.ts";
import { findRuns, listRuns } from "../../../src/runs/run_view.ts";
import { STATES } from "../../../src/runs/run_states.ts";
import { fillHistory, type Sights } from "../../support/history.ts";
import { withStores } from "../../support/stores.ts";

const SIZE = { runs: 4_000, waiting: 300, jobs: 12, nodes: 3 };
const FAILED = ["FAILED", "TIMED_OUT"] as const;
const OPEN = ["PENDING", "ASSIGNED", "RUNNING", "SUSPENDED", "RETRYING", "ORPHANED"] as const;

/** Every kind of condition, alone and with others. */
function filtersOf(on: Sights, created: (n: number) => Date): RunFilter[] {
  const leads: RunFilter[] = [
    {},
    { job_name: on.big_job },
    { job_name: on.rare_job },
    { job_name: "none" },
    { serial_key: on.serial_key },
    { error_name: "Error1" },
    { error_name: on.error_name },
    { bulk_id: on.bulk },
    { bulk_id: on.ended_bulk },
    { ran_on: on.node_id },
    { ran_on: "none" },
    { worker_id: "w1-0" },
    { node: on.node_id },
    { since: created(3_000) },
    { since: created(1_000), until: created(1_200) },
    { job_name: on.timed_job, serial_key: on.serial_key },
    { job_name: on.big_job, bulk_id: on.bulk, ran_on: on.node_id },
    { id: on.failed_run },
  ];
  const states = [
    undefined,
    [],
    ["SUCCEEDED"],
    ["PENDING"],
    ["RUNNING"],
    FAILED,
    OPEN,
    STATES,
  ] as RunFilter["states"][];
  return leads.flatMap((lead) => states.map((some) => some ? { ...lead, states: some } : lead));
}

async function plainly(sql: Sql, filter: RunFilter): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select r.id from job_run r join job_definition d on d.id = r.job_definition_id where ${
    matches(sql, filter)
  } order by r.id desc`;
  return rows.map(({ id }) => id);
}

/** Page by page of `most`, as `look` rows at a time allow. */
async function stepwise(
  sql: Sql,
  filter: RunFilter,
  { look, most }: { look: number; most: number },
): Promise<number[]> {
  const all: number[] = [];
  let before_id: number | undefined;
  while (true) {
    const { ids, looked_to } = await searchRuns(sql, { ...filter, before_id }, { most, look });
    all.push(...ids);
    before_id = looked_to ?? (ids.length === most ? ids.at(-1) : undefined);
    if (before_id === undefined) return all;
  }
}

Deno.test("a search finds what there is, in its order, page by page and in both directions", () =>
  withStores(async ({ sql }) => {
    const sights = await fillHistory(sql, SIZE);
    const times = await sql<{ id: number; created_at: Date }[]>`select id, created_at from job_run order by id`;
    let found = 0;
    for (const filter of filtersOf(sights, (n) => times[n]?.created_at as Date)) {
      const told = JSON.stringify(filter);
      const wanted = await plainly(sql, filter);
      assert.deepEqual(await stepwise(sql, filter, { look: 700, most: 100 }), wanted, told);
      assert.deepEqual((await searchRuns(sql, filter, { most: 20 })).ids, wanted.slice(0, 20), told);
      const after_id = wanted[30];
      const newer = await findRuns(sql, { ...filter, after_id, most: 10 });
      if (after_id) assert.deepEqual(newer.runs.map(({ id }) => id), wanted.slice(20, 30), told);
      const { runs, more } = await countRuns(sql, filter, { most: 1_000 });
      assert.deepEqual([runs, more], [Math.min(1_000, wanted.length), wanted.length >= 1_000], told);
      assert.deepEqual((await listRuns(sql, { ...filter, most: 60 })).map(({ id }) => id), wanted.slice(0, 60), told);
      found += wanted.length;
    }
    assert(found > 10_000);
  }));

Deno.test("more waits than is read at once: the search goes by age, and finds it all the same", () =>
  withStores(async ({ sql }) => {
    const sights = await fillHistory(sql, { ...SIZE, runs: 2_000, waiting: 19_000 });
    for (const filter of [{ states: ["PENDING"] as const }, { states: OPEN, node: sights.node_id }, { states: OPEN }]) {
      const wanted = await plainly(sql, filter);
      assert.deepEqual((await searchRuns(sql, filter, { most: 50 })).ids, wanted.slice(0, 50), JSON.stringify(filter));
      assert.deepEqual(await stepwise(sql, filter, { look: 5_000, most: 1_000 }), wanted, JSON.stringify(filter));
    }
  }));

Deno.test("an act on many runs is done to all that its filter means, once each, and to no other", () =>
  withStores(async ({ sql }) => {
    const sights = await fillHistory(sql, { ...SIZE, waiting: 9_000 });
    const by = { actor: "test", reason: "because" };
    const filter = { job_name: sights.timed_job };
    const [open] = await sql<{ n: number; asked: number }[]>`
      select count(*)::int as n, count(cancel_requested_at)::int as asked from job_run r join job_definition d on d.id = r.job_definition_id
       where d.name = ${sights.timed_job} and finished_at is null`;
    assert.equal(await countMeant(sql, filter, "cancel"), open?.n);
    const canceled = await actOnMany(sql, filter, { verb: "cancel" }, by);
    assert.equal(new Set(canceled).size, (open?.n ?? 0) - (open?.asked ?? 0));
    assert.equal((await actOnMany(sql, filter, { verb: "cancel" }, by)).length, 0);

    const failed = { states: FAILED, job_name: sights.big_job };
    const again = await actOnMany(sql, failed, { verb: "retry", wish: "w" }, by);
    assert.equal(again.length, (await plainly(sql, failed)).length);
    assert.equal((await actOnMany(sql, failed, { verb: "retry", wish: "w" }, by)).length, 0);
    await sql`update job_run set state = 'FAILED', finished_at = now(), held = false where id = any(${again})`;
    assert.equal(
      (await actOnMany(sql, failed, { verb: "retry", wish: "w" }, by)).length,
      0,
      "those that it made failed too",
    );
    assert.equal(
      (await actOnMany(sql, { ...failed, ids: again }, { verb: "retry", wish: "v" }, by)).length,
      again.length,
    );
    const moved = await actOnMany(sql, { serial_key: sights.serial_key }, { verb: "reprioritize", priority: 7 }, by);
    const [waiting] = await sql<{ n: number }[]>`
      select count(*)::int as n from job_run where serial_key = ${sights.serial_key} and state in ('PENDING', 'RETRYING', 'ORPHANED')`;
    assert.equal(moved.length, waiting?.n);
  }));
