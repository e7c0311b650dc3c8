/** Journals: rows are written by who has the run, once, and are read as they were given to the code. */
import assert from "node:assert/strict";
import { commitSteps, dropJournal, listSteps, readJournals, readStep } from "../../../src/steps/run_steps.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { anOwnedRun, aWrite, write } from "../../support/step_rows.ts";
import { withStores } from "../../support/stores.ts";
import { untilLocked } from "../../support/waiting.ts";

async function keysOf(sql: Sql): Promise<string[]> {
  return (await sql`select key || ' ' || state as text from run_step order by job_run_id, seq nulls last, key`)
    .map(({ text }) => text);
}

Deno.test("rows of many runs are written by one statement, and read in the order in which they were given", async () => {
  await withStores(async ({ sql }) => {
    const a = await anOwnedRun(sql), b = await anOwnedRun(sql, { wakes: 3 });
    const committed = await write(
      sql,
      aWrite(b, "step:one", { seq: 1, result: { id: 7 }, took_ms: 5_000 }),
      aWrite(a, "step:late", { seq: 2, result: ["x"], has_undo: true }),
      aWrite(a, "step:early", { seq: 1, state: "FAILED", tries: 3, error_name: "Gone", error_summary: "is gone" }),
      aWrite(a, "step:again", { state: "TRYING", tries: 2, error_name: "Busy", until_in_ms: 9_000 }),
      aWrite(a, "sleep:#1", { until_in_ms: 3_600_000 }),
    );
    assert.deepEqual(committed.map(({ job_run_id, attempt, wakes }) => [job_run_id, attempt, wakes]), [
      [a.id, 1, 0],
      [b.id, 1, 3],
    ]);
    const journals = await readJournals(sql, [a.id, b.id, 99]);
    assert.deepEqual([...journals.keys()], [a.id, b.id]);
    const of_a = journals.get(a.id)!;
    assert.deepEqual(
      of_a.rows.map(({ key, state, seq, tries, result, error_name, has_undo }) => ({
        ...{ key, state, seq, tries, result, error_name, has_undo },
      })),
      [
        { key: "step:early", state: "FAILED", seq: 1, tries: 3, result: null, error_name: "Gone", has_undo: false },
        { key: "step:late", state: "DONE", seq: 2, tries: 1, result: ["x"], error_name: null, has_undo: true },
      ],
    );
    assert.deepEqual(of_a.open.map(({ key, state, tries }) => [key, state, tries]).sort(), [
      ["sleep:#1", "WAITING", 1],
      ["step:again", "TRYING", 2],
    ]);
    const [sleep] = of_a.open.filter(({ key }) => key === "sleep:#1");
    assert(sleep && sleep.until_in_ms! > 3_500_000 && sleep.until_in_ms! <= 3_600_000);
    assert.equal(of_a.started_unix_ms, Date.UTC(2026, 0, 1));
    assert.deepEqual(journals.get(b.id)?.rows[0]?.result, { id: 7 });
    const ended = [...of_a.rows, ...journals.get(b.id)!.rows].map(({ ended_unix_ms }) => ended_unix_ms);
    assert(Number.isInteger(ended[0]));
    assert.deepEqual([...ended, ...committed.map(({ ended_unix_ms }) => ended_unix_ms)], Array(5).fill(ended[0]));
    const [times] = await sql`
      select extract(epoch from ended_at - began_at)::float8 as s from run_step where key = 'step:one'`;
    assert(times && times.s >= 5 && times.s < 5.5, "it began so long before");
  });
});

Deno.test("who does not own the run writes nothing", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql);
    const step = aWrite(run, "step:charge", { seq: 1 });
    assert.deepEqual(await write(sql, { ...step, attempt: 2 }), []);
    assert.deepEqual(await write(sql, { ...step, start_token: "of another" }), []);
    assert.deepEqual(await commitSteps(sql, "w-other", [step]), []);
    for (const state of ["ASSIGNED", "SUSPENDED", "RETRYING", "CANCELED", "SUCCEEDED"]) {
      const { id } = await aRun(sql, { state, start_token: "t" });
      const zombie = aWrite({ job_run_id: id, attempt: 1, start_token: "t" }, "step:x", { seq: 1 });
      assert.deepEqual(await write(sql, zombie), []);
    }
    assert.deepEqual(await keysOf(sql), []);
    const orphan = await aRun(sql, { state: "ORPHANED", start_token: "t" });
    const of_orphan = aWrite({ job_run_id: orphan.id, attempt: 1, start_token: "t" }, "step:x", { seq: 1 });
    assert.equal((await write(sql, of_orphan)).length, 1, "until it is assigned again");
    assert.equal((await write(sql, step)).length, 1);
  });
});

