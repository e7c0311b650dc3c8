/** A run that waits for its next try, or within its body, keeps its serial key, and takes its place again behind its limit key and in its bulk. */
import assert from "node:assert/strict";
import { createRuns } from "../../../src/runs/create_runs.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { letGo, readBulks } from "../../../src/bulks/bulk_dispatch.ts";
import { checkLines, hold } from "../../../src/runs/key_queues.ts";
import { type Candidate, candidates, readDispatchSnapshot } from "../../../src/dispatch/dispatch_queues.ts";
import { aDefinition, aRun, aTerm } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const LATER = new Date(Date.UTC(2100, 0, 1));
const ASLEEP = { held: true, due_at: LATER, wakes_at: LATER };
const KEY = "k";

/** The states in which a run has its serial key, with what its row has then. */
const HAS_KEY: Record<string, Record<string, unknown>> = {
  ASSIGNED: {},
  RUNNING: {},
  SUSPENDED: { held: true, wakes_at: LATER },
  RETRYING: { attempt: 2, ...ASLEEP },
  ORPHANED: { ...ASLEEP },
};

async function candidateOf(sql: Sql, id: number): Promise<Candidate | undefined> {
  const { lanes } = await readDispatchSnapshot(sql);
  const found = await candidates(sql, lanes.map((queue) => ({ ...queue, most: 100 })));
  return found.find((run) => run.job_run_id === id);
}

for (const [state, more] of Object.entries(HAS_KEY)) {
  Deno.test(`nobody passes a run that is ${state} in the line of its serial key, whoever lets go, chooses or is born`, async () => {
    await withStores(async ({ sql }) => {
      const term = await aTerm(sql);
      const { id: job_definition_id, name } = await aDefinition(sql);
      const of_key = { job_definition_id, serial_key: KEY };
      const { id: first } = await aRun(sql, { ...of_key, state, ...more });

      const held = await aRun(sql, { ...of_key, held: true });
      await sql`insert into key_recheck (line) values ('serial:' || ${KEY})`;
      await checkLines(sql, term);
      assert.deepEqual(await isHeld(sql, held.id), true, "it is not let go");

      const ready = await aRun(sql, { ...of_key, priority: 1 }); // before the one that is held
      assert.equal((await candidateOf(sql, ready.id))?.behind, true, "it is not chosen");

      const [soon] = await sql<{ at: Date }[]>`select clock_timestamp() + interval '30 s' as at`;
      const near = async () => (await readDispatchSnapshot(sql, 60)).near.map((run) => run.job_run_id);
      await sql`delete from job_run where id <> ${first}`; // else they would keep it back
      const { id: next } = await aRun(sql, { ...of_key, held: true, due_at: soon?.at, wakes_at: soon?.at });
      assert.deepEqual(await near(), [], "it is not given to a worker ahead of its time");
      await sql`update job_run set serial_key = 'another' where id = ${next}`;
      assert.deepEqual(await near(), [next]);

      const [created] = await createRuns(sql, [{ job_name: name, args: {}, serial_key: KEY }]);
      assert.equal(await isHeld(sql, created?.job_run_id ?? 0), true, "it is born held");

      const [bulk] = await sql<{ id: number }[]>`
        insert into bulk (job_definition_id, serial_key, created_at) values (${job_definition_id}, ${KEY}, '2020-01-01') returning id`;
      const behind = async () => (await readBulks(sql, [bulk?.id ?? 0]))[0]?.behind;
      assert.equal(await behind(), true, "a bulk of the key does not begin");
      await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp(), held = false, wakes_at = null where id = ${first}`;
      assert.equal(await behind(), false);
    });
  });
}

async function isHeld(sql: Sql, id: number): Promise<boolean | undefined> {
  const [row] = await sql<{ held: boolean }[]>`select held from job_run where id = ${id}`;
  return row?.held;
}

/** The states in which a run waits, with what its row has then. */
const WAITS: Record<string, Record<string, unknown>> = {
  PENDING: {},
  SUSPENDED: {},
  RETRYING: { attempt: 2 },
  ORPHANED: {},
};

for (const [state, more] of Object.entries(WAITS)) {
  Deno.test(`a run that is ${state} and finds its limit taken is held, and let go when there is room`, async () => {
    await withStores(async ({ sql }) => {
      const term = await aTerm(sql);
      const { id: job_definition_id, name } = await aDefinition(sql, { concurrency_limit: 1, concurrency_key: "t" });
      const of_limit = { job_definition_id, limit_key: `${job_definition_id}:t` };
      const waits = await aRun(sql, { ...of_limit, state, ...more });
      assert.equal((await candidateOf(sql, waits.id))?.behind, false);
      const [created] = await createRuns(sql, [{ job_name: name, args: {} }]);
      assert.equal(await isHeld(sql, created?.job_run_id ?? 0), true, "who comes later is born behind it");

      const taken = await aRun(sql, { ...of_limit, state: "RUNNING" });
      assert.equal((await candidateOf(sql, waits.id))?.behind, true);
      assert.equal(await hold(sql, term, [waits.id]), 1);
      await checkLines(sql, term);
      assert.equal(await isHeld(sql, waits.id), true);
      await sql`update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp() where id = ${taken.id}`;
      await checkLines(sql, term);
      assert.deepEqual([await isHeld(sql, waits.id), await isHeld(sql, created?.job_run_id ?? 0)], [false, true]);
    });
  });

  Deno.test(`a bulk's run that is ${state} and held while the bulk is paused is let go when that is over`, async () => {
    await withStores(async ({ sql }) => {
      const term = await aTerm(sql);
      const { id: job_definition_id } = await aDefinition(sql);
      const [bulk] = await sql<{ id: number }[]>`
        insert into bulk (job_definition_id, state) values (${job_definition_id}, 'PAUSED') returning id`;
      const bulk_id = bulk?.id as number;
      const { id } = await aRun(sql, { job_definition_id, source: "bulk", bulk_id, state, ...more });
      assert.equal((await candidateOf(sql, id))?.behind, true);
      assert.equal(await hold(sql, term, [id]), 1);
      assert.deepEqual(await letGo(sql, term, bulk_id), { runs: 0, left: false });
      await sql`update bulk set state = 'RUNNING'`;
      assert.deepEqual(await letGo(sql, term, bulk_id), { runs: 1, left: false });
      assert.equal((await candidateOf(sql, id))?.behind, false);
    });
  });
}
