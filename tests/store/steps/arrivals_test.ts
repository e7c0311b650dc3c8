/** The look: what has come for each open wait, once, and which of several answers wins. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { findArrivals } from "../../../src/steps/arrivals.ts";
import { readJournals } from "../../../src/steps/run_steps.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { anOwnedRun, aWrite, type Owned, write } from "../../support/step_rows.ts";
import { withStores } from "../../support/stores.ts";

async function look(sql: Sql, { job_run_id }: Owned) {
  const [found] = await findArrivals(sql, [job_run_id]);
  return found!.arrivals.toSorted((a, b) => a.key < b.key ? -1 : 1);
}

async function aMessage(sql: Sql, { job_run_id }: Owned, name: string, payload: string): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    insert into run_message (job_run_id, name, payload, sent_by) values (${job_run_id}, ${name}, ${
    sql.json(payload)
  }, 'alice') returning id`;
  return row!.id;
}

/** As if that time had come. */
async function passLimit(sql: Sql, key: string): Promise<void> {
  await sql`update run_step set until = clock_timestamp() - interval '1 ms' where key = ${key}`;
}

Deno.test("a sleep is over at its end, and a wait at its limit, not before", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql, { wakes: 4 });
    const idle = await anOwnedRun(sql);
    await write(
      sql,
      aWrite(run, "sleep:#1", { until_in_ms: 3_600_000 }),
      aWrite(run, "message:go", { until_in_ms: 3_600_000, waits_for: "go" }),
      aWrite(run, "event:paid", { until_in_ms: 3_600_000, waits_for: "paid" }),
      aWrite(run, "message:ever", { waits_for: "ever" }),
      aWrite(run, "step:once", { state: "BEGUN", until_in_ms: 0 }),
      aWrite(run, "step:again", { state: "TRYING", until_in_ms: 0 }),
      aWrite(run, "step:done", { seq: 1 }),
    );
    assert.deepEqual(await findArrivals(sql, [run.id, idle.id, 99]), [
      { job_run_id: run.id, wakes: 4, arrivals: [] },
      { job_run_id: idle.id, wakes: 0, arrivals: [] },
    ]);
    for (const key of ["sleep:#1", "message:go", "event:paid"]) await passLimit(sql, key);
    const arrived = [
      { key: "event:paid", outcome: "TIMED_OUT" },
      { key: "message:go", outcome: "TIMED_OUT" },
      { key: "sleep:#1", outcome: "DONE" },
    ];
    assert.deepEqual(await look(sql, run), arrived);
    const journal = (await readJournals(sql, [run.id])).get(run.id)!;
    assert.equal(journal.wakes, 4);
    assert.deepEqual(journal.arrived.toSorted((a, b) => a.key < b.key ? -1 : 1), arrived);
  });
});

Deno.test("messages of a name go to its waits in the order of their ids, one to each, also those sent before", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql), other = await anOwnedRun(sql);
    const ids: number[] = [];
    for (const text of ["a", "b", "c"]) ids.push(await aMessage(sql, run, "go", text));
    await aMessage(sql, other, "go", "of another run");
    await aMessage(sql, run, "stop", "of another name");
    await write(sql, aWrite(run, "message:go", { waits_for: "go" }));
    await write(sql, aWrite(run, "message:go#2", { waits_for: "go" }));
    const said = (n: number, key: string) => ({
      ...{ key, outcome: "DONE", result: ["a", "b", "c"][n], message_id: ids[n], sent_by: "alice" },
    });
    assert.deepEqual(await look(sql, run), [said(0, "message:go"), said(1, "message:go#2")]);
    await write(sql, aWrite(run, "message:go", { seq: 1, message_id: ids[0] }));
    assert.deepEqual(await look(sql, run), [said(1, "message:go#2")]);
    await write(sql, aWrite(run, "message:go#2", { seq: 2, message_id: ids[1] }));
    await write(
      sql,
      aWrite(run, "message:go#3", { waits_for: "go" }),
      aWrite(run, "message:go#4", { waits_for: "go" }),
    );
    assert.deepEqual(await look(sql, run), [said(2, "message:go#3")]);
  });
});

Deno.test("a message that was sent before the limit wins over it; one sent after is the next wait's", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql);
    const early = await aMessage(sql, run, "go", "early");
    await write(sql, aWrite(run, "message:go", { waits_for: "go", until_in_ms: 60_000 }));
    await sql`update run_message set sent_at = clock_timestamp() - interval '1 min'`;
    await passLimit(sql, "message:go");
    assert.deepEqual((await look(sql, run)).map(({ outcome, message_id }) => [outcome, message_id]), [["DONE", early]]);
    await sql`update run_message set sent_at = clock_timestamp()`;
    assert.deepEqual(await look(sql, run), [{ key: "message:go", outcome: "TIMED_OUT" }]);
    await write(sql, aWrite(run, "message:go#2", { waits_for: "go" }));
    assert.deepEqual((await look(sql, run)).map(({ key, outcome }) => [key, outcome]), [
      ["message:go", "TIMED_OUT"],
      ["message:go#2", "DONE"],
    ]);
  });
});

Deno.test("a call is answered by the end of its run, whatever that is, and a bulk by its counts", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql);
    const child = async (columns: Record<string, unknown>) => (await aRun(sql, { job_definition_id, ...columns })).id;
    const run = await anOwnedRun(sql, { job_definition_id });
    const done = await child({ state: "SUCCEEDED", result: { n: 1 } });
    const empty = await child({ state: "SUCCEEDED" });
    const failed = await child({ state: "FAILED", error_name: "TypeError", error_summary: "x is undefined" });
    const bare = await child({ state: "SKIPPED" });
    const going = await child({ state: "RETRYING", error_name: "TypeError" });
    const bulk = async (state: string) =>
      (await sql<{ id: number }[]>`
        insert into bulk (job_definition_id, state, finished_at, succeeded, failed, changed_by, reason)
        values (${job_definition_id}, ${state}, case when ${state} <> 'RUNNING' then clock_timestamp() end, 3, 1, 'bob', 'too slow')
        returning id`)[0]!.id;
    const [finished, canceled, running] = [await bulk("FINISHED"), await bulk("CANCELED"), await bulk("RUNNING")];
    const calls = { done, empty, failed, bare, going, gone: 4711 };
    const bulks = { finished, canceled, running };
    await write(
      sql,
      ...Object.entries(calls).map(([name, child_run_id]) => aWrite(run, `call:${name}`, { child_run_id })),
      ...Object.entries(bulks).map(([name, child_bulk_id]) => aWrite(run, `bulk:${name}`, { child_bulk_id })),
      aWrite(run, "call:none yet"),
    );
    const failure = (error_name: string, error_summary: string) => ({ outcome: "FAILED", error_name, error_summary });
    assert.deepEqual(await look(sql, run), [
      { key: "bulk:canceled", ...failure("Canceled", "canceled by bob: too slow"), child_bulk_id: canceled },
      {
        key: "bulk:finished",
        outcome: "DONE",
        result: { succeeded: 3, failed: 1 },
        child_bulk_id: finished,
      },
      { key: "call:bare", ...failure("SKIPPED", "it ended SKIPPED"), child_run_id: bare },
      { key: "call:done", outcome: "DONE", result: { n: 1 }, child_run_id: done },
      { key: "call:empty", outcome: "DONE", result: null, child_run_id: empty },
      { key: "call:failed", ...failure("TypeError", "x is undefined"), child_run_id: failed },
      { key: "call:gone", ...failure("Deleted", "its row was deleted"), child_run_id: 4711 },
    ]);
  });
});
