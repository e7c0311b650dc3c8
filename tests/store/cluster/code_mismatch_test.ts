/** Workers that have other job files than were synced: what they say, what the leader makes of it, and what people are told. */
import assert from "node:assert/strict";
import { Digests } from "../../../src/sync/module_graph.ts";
import { CodeReport } from "../../../src/worker/code_report.ts";
import { judgeAlerts, listAlerts, watchLeader } from "../../../src/alerts/alerts.ts";
import { sayWhy } from "../../../src/dispatch/dispatch_queues.ts";
import { readLacking, refuseCode, reportCode } from "../../../src/runs/code_mismatch.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { listWorkers } from "../../../src/nodes/workers.ts";
import { readAttempts } from "../../../src/runs/run_view.ts";
import { readRun } from "../../../src/runs/run_view.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { LIMITS } from "../../support/alert_limits.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { OTHER_CODE, type Reply, withLeader } from "../../support/leader_scene.ts";
import { withStores } from "../../support/stores.ts";
import { english } from "../../../src/locale/english.ts";
import { versionsOf, whereOf } from "../../../src/runs/wait_reason.ts";

const NEW = "06edc18aaaaa";
const MISSING = { found: null, problem: "hello.ts is missing" };

/** What a worker says that has that instead of hello as it is synced. */
async function says(sql: Sql, worker_id: string, job_definition_id: number, found: string | null): Promise<void> {
  const other = found === null ? MISSING : { found, problem: null };
  await reportCode(sql, worker_id, [{ job_definition_id, digest: NEW, ...other }]);
}

/** As if all that was said had been said so long ago. */
async function later(sql: Sql, seconds: number): Promise<void> {
  await sql`update code_mismatch set since = since - ${seconds} * interval '1 s'`;
}

Deno.test("a refusal for other code is no attempt: the run is as it was before it was given to that worker", () =>
  withStores(async ({ sql }) => {
    const { worker_id } = await aWorker(sql);
    const { id: job_definition_id, digest } = await aDefinition(sql);
    const given = { job_definition_id, state: "ASSIGNED", assigned_worker_id: worker_id };
    const refuse = (run: { id: number; attempt: number }, token = "t") =>
      refuseCode(sql, worker_id, [{
        job_run_id: run.id,
        attempt: run.attempt,
        token,
        digest,
        found: "x",
        problem: null,
      }]);
    for (
      const [before, attempt, outcome] of [
        ["PENDING", 1],
        ["SUSPENDED", 2, "SUSPENDED"],
        ["RETRYING", 3, "FAILED"],
        ["ORPHANED", 2, "LOST"],
      ] as const
    ) {
      for (const state of ["ASSIGNED", "RUNNING"]) {
        const suspensions = Number(outcome === "SUSPENDED");
        const run = await aRun(sql, {
          ...given,
          state,
          attempt,
          suspensions,
          ...state === "RUNNING" ? { start_token: "t" } : {},
        });
        if (outcome) {
          await sql`insert into job_run_attempt (job_run_id, attempt, outcome) values (${run.id}, ${
            attempt - 1
          }, ${outcome})`;
        }
        assert.equal((await refuse(run)).length, 1);
        const [row] = await sql`
          select state, attempt, suspensions, held, assigned_worker_id, started_at, start_token, interruptions, failures from job_run where id = ${run.id}`;
        assert.deepEqual({ ...row }, {
          ...{
            state: before,
            attempt: Math.max(1, attempt - 1),
            suspensions: 0,
            held: false,
            assigned_worker_id: null,
          },
          ...{ started_at: null, start_token: null, interruptions: 0, failures: 0 },
        });
        assert.equal((await readAttempts(sql, run.id)).length, outcome ? 1 : 0);
      }
    }
    const soon = await aRun(sql, { ...given, due_at: new Date(Date.now() + 60_000) });
    await refuse(soon);
    const [asleep] = await sql`select state, held, wakes_at = due_at as sleeps from job_run where id = ${soon.id}`;
    assert.deepEqual({ ...asleep }, { state: "PENDING", held: true, sleeps: true });
  }));

