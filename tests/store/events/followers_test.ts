/** What comes after the runs of a group: when it is decided, once, by which rule, and what a repeat by hand changes. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { retryRun } from "../../../src/actions/run_actions.ts";
import { createBackfill } from "../../../src/bulks/backfill.ts";
import { followEnds } from "../../../src/events/followers.ts";
import { acquire, type Term } from "../../../src/nodes/leadership.ts";
import { createRuns, rerunWhere } from "../../../src/runs/create_runs.ts";
import { aDefinition, aTerm } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

interface Run {
  id: number;
  job: string;
  state: string;
  group_id: number | null;
  args: { runs?: Record<string, number> };
  why: string | null;
}

interface Scene {
  sql: Sql;
  term: Term;
  /** A run of `job`, by an enqueue. */
  enqueue(job: string): Promise<number>;
  end(id: number, state?: string): Promise<void>;
  follow(): Promise<Run[]>;
  /** All runs of the group, in order. */
  group(id: number): Promise<Run[]>;
}

/** A job by its name: what it comes after, and when. */
type Jobs = Record<string, { after: string[]; when?: string } | Record<never, never>>;

function withJobs(jobs: Jobs, test: (scene: Scene) => Promise<void>): Promise<void> {
  return withStores(async ({ sql }) => {
    const named = new Set(Object.values(jobs).flatMap((job) => "after" in job ? job.after : []));
    for (const [name, job] of Object.entries(jobs)) {
      const after = "after" in job ? { after_jobs: job.after, after_when: job.when ?? "success" } : {};
      await aDefinition(sql, { name, has_followers: named.has(name), ...after });
    }
    const term = await aTerm(sql);
    const group = async (id: number) =>
      await sql<Run[]>`
        select r.id, d.name as job, r.state, r.group_id, r.args_json as args, r.error_summary as why
          from job_run r join job_definition d on d.id = r.job_definition_id where r.group_id = ${id} order by r.id`;
    await test({
      sql,
      term,
      group,
      enqueue: async (job) => {
        const [made] = await createRuns(sql, [{ job_name: job, args: {} }]);
        return made?.job_run_id as number;
      },
      end: async (id, state = "SUCCEEDED") => {
        await sql`update job_run set state = ${state}, held = false, wakes_at = null, finished_at = clock_timestamp(),
                         ended_xid = pg_current_xact_id() where id = ${id}`;
      },
      follow: async () => {
        const { runs } = await followEnds(sql, term);
        const ids = runs.map(({ id }) => id);
        const made = await sql<
          { group_id: number }[]
        >`select distinct group_id from job_run where id = any(${ids}::bigint[])`;
        const all = (await Promise.all(made.map(({ group_id }) => group(group_id)))).flat();
        return all.filter(({ id }) => ids.includes(id));
      },
    });
  });
}

const CHAIN = { load: {}, report: { after: ["load"] } };
const JOIN = {
  nightly: {},
  orders: { after: ["nightly"] },
  users: { after: ["nightly"] },
  report: { after: ["orders", "users"] },
};

Deno.test("a run of a job that another comes after begins a group; its follower inherits group and slot, and is told what it follows", () =>
  withJobs(CHAIN, async ({ sql, enqueue, end, follow }) => {
    const id = await enqueue("load");
    await sql`update job_run set scheduled_for = '2026-11-01T02:00:00Z' where id = ${id}`;
    assert.deepEqual(await follow(), []);
    await end(id);
    const [report, ...more] = await follow();
    assert.deepEqual(more, []);
    assert.deepEqual([report?.job, report?.state, report?.group_id, report?.args], ["report", "PENDING", id, {
      runs: { load: id },
    }]);
    const [row] = await sql`select scheduled_for, source, held from job_run where id = ${report?.id as number}`;
    assert.deepEqual(row, { scheduled_for: new Date("2026-11-01T02:00:00Z"), source: "after", held: false });
    assert.deepEqual(await follow(), [], "once");
  }));