Deno.test("a step waits for who takes the run from its worker, and is not written after", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql);
    const { answer } = await sql.begin(async (tx) => {
      await tx`update job_run set state = 'ASSIGNED', attempt = 2, start_token = null where id = ${run.id}`;
      const answer = write(sql, aWrite(run, "step:charge", { seq: 1 }));
      await Promise.race([untilLocked(tx, 1), answer.then(() => assert.fail("it did not wait"))]);
      return { answer };
    });
    assert.deepEqual(await answer, []);
    assert.deepEqual(await keysOf(sql), []);
  });
});

Deno.test("who takes the run from its worker waits for a step that is being written", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql);
    const { taken } = await sql.begin(async (tx) => {
      assert.equal((await commitSteps(tx, "w-of-nobody", [aWrite(run, "step:charge", { seq: 1 })])).length, 1);
      const taken = sql`update job_run set state = 'ORPHANED' where id = ${run.id} and state = 'RUNNING' returning id`
        .then((rows) => rows.length);
      await untilLocked(tx, 1); // else the step would be written though the run is another's
      return { taken };
    });
    assert.equal(await taken, 1);
    assert.deepEqual(await keysOf(sql), ["step:charge DONE"]);
  });
});

Deno.test("a repeated write changes nothing and is no error; what was given to the code stays", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql);
    const step = aWrite(run, "step:charge", { seq: 1, result: "first" });
    const other = aWrite(run, "step:ship", { seq: 2 });
    const [first] = await write(sql, step);
    const [second] = await write(sql, { ...step, result: "second" }, other);
    const charged = first!.ended_unix_ms, shipped = second!.ended_unix_ms;
    assert.deepEqual(second, { ...first, ended_unix_ms: shipped, earlier: { "step:charge": charged } });
    const [third] = await write(sql, step, other);
    assert.deepEqual(third?.earlier, { "step:charge": charged, "step:ship": shipped });
    const same = aWrite(run, "step:many", { seq: 3 });
    const answers = (await Promise.all(Array.from({ length: 20 }, () => write(sql, same)))).flat();
    const fresh = answers.filter(({ earlier }) => !earlier);
    assert.equal(fresh.length, 1);
    const said = answers.map(({ earlier, ended_unix_ms }) => earlier?.["step:many"] ?? ended_unix_ms);
    assert.deepEqual(said, Array(20).fill(fresh[0]?.ended_unix_ms));
    assert.equal((await readStep(sql, run.id, "step:charge"))?.result, "first");
    const [wrong] = await write(sql, { ...step, seq: 4 });
    assert.equal(wrong?.refused, "Cannot record step:charge: it was given to the code at position 1 before");
  });
});

Deno.test("a wait keeps its first limit, and when it began", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql);
    const row = async (key: string) =>
      (await sql`select until::text, began_at::text, state, seq from run_step where key = ${key}`)[0];
    await write(sql, aWrite(run, "sleep:#1", { until_in_ms: 1_000, took_ms: 60_000 }));
    const first = await row("sleep:#1");
    const [fresh] = await sql`select clock_timestamp() - began_at < interval '30 s' as fresh from run_step`;
    assert(fresh?.fresh, "of a wait the clock of the body does not count");
    await write(sql, aWrite(run, "sleep:#1", { until_in_ms: 900_000 }));
    assert.deepEqual(await row("sleep:#1"), first);
    await write(sql, aWrite(run, "sleep:#1", { seq: 1 }));
    assert.deepEqual(await row("sleep:#1"), { ...first, state: "DONE", seq: 1 });
    await write(sql, aWrite(run, "step:a", { state: "TRYING", until_in_ms: 1_000 }));
    const trying = await row("step:a");
    await write(sql, aWrite(run, "step:a", { state: "TRYING", tries: 2, until_in_ms: 900_000 }));
    assert.notEqual((await row("step:a"))?.until, trying?.until, "the next try has its own time");
    assert.equal((await row("step:a"))?.began_at, trying?.began_at);
    const far = aWrite(run, "sleep:#3", { until_in_ms: 1e300 });
    await write(sql, aWrite(run, "sleep:#2", { until_unix_ms: Date.UTC(2030, 0, 1) }), far);
    assert.equal((await row("sleep:#2"))?.until, "2030-01-01 00:00:00+00");
  });
});

Deno.test("what Postgres cannot store refuses its own run only", async () => {
  await withStores(async ({ sql }) => {
    const good = await anOwnedRun(sql),
      bad = await anOwnedRun(sql),
      odd = await anOwnedRun(sql),
      gone = await anOwnedRun(sql);
    const committed = await write(
      sql,
      aWrite(good, "step:one", { seq: 1 }),
      aWrite(bad, "step:one", { seq: 1 }),
      aWrite(bad, "step:two", { seq: 1 }),
      aWrite(odd, "event:paid", { waits_for: "paid", where: "a text would fail each look at events" }),
      { ...aWrite(gone, `step:${"x".repeat(300)}`, { seq: 1 }), attempt: 7 },
    );
    assert.deepEqual(committed.map(({ job_run_id, refused }) => [job_run_id, refused !== undefined]), [
      [good.id, false],
      [bad.id, true],
      [odd.id, true],
    ]);
    assert.match(committed[1]?.refused ?? "", /^Cannot record step:one, step:two: duplicate key .*run_step_order/);
    assert.deepEqual(await keysOf(sql), ["step:one DONE"]);
  });
});