Deno.test("only what is that worker's, that attempt and that start is undone by a refusal", () =>
  withStores(async ({ sql }) => {
    const { worker_id } = await aWorker(sql);
    const { id: job_definition_id, digest } = await aDefinition(sql);
    const mine = { job_definition_id, assigned_worker_id: worker_id };
    const others = [
      await aRun(sql, { ...mine, state: "ASSIGNED", assigned_worker_id: "w-of-another" }),
      await aRun(sql, { ...mine, state: "ASSIGNED", attempt: 2 }),
      await aRun(sql, { ...mine, state: "RUNNING", start_token: "of another start" }),
      await aRun(sql, { ...mine, state: "SUCCEEDED" }),
    ];
    const refusals = others.map(({ id }) => {
      return { job_run_id: id, attempt: 1, token: "t", digest, found: "x", problem: null };
    });
    assert.equal((await refuseCode(sql, worker_id, refusals)).length, 0);
    const rows = await sql<{ version: number }[]>`select version from job_run`;
    assert.deepEqual(rows.map(({ version }) => version), [0, 0, 0, 0]);
  }));

Deno.test("who waits behind the serial key of a refused run may go first, if it comes first by then", () =>
  withStores(async ({ sql }) => {
    const { worker_id } = await aWorker(sql);
    const { id: job_definition_id, digest } = await aDefinition(sql);
    const keyed = { job_definition_id, serial_key: "k" };
    const run = await aRun(sql, { ...keyed, state: "ASSIGNED", assigned_worker_id: worker_id });
    await refuseCode(sql, worker_id, [
      { job_run_id: run.id, attempt: 1, token: "t", digest, found: "x", problem: null },
    ]);
    assert.deepEqual((await sql`select line from key_recheck`).map(({ line }) => line), ["serial:k"]);
  }));

Deno.test("a worker that refused code gets none of it until it says otherwise; the others do, and nothing was an attempt", async () => {
  let lagging = "";
  const reply: Reply = (_order, worker_id) => worker_id === lagging ? "OTHER_CODE" : "ACCEPTED";
  await withLeader(reply, async ({ sql, me, orders, round }) => {
    lagging = (await aWorker(sql, { worker_id: "a-lags", slots: 50 })).worker_id;
    const { worker_id: other } = await aWorker(sql, { worker_id: "b-fresh", slots: 50 });
    const { id: job_definition_id } = await aDefinition(sql, { digest: NEW });
    const first = await aRun(sql, { job_definition_id });
    await round();
    await round();
    for (let n = 0; n < 3; n++) {
      await aRun(sql, { job_definition_id });
      await round();
    }
    assert.deepEqual(orders.map(({ worker_id }) => worker_id), [lagging, other, other, other, other]);
    const run = await readRun(sql, first.id);
    assert.deepEqual([run?.state, run?.attempt, (await readAttempts(sql, first.id)).length], ["ASSIGNED", 1, 0]);

    await reportCode(sql, lagging, []);
    me.calls.hear("code_mismatch");
    lagging = "";
    await aRun(sql, { job_definition_id });
    await round();
    assert.equal(orders.at(-1)?.worker_id, "a-lags", "it has said otherwise, and carries less than the other");
  });
});

Deno.test("where nobody has the code nobody is asked again, and the run says who has what", async () => {
  const reply: Reply = () => "ACCEPTED";
  await withLeader(reply, async ({ sql, orders, round }) => {
    const { id } = await aDefinition(sql, { name: "hello", digest: NEW });
    for (const [worker_id, found] of [["w1", OTHER_CODE], ["w2", OTHER_CODE], ["w3", null]] as const) {
      await aWorker(sql, { worker_id });
      await says(sql, worker_id, id, found);
    }
    const run = await aRun(sql, { job_definition_id: id });
    for (let n = 0; n < 3; n++) await round();
    assert.deepEqual(orders, []);
    assert.match(
      (await readRun(sql, run.id))?.wait_reason ?? "",
      /^no worker has version 06edc18 of hello \(2 have e17994f, 1 has none\); /,
    );
  });
});