Deno.test("a job that nobody comes after begins no group, and its end leaves no check", () =>
  withJobs(CHAIN, async ({ sql, enqueue, end }) => {
    const id = await enqueue("report");
    await end(id);
    assert.deepEqual([...await sql`select group_id from job_run`], [{ group_id: null }]);
    assert.deepEqual([...await sql`select from group_check`], []);
  }));

Deno.test("a join waits for all that it names, whatever order they end in, and comes once", () =>
  withJobs(JOIN, async ({ enqueue, end, follow, group }) => {
    const first = await enqueue("nightly");
    await end(first);
    const [orders, users] = (await follow()).map(({ id }) => id) as [number, number];
    await end(users);
    assert.deepEqual(await follow(), []);
    await end(orders);
    const [report] = await follow();
    assert.deepEqual(report?.args, { runs: { orders, users } });
    assert.deepEqual((await group(first)).map(({ job }) => job), ["nightly", "orders", "users", "report"]);
    assert.deepEqual(await follow(), []);
  }));

Deno.test("both that a join names end between two looks: it comes once", () =>
  withJobs(JOIN, async ({ enqueue, end, follow }) => {
    await end(await enqueue("nightly"));
    for (const { id } of await follow()) await end(id);
    assert.deepEqual((await follow()).map(({ job }) => job), ["report"]);
    assert.deepEqual(await follow(), []);
  }));

Deno.test("a run that waits for another try or is suspended has not ended", () =>
  withJobs(CHAIN, async ({ sql, enqueue, follow }) => {
    const id = await enqueue("load");
    for (const state of ["RETRYING", "SUSPENDED"]) {
      await sql`update job_run set state = ${state}, held = true where id = ${id}`;
      await sql`insert into group_check (group_id, job_definition_id) select ${id}, job_definition_id from job_run where id = ${id}`;
      assert.deepEqual(await follow(), []);
    }
  }));

Deno.test("a rule that is not met leaves a SKIPPED run that says why, and so do those after it: a graph has no holes", () =>
  withJobs({ ...JOIN, mail: { after: ["report"] } }, async ({ enqueue, end, follow }) => {
    await end(await enqueue("nightly"));
    const [orders, users] = await follow();
    await end(orders?.id as number);
    await end(users?.id as number, "FAILED");
    const [report] = await follow();
    assert.deepEqual([report?.job, report?.state, report?.why], [
      "report",
      "SKIPPED",
      `after: run ${users?.id} of users is FAILED`,
    ]);
    const [mail] = await follow();
    assert.deepEqual([mail?.job, mail?.state, mail?.why], [
      "mail",
      "SKIPPED",
      `after: run ${report?.id} of report is SKIPPED`,
    ]);
    assert.deepEqual(await follow(), []);
  }));

for (
  const { when, ended, state } of [
    { when: "success", ended: "SUCCEEDED", state: "PENDING" },
    { when: "success", ended: "CANCELED", state: "SKIPPED" },
    { when: "failure", ended: "SUCCEEDED", state: "SKIPPED" },
    { when: "failure", ended: "TIMED_OUT", state: "PENDING" },
    { when: "end", ended: "SUCCEEDED", state: "PENDING" },
    { when: "end", ended: "FAILED", state: "PENDING" },
  ]
) {
  Deno.test(`after ${ended}, a job that comes on "${when}" is ${state}`, () =>
    withJobs({ load: {}, next: { after: ["load"], when } }, async ({ enqueue, end, follow }) => {
      await end(await enqueue("load"), ended);
      assert.deepEqual((await follow()).map((run) => run.state), [state]);
    }));
}