Deno.test("the result of a call is read where it is, and people see who was called and who has sent what", async () => {
  await withStores(async ({ sql }) => {
    const { id } = await aDefinition(sql);
    const child = await aRun(sql, { job_definition_id: id, state: "SUCCEEDED", result: { pages: 3 } });
    const run = await anOwnedRun(sql, { job_definition_id: id });
    const [message] = await sql`
      insert into run_message (job_run_id, name, payload, sent_by) values (${run.id}, 'go', '{"n": 1}', 'alice') returning id`;
    await write(
      sql,
      aWrite(run, "call:render", { seq: 1, child_run_id: child.id, result: "a copy" }),
      aWrite(run, "message:go", { seq: 2, message_id: message?.id, result: { n: 1 }, waits_for: "go" }),
      aWrite(run, "step:long", { seq: 3, result: "x".repeat(5_000) }),
    );
    assert.deepEqual([...await sql`select result from run_step where key = 'call:render'`], [{ result: null }]);
    assert.deepEqual((await readJournals(sql, [run.id])).get(run.id)?.rows[0]?.result, { pages: 3 });
    const steps = await listSteps(sql, run.id);
    assert.deepEqual(steps.map(({ key, child_state, sent_by, result }) => [key, child_state, sent_by, result]), [
      ["call:render", "SUCCEEDED", null, { pages: 3 }],
      ["message:go", null, "alice", { n: 1 }],
      ["step:long", null, null, null],
    ]);
    assert.equal(steps[2]?.result_bytes, 5_002);
    assert.equal((await readStep(sql, run.id, "step:long"))?.result, "x".repeat(5_000));
    assert.equal(await readStep(sql, run.id, "step:none"), undefined);
  });
});

Deno.test("a journal is dropped by who has the run, and its messages can be taken again", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql), other = await anOwnedRun(sql);
    for (const  of of[run, other]) {
      const [message] = await sql`
        insert into run_message (job_run_id, name, sent_by) values (${of.id}, 'go', 'alice') returning id`;
      await sql`
        insert into run_message (job_run_id, name, for_key, sent_by) values (${of.id}, 'paid', 'event:paid', 'event 7')`;
      const got = aWrite(of, "message:go", { seq: 2, message_id: message?.id });
      await write(sql, aWrite(of, "step:a", { seq: 1 }), got, aWrite(of, "event:paid", { seq: 3 }));
    }
    assert.equal(await dropJournal(sql, "w-other", run), false);
    assert.equal(await dropJournal(sql, "w-of-nobody", { ...run, attempt: 2 }), false);
    assert.equal((await keysOf(sql)).length, 6);
    assert.equal(await dropJournal(sql, "w-of-nobody", run), true);
    const left = await sql`select distinct job_run_id as id from run_step`;
    assert.deepEqual([...left], [{ id: other.id }]);
    const messages = await sql`select job_run_id as id, name, taken_by from run_message order by 1, 2`;
    assert.deepEqual([...messages], [
      { id: run.id, name: "go", taken_by: null },
      { id: other.id, name: "go", taken_by: "message:go" },
      { id: other.id, name: "paid", taken_by: "event:paid" },
    ]);
  });
});

Deno.test("a message is taken by one wait", async () => {
  await withStores(async ({ sql }) => {
    const run = await anOwnedRun(sql), other = await anOwnedRun(sql);
    const [message] = await sql<{ id: number }[]>`
      insert into run_message (job_run_id, name, sent_by) values (${run.id}, 'go', 'alice') returning id`;
    const take = (key: string, seq: number, by = run) => aWrite(by, key, { seq, message_id: message!.id });
    const [foreign] = await write(sql, take("message:go", 1, other));
    assert.match(foreign?.refused ?? "", /^Cannot record message:go: message \d+ is not there/);
    const [both] = await write(sql, take("message:go", 1), take("message:go#2", 2));
    assert.match(both?.refused ?? "", /message:go#2/);
    const later = await Promise.all(
      Array.from({ length: 10 }, (_, n) => write(sql, take(`message:go#${n + 3}`, n + 3), take("message:go", 1))),
    );
    assert(later.flat().every(({ refused }) => refused?.includes("is not there to be taken")));
    assert.deepEqual([...await sql`select taken_by from run_message`], [{ taken_by: "message:go" }]);
    assert.deepEqual(await keysOf(sql), ["message:go DONE"]);
  });
});