Deno.test("what a worker said is about one digest and one life: another sync or its death ends it", () =>
  withStores(async ({ sql }) => {
    const { worker_id } = await aWorker(sql);
    const { id } = await aDefinition(sql, { name: "hello", digest: NEW });
    await says(sql, worker_id, id, OTHER_CODE);
    assert.deepEqual((await readLacking(sql)).map((row) => ({ ...row })), [{
      worker_id,
      digest: NEW,
      found: OTHER_CODE,
    }]);
    assert.deepEqual((await listWorkers(sql)).map(({ other_jobs, other_code }) => [other_jobs, other_code]), [
      [1, [{ job_name: "hello", digest: NEW, found: OTHER_CODE, problem: null }]],
    ]);
    await sql`update job_definition set digest = 'newer'`;
    assert.equal((await readLacking(sql)).length, 0);
    assert.equal((await listWorkers(sql))[0]?.other_jobs, 0);
    await sql`update job_definition set digest = ${NEW}`;
    await sql`update worker set state = 'DEAD'`;
    assert.equal((await readLacking(sql)).length, 0);
    const { worker_id: next } = await aWorker(sql);
    assert.equal((await listWorkers(sql))[0]?.other_jobs, null, "nothing is known of it yet");
    await reportCode(sql, next, []);
    assert.equal((await sql`select from code_mismatch`).length, 0);
    assert.equal((await listWorkers(sql))[0]?.other_jobs, 0);
  }));

async function changes(sql: Sql, term: Term, limits = LIMITS): Promise<string[]> {
  return (await judgeAlerts(sql, term, limits)).map(({ kind, subject, what }) => `${what} ${kind} ${subject}`);
}

Deno.test("one alert for each job and version that nobody has, open until somebody does, whoever comes and goes", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    for (const worker_id of ["w1", "w2"]) await aWorker(sql, { worker_id });
    const { id } = await aDefinition(sql, { name: "hello", digest: NEW });
    await aRun(sql, { job_definition_id: id, due_at: new Date(Date.UTC(2026, 0, 1)) });
    await says(sql, "w1", id, OTHER_CODE);
    await says(sql, "w2", id, OTHER_CODE);
    assert.deepEqual(await changes(sql, term), [], "a deploy takes a moment, and what it waits for is not overdue");
    await watchLeader(sql, { worker_id: "w1", overdue: true }, LIMITS);
    assert.equal((await listAlerts(sql)).length, 0);
    await later(sql, 61);
    assert.deepEqual(await changes(sql, term), ["opened code.missing hello 06edc18"]);
    const [alert] = await listAlerts(sql, { open: true });
    assert.equal(english(alert?.message ?? ""), "no worker has version 06edc18 of hello (2 have e17994f)");
    assert.deepEqual(alert?.detail, { job_name: "hello", digest: NEW });

    await aWorker(sql, { worker_id: "w3" });
    assert.deepEqual(await changes(sql, term), [], "one that came has not looked yet");
    await says(sql, "w3", id, null);
    await sql`update worker set state = 'DRAINING' where worker_id = 'w1'`;
    assert.deepEqual(await changes(sql, term), []);
    await sql`update job_run set state = 'ASSIGNED', assigned_worker_id = 'w2'`;
    assert.deepEqual(await changes(sql, term), [], "one is on its way to be refused");
    await sql`update job_run set state = 'PENDING', assigned_worker_id = null`;

    await reportCode(sql, "w3", []);
    assert.deepEqual((await changes(sql, term)).sort(), [
      "closed code.missing hello 06edc18",
      "opened run.overdue hello",
    ]);
    await sql`update job_definition set digest = 'e17994f0' where id = ${id}`;
    assert.equal((await listAlerts(sql)).filter(({ kind }) => kind === "code.missing").length, 1);
  }));