Deno.test("a repeat by hand stays in the group: it brings a SKIPPED follower after all, and one that ran not again", () =>
  withJobs(CHAIN, async ({ sql, enqueue, end, follow, group }) => {
    const failed = await enqueue("load");
    await end(failed, "FAILED");
    assert.deepEqual((await follow()).map(({ state }) => state), ["SKIPPED"]);
    const by = { actor: "me", reason: "", most: 1 };
    const [again] = await rerunWhere(sql, { id: failed }, { ...by, wish: "one" });
    await end(again?.id as number);
    assert.deepEqual((await follow()).map(({ job, state }) => [job, state]), [["report", "PENDING"]]);
    const [third] = await createRuns(sql, [{ job_name: "load", args: {}, rerun_of: failed }]);
    await end(third?.job_run_id as number);
    assert.deepEqual(await follow(), [], "its follower has run");
    assert.equal((await group(failed)).length, 5);
  }));

Deno.test("a repeat with its followers brings them again, and theirs", () =>
  withJobs({ ...CHAIN, mail: { after: ["report"] } }, async ({ sql, enqueue, end, follow }) => {
    const first = await enqueue("load");
    await end(first);
    let mail = 0;
    for (const job of ["report", "mail"]) {
      const [run] = await follow();
      assert.equal(run?.job, job);
      await end(mail = run?.id as number);
    }
    const by = { actor: "me", reason: "", withFollowers: true };
    const again = await retryRun(sql, first, by);
    await assert.rejects(retryRun(sql, mail, by), /with its followers: no job comes after "mail"/);
    await end(again.id);
    for (const job of ["report", "mail"]) {
      const [run] = await follow();
      assert.deepEqual([run?.job, run?.group_id], [job, first]);
      await end(run?.id as number);
    }
    assert.deepEqual(await follow(), []);
  }));

Deno.test("a leader of the past follows nothing and takes no check away", () =>
  withJobs(CHAIN, async ({ sql, term, enqueue, end, follow }) => {
    await end(await enqueue("load"));
    await sql`update leader_term set lease_until = '-infinity'`;
    const newer = await acquire(sql, { worker_id: "other", lease_ms: 60_000, epoch_hint: term.epoch });
    assert(newer);
    assert.deepEqual((await followEnds(sql, term)).runs, []);
    assert.equal((await sql`select from group_check`).length, 1);
    assert.equal((await followEnds(sql, newer)).runs.length, 1);
    assert.deepEqual(await follow(), []);
  }));

Deno.test("two who look at the same ends make one follower", () =>
  withJobs(CHAIN, async ({ sql, term, enqueue, end, group }) => {
    for (let round = 0; round < 20; round++) {
      const id = await enqueue("load");
      await end(id);
      await Promise.all([followEnds(sql, term), followEnds(sql, term)]);
      assert.deepEqual((await group(id)).map(({ job }) => job), ["load", "report"]);
    }
  }));

Deno.test("each slot of a backfill begins a group, and its followers follow; alone it begins none", () =>
  withJobs(CHAIN, async ({ sql, end, follow }) => {
    const [schedule] =
      await sql`insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, timezone, next_slot)
      select id, 'nightly', 'dailyAt', '02:00', 'UTC', '2026-12-01' from job_definition where name = 'load' returning id`;
    const how = { job_name: "load", name: "", skipped: false, parallel: 1, priority: 1, actor: "me", reason: "" };
    const slotsOn = (...days: number[]) =>
      days.map((day) => ({ job_schedule_id: schedule?.id, slot: `2026-11-0${day}T02:00:00Z` }));
    await createBackfill(sql, { ...how, slots: slotsOn(1, 2) });
    await createBackfill(sql, { ...how, slots: slotsOn(3), alone: true });
    const runs = await sql<
      { id: number; group_id: number | null }[]
    >`select id, group_id from job_run order by scheduled_for`;
    assert.deepEqual(runs.map(({ id, group_id }) => group_id === id), [true, true, false]);
    for (const { id } of runs) await end(id);
    assert.deepEqual(
      (await follow()).map(({ job, group_id }) => [job, group_id]),
      runs.slice(0, 2).map(({ id }) => ["report", id]),
    );
  }));
