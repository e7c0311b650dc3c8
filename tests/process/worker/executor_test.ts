/** A worker's executor over a real Postgres, with bodies that end when the test says so. */
import assert from "node:assert/strict";
import { EndedLately } from "../../../src/worker/results/recently_ended.ts";
import type { RunOrder } from "../../../src/worker/inflight_run.ts";
import {
  fileNameOf,
  identify,
  journalsFolder,
  readJournal,
  ResultJournal,
} from "../../../src/worker/results/result_journal.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import type { Ending } from "../../../src/runs/finished_runs.ts";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import { ME, ok, withExecutor } from "../../support/executor_scene.ts";
import { whileShut } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";
import { english } from "../../../src/locale/english.ts";
import { stored } from "../../../src/locale/message.ts";

const FOREVER = new AbortController().signal;

Deno.test("a body whose start was under way when the worker drains ends with the others, and is given back", async () => {
  await withExecutor(async ({ sql, executor, bodies, assigned }) => {
    const order = await assigned();
    let drained: Promise<void> | undefined;
    let started: Promise<unknown> | undefined;
    await sql.begin(async (tx) => {
      await tx`select 1 from job_run where id = ${order.job_run_id} for update`;
      started = executor.accept(order); // waits for the row
      await waitFor("the start to wait", async () => {
        const [row] =
          await sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%nextval(''fence_seq'')%'
          and datname = current_database()`;
        return row;
      });
      drained = executor.drain(0, FOREVER);
    });
    assert.deepEqual(await started, { result: "ACCEPTED", message: "" });
    await drained;
    assert.equal(bodies.size, 0);
    assert.equal((await readRun(sql, order.job_run_id))?.state, "ORPHANED");
    const attempts = await readAttempts(sql, order.job_run_id);
    assert.deepEqual(attempts.map((one) => one.outcome), ["GIVEN_BACK"]);
  });
});

Deno.test("a body that its machine has no room for is given back uncharged, and no order is taken for a while", async () => {
  await withExecutor(async ({ sql, executor, local, bodies, facts, assigned }) => {
    await sql`update node set next_check_at = now() + interval '1 hour'`;
    const [order, next] = [await assigned(), await assigned()];
    await executor.accept(order);
    const lack = "No space left on device (os error 28): mkdir '/state/bodies/1'";
    const lost = {
      kind: "LOST",
      error_summary: stored("runs.end.not_started", { why: lack }),
      exit_code: null,
      unbegun: true,
      lack,
    } as const;
    bodies.get(order.job_run_id)?.end(lost);
    await waitFor("its end", () => Promise.resolve(executor.runs.length === 0 || undefined));
    const run = await readRun(sql, order.job_run_id);
    assert.deepEqual([run?.state, run?.failures, run?.interruptions], ["ORPHANED", 0, 0]);
    assert.equal((await readAttempts(sql, order.job_run_id))[0]?.outcome, "GIVEN_BACK");
    assert.equal(local.lacks(lack), false, "it was said already");
    const refused = await executor.accept(next);
    assert.equal(refused.result, "REJECTED_FULL");
    assert.match(refused.message, /this machine lacks what it needs: No space left/);
    const said = facts.filter(({ name }) => name === "worker.unable");
    assert.deepEqual(said.map(({ fact }) => fact), [{ worker_id: ME, node_id: "here", lack, seconds: 5 }]);
    await waitFor("a check of its node to be due", async () => {
      const [due] =
        await sql`select 1 from node where node_id = ${local.node_id} and next_check_at <= clock_timestamp()`;
      return due;
    });
  });
});

Deno.test("an outcome that Postgres refuses fails its own run with the reason, and no other of its batch", async () => {
  await withExecutor(async ({ sql, executor, bodies, facts, assigned }) => {
    const [good, bad] = [await assigned(), await assigned()];
    await Promise.all([executor.accept(good), executor.accept(bad)]);
    bodies.get(good.job_run_id)?.end(ok(0));
    bodies.get(bad.job_run_id)?.end(ok(2 ** 40)); // beyond Postgres' int
    await waitFor("both ends", () => Promise.resolve(executor.runs.length === 0 || undefined));
    const [kept, refused] = [await readRun(sql, good.job_run_id), await readRun(sql, bad.job_run_id)];
    assert.deepEqual([kept?.state, kept?.result], ["SUCCEEDED", { done: true }]);
    assert.deepEqual([refused?.state, refused?.error_name], ["FAILED", "InvalidResult"]);
    assert.match(english(refused?.error_summary ?? ""), /SUCCEEDED could not be stored: .*out of range/);
    assert(!facts.some(({ name }) => name === "run.late_result"));
  });
});

Deno.test("outcomes that take Postgres too long together are recorded a few at a time", async () => {
  await withExecutor(async ({ sql, executor, bodies, assigned }) => {
    await sql.unsafe(NO_MORE_THAN_TWO);
    const orders = await Promise.all(Array.from({ length: 9 }, assigned));
    await Promise.all(orders.map((order) => executor.accept(order)));
    for (const { end } of bodies.values()) end(ok(0));
    await waitFor("all ends", () => Promise.resolve(executor.runs.length === 0 || undefined), 10_000);
    for (const { job_run_id } of orders) assert.equal((await readRun(sql, job_run_id))?.state, "SUCCEEDED");
  });
});

/** A journal of the test's own, and what is in its file. */
async function withJournal(
  test: (journal: ResultJournal, entries: () => Promise<Ending[]>) => Promise<void>,
): Promise<void> {
  const state_dir = await Deno.makeTempDir({ prefix: "dandori-journal-" });
  const me = identify(ME);
  const journal = new ResultJournal(state_dir, me);
  journal.open();
  try {
    await test(journal, () => readJournal(`${journalsFolder(state_dir)}/${fileNameOf(me)}`));
  } finally {
    journal.close(true);
    await Deno.remove(state_dir, { recursive: true });
  }
}

/** Of runs that one statement ends: as if each took a third of the time that a statement may take. */
const NO_MORE_THAN_TWO = `
  create function too_long() returns trigger language plpgsql as $$
  begin
    if (select count(*) from moved where finished_at is not null) > 2 then
      raise exception 'canceling statement due to statement timeout' using errcode = '57014';
    end if;
    return null;
  end $$;
  create trigger too_long after update on job_run referencing new table as moved for each statement execute function too_long();`;

Deno.test("an outcome whose row somebody's transaction keeps holds up no other, and is recorded when that has ended", async () => {
  await withExecutor(async ({ sql, executor, bodies, assigned }) => {
    const [kept, beside, after] = [await assigned(), await assigned(), await assigned()];
    await Promise.all([kept, beside, after].map((order) => executor.accept(order)));
    const isIn = (state: string, order: RunOrder) => async () =>
      (await readRun(sql, order.job_run_id))?.state === state || undefined;
    await sql.begin(async (tx) => {
      await tx`set local idle_in_transaction_session_timeout = 0`;
      await tx`update job_run set priority = 100 where id = ${kept.job_run_id}`;
      for (const order of [kept, beside]) bodies.get(order.job_run_id)?.end(ok(0));
      await waitFor("the end beside it", isIn("SUCCEEDED", beside), 20_000);
      bodies.get(after.job_run_id)?.end(ok(0));
      await waitFor("the end after it", isIn("SUCCEEDED", after), 20_000);
      await waitFor("nothing else in hand", () => Promise.resolve(executor.held.length === 1));
      assert.equal(executor.held[0]?.job_run_id, kept.job_run_id);
    });
    await waitFor("the one that was kept", isIn("SUCCEEDED", kept), 20_000);
    await waitFor("nothing in hand", () => Promise.resolve(executor.runs.length === 0 || undefined));
  });
});

Deno.test("a run whose row somebody's transaction keeps is refused, and holds up no other that is to be started with it", async () => {
  await withExecutor(async ({ sql, executor, assigned }) => {
    const orders = [await assigned(), await assigned(), await assigned()] as const;
    await sql.begin(async (tx) => {
      await tx`set local idle_in_transaction_session_timeout = 0`;
      await tx`update job_run set priority = 100 where id = ${orders[1].job_run_id}`;
      const answers = await Promise.all(orders.map((order) => executor.accept(order)));
      assert.deepEqual(answers.map(({ result }) => result), ["ACCEPTED", "REJECTED_DETACHED", "ACCEPTED"]);
    });
    assert.equal((await readRun(sql, orders[1].job_run_id))?.state, "ASSIGNED");
  });
});

Deno.test("an outcome waits while Postgres lets nobody in, as after a change of the password, and is what it was", async () => {
  let tries = 0;
  const through = (sql: Sql) =>
    new Proxy(sql, {
      apply: (pool, self, args) => {
        if (String((args[0] as { raw?: string[] }).raw).includes("else s.outcome")) tries++;
        return Reflect.apply(pool, self, args);
      },
    });
  await withExecutor(async ({ sql, executor, bodies, assigned, database_url }) => {
    const order = await assigned();
    assert.equal((await executor.accept(order)).result, "ACCEPTED");
    await whileShut(database_url, "test", async () => {
      bodies.get(order.job_run_id)?.end(ok(7));
      await waitFor("another try, and another", () => Promise.resolve(tries >= 5));
    });
    await waitFor("the end", async () => (await readRun(sql, order.job_run_id))?.state === "SUCCEEDED");
  }, { through });
});

Deno.test("an outcome is in the journal before what may wait for Postgres, its body's log as well, and until it is recorded", async () => {
  await withJournal(async (journal, entries) => {
    await withExecutor(async ({ sql, executor, bodies, assigned }) => {
      const order = await assigned();
      await executor.accept(order);
      const body = bodies.get(order.job_run_id);
      await sql.begin(async (tx) => {
        await tx`set local idle_in_transaction_session_timeout = 0`;
        await tx`lock table job_run_log in access exclusive mode`;
        await tx`select 1 from job_run where id = ${order.job_run_id} for update`;
        body?.listener.onLog([{ level: "info", message: "nearly done" }]);
        body?.end(ok(7));
        for (let turn = 0; turn < 10; turn++) await Promise.resolve();
        assert.equal(executor.load, 0, "its end is known here");
        const [kept, ...others] = await entries();
        assert.deepEqual([kept?.job_run_id, kept?.exit_code, others], [order.job_run_id, 7, []]);
      });
      await waitFor("the end", () => Promise.resolve(executor.runs.length === 0));
      assert.equal((await readRun(sql, order.job_run_id))?.state, "SUCCEEDED");
      assert.deepEqual([journal.waiting, await entries()], [0, []]);
    }, { journal });
  });
});

Deno.test("a result that comes after the run was closed is kept in the audit", async () => {
  await withExecutor(async ({ sql, executor, bodies, facts, assigned }) => {
    const order = await assigned();
    await executor.accept(order);
    await sql`update job_run set state = 'CANCELED', finished_at = now() where id = ${order.job_run_id}`;
    bodies.get(order.job_run_id)?.end(ok(0));
    await waitFor("its end", () => Promise.resolve(executor.runs.length === 0 || undefined));
    assert(facts.some(({ name, fact }) => name === "run.late_result" && fact.outcome === "SUCCEEDED"));
    const acts = await sql`select action, target_id from admin_action_log`;
    assert.deepEqual([...acts], [{ action: "run.late_result", target_id: String(order.job_run_id) }]);
  });
});

Deno.test("a failure whose record was not heard of is not called late when the run is tried elsewhere already", async () => {
  await withExecutor(async ({ sql, executor, bodies, facts, assigned }) => {
    const order = await assigned();
    await executor.accept(order);
    await sql`
      with moved as (
        update job_run set state = 'ASSIGNED', attempt = 2, assigned_worker_id = 'w-other', fence = null, start_token = null
         where id = ${order.job_run_id} returning id)
      insert into job_run_attempt (job_run_id, attempt, worker_id, outcome) select id, 1, ${ME}, 'FAILED' from moved`;
    const failed = { error_name: "Error", error_summary: "no", exit_code: 1, retry: "policy" } as const;
    bodies.get(order.job_run_id)?.end({ kind: "FAILED", ...failed });
    await waitFor("its end", () => Promise.resolve(executor.runs.length === 0 || undefined));
    assert(facts.some(({ name, fact }) => name === "run.finished" && fact.state === "RETRYING"));
    assert.equal((await sql`select 1 from admin_action_log`).length, 0);
  });
});

Deno.test("a body or an outcome that waits to be recorded is worth keeping, a body that got lost is not", async () => {
  await withExecutor(async ({ sql, executor, bodies, assigned }) => {
    const [good, lost] = [await assigned(), await assigned()];
    await Promise.all([executor.accept(good), executor.accept(lost)]);
    const ids = () => executor.held.map((run) => run.job_run_id);
    assert.deepEqual(ids(), [good.job_run_id, lost.job_run_id]);
    await sql.begin(async (tx) => {
      await tx`select 1 from job_run for update`; // nothing can be recorded meanwhile
      bodies.get(good.job_run_id)?.end(ok(0));
      bodies.get(lost.job_run_id)?.end({ kind: "LOST", error_summary: "killed by its guard", exit_code: null });
      await waitFor("both ends", () => Promise.resolve(executor.load === 0 || undefined));
      assert.deepEqual(ids(), [good.job_run_id]);
    });
    await waitFor("their records", () => Promise.resolve(executor.runs.length === 0 || undefined));
  });
});

Deno.test("what cannot be recorded is waited for while the lease holds, and not when there is no time left", async () => {
  await withExecutor(async ({ sql, executor, bodies, facts, assigned }) => {
    const order = await assigned();
    await executor.accept(order);
    await sql.end({ timeout: 1 }); // Postgres is away for good
    bodies.get(order.job_run_id)?.end(ok(0));
    const hurry = new AbortController();
    const drained = executor.drain(3_600_000, hurry.signal);
    assert.deepEqual(executor.runs, [{ job_run_id: order.job_run_id, attempt: 1 }]);
    hurry.abort();
    await drained;
    await waitFor("the end of trying", () => Promise.resolve(executor.runs.length === 0 || undefined));
    assert(facts.some(({ name, fact }) => name === "run.finished" && fact.state === "not recorded"));
  });
});

Deno.test("a body that was lost is charged to its run as an interruption, one that its worker might not begin is not", async () => {
  await withExecutor(async ({ sql, executor, bodies, assigned }) => {
    for (const [unbegun, kept, interruptions] of [[false, "LOST", 1], [true, "GIVEN_BACK", 0]] as const) {
      const order = await assigned();
      await executor.accept(order);
      bodies.get(order.job_run_id)?.end({ kind: "LOST", error_summary: "gone", exit_code: null, unbegun });
      const run = await waitFor("it to be given back", async () => {
        const row = await readRun(sql, order.job_run_id);
        return row?.state === "ORPHANED" ? row : undefined;
      });
      assert.equal(run.interruptions, interruptions);
      assert.deepEqual((await readAttempts(sql, order.job_run_id)).map(({ outcome }) => outcome), [kept]);
    }
  });
});

Deno.test("an order that comes before its assignment starts nothing until that is there, and is no run that was lost", async () => {
  await withExecutor(async ({ sql, executor, bodies, facts, assigned }) => {
    const order = { ...await assigned(), assigning: true };
    const [late, never] = [order, { ...await assigned(), assigning: true }];
    const assign = (state: string, job_run_id: number) =>
      sql`update job_run set state = ${state} where id = ${job_run_id}`;
    await assign("PENDING", late.job_run_id);
    await assign("PENDING", never.job_run_id);
    const refused = await Promise.all([executor.accept(late), executor.accept(never)]);
    assert.deepEqual(refused.map(({ result }) => result), ["REJECTED_INVALID", "REJECTED_INVALID"]);
    assert.equal(bodies.size, 0);
    assert(!facts.some(({ name }) => name === "run.start_lost"));
    await assign("ASSIGNED", late.job_run_id);
    assert.equal((await executor.accept({ ...late, assigning: false })).result, "ACCEPTED");
    assert.deepEqual([...bodies.keys()], [late.job_run_id]);
    await executor.accept({ ...never, assigning: false });
    assert(facts.some(({ name, fact }) => name === "run.start_lost" && fact.job_run_id === never.job_run_id));
  });
});

/** Postgres, which answers that start of all only when it is let. `asked` resolves when it has been carried out. */
function answersLate(which: number) {
  const asked = Promise.withResolvers<void>();
  const let_go = Promise.withResolvers<void>();
  let starts = 0;
  const through = (sql: Sql) =>
    new Proxy(sql, {
      apply(sql, _this, args) {
        const query = Reflect.apply(sql, undefined, args);
        const is_start = String(args[0]).includes("nextval('fence_seq')");
        if (!is_start || ++starts !== which) return query;
        return query.then(async (rows: unknown) => {
          asked.resolve();
          await let_go.promise;
          return rows;
        });
      },
    });
  return { through, asked: asked.promise, letGo: let_go.resolve };
}

Deno.test("an order that comes again when its run is assigned starts it, also while the last start of before is under way", async () => {
  const { through, asked, letGo } = answersLate(3);
  await withExecutor(async ({ sql, executor, bodies, assigned }) => {
    const order = await assigned();
    const { job_run_id } = order;
    await sql`update job_run set state = 'PENDING' where id = ${job_run_id}`;
    const ahead = executor.accept({ ...order, assigning: true });
    await asked;
    await sql`update job_run set state = 'ASSIGNED' where id = ${job_run_id}`;
    const again = executor.accept(order);
    letGo();
    assert.deepEqual((await Promise.all([ahead, again])).map(({ result }) => result), ["ACCEPTED", "ACCEPTED"]);
    assert.deepEqual([...bodies.keys()], [job_run_id]);
  }, { through });
});

Deno.test("nothing begins before the files have been looked at; a run that is RUNNING by then and has others is as before", async () => {
  const { promise: found, resolve: look } = Promise.withResolvers<string>();
  await withExecutor(async ({ sql, executor, bodies, assigned }) => {
    const order = await assigned();
    const answer = executor.accept(order);
    await waitFor(
      "it to be RUNNING",
      async () => (await readRun(sql, order.job_run_id))?.state === "RUNNING" || undefined,
    );
    assert.equal(bodies.size, 0);
    look("another");
    const { result, message, other_code } = await answer;
    assert.deepEqual([result, other_code], ["REJECTED_INVALID", { digest: "another" }]);
    assert.match(message, /Code mismatch for run "\d+": job.ts was synced as digest, this worker has another/);
    const run = await readRun(sql, order.job_run_id);
    assert.deepEqual([run?.state, run?.attempt, run?.interruptions], ["PENDING", 1, 0]);
    assert.deepEqual(await readAttempts(sql, order.job_run_id).then(({ length }) => length), 0);
    assert.deepEqual([bodies.size, executor.runs.length], [0, 0]);
  }, { found });
});

Deno.test("an end is known for as long as an older question may be under way, and no longer, also where no other comes", () => {
  const run = { job_run_id: 1, attempt: 2 };
  const ended = new EndedLately(0);
  ended.add(run, 29_000);
  assert.equal(ended.has({ ...run, attempt: 1 }, 29_000), false);
  assert.equal(ended.has(run, 58_000), true);
  ended.add({ job_run_id: 2, attempt: 1 }, 58_500);
  assert.equal(ended.has(run, 59_000), true, "half of what is known was forgotten");
  assert.equal(ended.has(run, 3_600_000), false);
  assert.equal(ended.has({ job_run_id: 2, attempt: 1 }, 3_600_000), false);
});

Deno.test("a cancel is accepted while the body runs, and told when that attempt has ended or was never here", async () => {
  await withExecutor(async ({ sql, executor, bodies, assigned }) => {
    const order = await assigned();
    const cancel = (attempt: number, job_run_id = order.job_run_id) =>
      executor.cancel({ job_run_id, attempt }, "enough");
    assert.equal(cancel(1), "NOT_FOUND");
    await executor.accept(order);
    assert.deepEqual([cancel(1), cancel(0), cancel(2)], ["ACCEPTED", "ACCEPTED", "NOT_FOUND"]);
    await sql.begin(async (tx) => {
      await tx`select 1 from job_run for update`; // its end cannot be recorded meanwhile
      bodies.get(order.job_run_id)?.end(ok(0));
      await waitFor("its end", () => Promise.resolve(executor.load === 0 || undefined));
      assert.deepEqual([cancel(1), cancel(0)], ["ALREADY_FINISHED", "ALREADY_FINISHED"]);
    });
    await waitFor("its record", () => Promise.resolve(executor.runs.length === 0 || undefined));
    assert.deepEqual([cancel(1), cancel(2), cancel(1, 4_711)], ["ALREADY_FINISHED", "NOT_FOUND", "NOT_FOUND"]);
  });
});