Deno.test("a job pinned to a node whose workers lack the code opens an alert that names the node, though others have it", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    for (const n of [1, 2]) await aWorker(sql, { worker_id: `w${n}`, node_id: `n${n}` });
    const { id } = await aDefinition(sql, { name: "hello", digest: NEW, node: "n2" });
    const due_at = new Date(Date.UTC(2026, 0, 1));
    await aRun(sql, { job_definition_id: id, node: "n2", due_at });
    await reportCode(sql, "w1", []);
    await says(sql, "w2", id, OTHER_CODE);
    const others = versionsOf([{ digest: OTHER_CODE, workers: 1 }]);
    const what = { job_name: "hello", digest: NEW, version: NEW.slice(0, 7), where: whereOf("n2"), only_leader: false };
    const why = { job_definition_id: id, node: "n2" };
    const lacked = (having: number) =>
      sayWhy(sql, term, [{ ...why, reason: { code: "no_code", params: { ...what, having, others } } }]);
    await lacked(0);
    assert.deepEqual(await changes(sql, term), [], "a deploy takes a moment, and what it waits for is not overdue");
    await sql`update queue_block_reason set since = since - interval '61 s'`;
    assert.deepEqual(await changes(sql, term), ["opened code.missing hello 06edc18 n2"]);
    const [alert] = await listAlerts(sql, { open: true });
    assert.equal(english(alert?.message ?? ""), 'no worker on node "n2" has version 06edc18 of hello (1 has e17994f)');
    assert.deepEqual(alert?.detail, { job_name: "hello", digest: NEW, node: "n2" });
    await lacked(1);
    assert.deepEqual((await changes(sql, term)).sort(), [
      "closed code.missing hello 06edc18 n2",
      "opened run.overdue hello",
    ], "one there has it, and is busy");
  }));

Deno.test("what only a leader has that may run nothing is had by nobody", () =>
  withStores(async ({ sql }) => {
    const term = await aTerm(sql, "w1");
    for (const worker_id of ["w1", "w2"]) await aWorker(sql, { worker_id });
    const { id } = await aDefinition(sql, { name: "hello", digest: NEW });
    await reportCode(sql, "w1", []);
    await says(sql, "w2", id, OTHER_CODE);
    await later(sql, 61);
    assert.deepEqual(await changes(sql, term), []);
    assert.deepEqual(await changes(sql, term, { ...LIMITS, leader_runs: false }), [
      "opened code.missing hello 06edc18",
    ]);
  }));

Deno.test("a worker finds by itself that its files differ, are missing, or are right again, and says so once each", () =>
  withStores(async ({ sql }) => {
    const dir = Deno.makeTempDirSync();
    try {
      const jobs_dir = `${dir}/jobs`;
      Deno.mkdirSync(jobs_dir);
      Deno.writeTextFileSync(`${dir}/deno.json`, "{}");
      const write = (text: string) => Deno.writeTextFileSync(`${jobs_dir}/hello.ts`, `export default ${text};\n`);
      const digests = new Digests({ jobs_dir, project_dir: dir });
      const digestNow = async () => {
        const mine = await new Digests({ jobs_dir, project_dir: dir }).of("hello.ts");
        assert("digest" in mine, JSON.stringify(mine));
        return mine.digest;
      };
      write("1");
      const { worker_id } = await aWorker(sql);
      await aDefinition(sql, { name: "hello", digest: await digestNow() });
      await aDefinition(sql, { name: "gone" });
      await aDefinition(sql, { name: "removed", removed_at: new Date(0), enabled: false });
      const report = new CodeReport({ sql, worker_id, digests });
      const found = async () => {
        await report.look();
        const [worker] = await listWorkers(sql);
        return worker?.other_code.map(({ job_name, found, problem }) => [job_name, found, problem]);
      };
      const gone = ["gone", null, "gone.ts is missing"];
      assert.deepEqual(await found(), [gone]);
      write("2");
      assert.deepEqual(await found(), [gone, ["hello", await digestNow(), null]]);
      const [{ xmin: before }] = await sql`select xmin from worker` as [{ xmin: number }];
      await report.look();
      assert.deepEqual(
        await sql`select xmin from worker`.then(([row]) => row?.xmin),
        before,
        "nothing new is not said",
      );
      write("1");
      assert.deepEqual(await found(), [gone]);
      await sql`update job_definition set removed_at = clock_timestamp(), enabled = false where name = 'gone'`;
      await found();
      assert.equal((await sql`select from code_mismatch`).length, 0, "all is as it should be, and that is said too");
    } finally {
      Deno.removeSync(dir, { recursive: true });
    }
  }));
