/** When nodes are checked, what checks find, and what is written down of it. */
import assert from "node:assert/strict";
import type { CheckNodeResponse } from "../../../src/rpc/messages.ts";
import { followPace, judge } from "../../../src/leader/node_checks.ts";
import type { LeaderContext } from "../../../src/leader/leader_context.ts";
import { perform } from "../../../src/actions/action.ts";
import { awaitCheck, checkNode } from "../../../src/actions/node_actions.ts";
import { english } from "../../../src/locale/english.ts";
import { CheckUp } from "../../../src/worker/node_probe.ts";
import {
  changeNode,
  type CheckResult,
  dueChecks,
  isAnswered,
  listNodes,
  noteCheckPart,
  readCheckParts,
  recordCheck,
  removeNode,
  requestCheck,
} from "../../../src/nodes/node_health.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { buryWorkers, registerWorker, retireWorker } from "../../../src/nodes/workers.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";
import { waitFor } from "../../support/waiting.ts";
import { withStores } from "../../support/stores.ts";

const PACE = { check_seconds: 300, retry_seconds: 60, retry_count: 3, recheck_seconds: 30 };
const FINE: CheckResult = { worker_id: "w1", problem: null, parts: [] };
const BROKEN: CheckResult = { worker_id: "w1", problem: "script license: none is free", parts: [] };
const NOBODY: CheckResult = { worker_id: null, problem: "connection: no worker of it is alive", parts: [] };

async function register(sql: Sql, worker_id: string, node_id = "gpu-1"): Promise<void> {
  await registerWorker(sql, {
    worker_id,
    node_id,
    pid: 1,
    process_started: "1",
    host: "here",
    grpc_host: "127.0.0.1",
    grpc_port: 1,
    tls_fingerprint: "",
    slots: 1,
    version: "",
  }, 60_000);
}

/** Writes a result for the node that is due, and gives after how many seconds it is due again. */
async function conclude(sql: Sql, term: Term, result: CheckResult): Promise<number> {
  const status = result.problem ? "unavailable" : "available";
  const [node] = await dueChecks(sql);
  assert(node, "no node is due");
  await recordCheck(sql, term, { node_id: node.node_id, due: node.due, status, result }, PACE);
  const [row] = await sql<{ seconds: number }[]>`
    select (extract(epoch from next_check_at) - extract(epoch from checked_at))::float8 as seconds from node where node_id = ${node.node_id}`;
  await sql`update node set next_check_at = clock_timestamp() where next_check_at < 'infinity'`;
  return Math.round(row?.seconds ?? NaN);
}

const BY = { actor: "somebody", reason: "a test" };

Deno.test("a new node is unavailable, due at once, and available when its first check has passed", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await register(sql, "w1");
    const [fresh] = await listNodes(sql);
    assert.deepEqual([fresh?.status, fresh?.checked_at, fresh?.workers], ["unavailable", null, 1]);
    assert.deepEqual((await dueChecks(sql))[0]?.workers.map((one) => one.worker_id), ["w1"]);
    await conclude(sql, term, FINE);
    assert.equal((await listNodes(sql))[0]?.status, "available");
  });
});

Deno.test("a node whose certificate is being replaced is asked as one that may show either", async () => {
  await withStores(async ({ sql }) => {
    await register(sql, "w1");
    await sql`update worker set tls_fingerprint = 'NEW', tls_former_fingerprint = 'OLD'`;
    const [worker] = (await dueChecks(sql))[0]?.workers ?? [];
    assert.deepEqual([worker?.node_id, worker?.tls_fingerprint, worker?.tls_former_fingerprint], [
      "gpu-1",
      "NEW",
      "OLD",
    ]);
  });
});

Deno.test("a node is checked every 300 s, after a failure every 60 s three times, then every 30 s until it is back", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await register(sql, "w1");
    const seconds: number[] = [];
    for (const result of [FINE, BROKEN, BROKEN, BROKEN, BROKEN, BROKEN, FINE, BROKEN]) {
      seconds.push(await conclude(sql, term, result));
    }
    assert.deepEqual(seconds, [300, 60, 60, 60, 30, 30, 300, 60]);
  });
});

Deno.test("checks that were planned by settings that have changed since come sooner, and none later", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    for (const node_id of ["fine", "ill", "due", "resting", "deserted"]) await register(sql, `w-${node_id}`, node_id);
    await sql`update node set checked_at = clock_timestamp() - interval '100 s', next_check_at = clock_timestamp() + interval '1 day'`;
    await sql`update node set failed_checks = 4 where node_id = 'ill'`;
    await sql`update node set next_check_at = '2026-01-01' where node_id = 'due'`;
    await sql`update node set is_active = false where node_id = 'resting'`;
    await sql`update node set next_check_at = 'infinity' where node_id = 'deserted'`;
    const planned = async () => {
      const rows = await sql<{ node_id: string; seconds: number }[]>`
        select node_id, extract(epoch from next_check_at - checked_at)::float8 as seconds from node
         where next_check_at between '2026-01-02' and '2100-01-01' order by node_id`;
      return rows.map(({ node_id, seconds }) => [node_id, seconds]);
    };
    const settings = { ...DEFAULT_SETTINGS, node_check_seconds: 60_000, node_recheck_seconds: 50_000 };
    let rings = 0;
    const me = { sql, term, settings, wakeup: { signal: () => rings++ } } as unknown as LeaderContext;
    await followPace(me);
    assert.deepEqual([await planned(), rings], [[["fine", 60_000], ["ill", 50_000]], 1]);
    await followPace({ ...me, settings: { ...settings, node_check_seconds: 80_000 } });
    assert.deepEqual([await planned(), rings], [[["fine", 60_000], ["ill", 50_000]], 1]);
    assert.deepEqual(await dueChecks(sql).then((due) => due.map((one) => one.node_id)), ["due"]);
  });
});

Deno.test("a check that was wished for while another is under way is made all the same", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await register(sql, "w1");
    const [node] = await dueChecks(sql);
    assert(node);
    const wish = await requestCheck(sql, "gpu-1", BY);
    assert(wish);
    await recordCheck(sql, term, { ...node, status: "available", result: FINE }, PACE);
    assert.equal((await listNodes(sql))[0]?.status, "available");
    const [again] = await dueChecks(sql);
    assert(again);
    assert.equal(await isAnswered(sql, "gpu-1", wish), false);
    await recordCheck(sql, term, { ...again, status: "available", result: FINE }, PACE);
    assert.equal(await isAnswered(sql, "gpu-1", wish), true);
  });
});

Deno.test("a node whose last worker goes is unavailable until one comes, and is not asked in vain meanwhile", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await register(sql, "w1");
    await conclude(sql, term, FINE);
    await retireWorker(sql, "w1");
    const [node] = await dueChecks(sql);
    assert.deepEqual(node?.workers, []);
    await register(sql, "w2");
    const late = await recordCheck(sql, term, { ...node!, status: "unavailable", result: NOBODY }, PACE);
    assert.equal(late, undefined, "a worker came meanwhile");
    assert.equal((await listNodes(sql))[0]?.status, "available");

    await retireWorker(sql, "w2");
    await conclude(sql, term, NOBODY);
    assert.equal((await listNodes(sql))[0]?.status, "unavailable");
    assert.equal((await dueChecks(sql)).length, 0);
    await register(sql, "w3");
    assert.equal((await dueChecks(sql)).length, 1);
  });
});

Deno.test("of a node whose worker could not renew its lease, and is not dead, nothing is concluded until it is one or the other", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await register(sql, "w1");
    await conclude(sql, term, FINE);
    await sql`update worker set lease_until = clock_timestamp() - interval '1 second'`; // Postgres was away for that long
    const [node] = await dueChecks(sql);
    assert.deepEqual(node?.workers, []);
    const nobody = { ...node!, status: "unavailable" as const, result: NOBODY };
    assert.equal(await recordCheck(sql, term, nobody, PACE), undefined);
    assert.equal((await listNodes(sql))[0]?.status, "available");

    await sql`update worker set lease_until = clock_timestamp() + interval '1 minute'`; // as when it renews: no check comes of that
    assert.deepEqual((await dueChecks(sql))[0]?.workers.map((one) => one.worker_id), ["w1"]);

    await sql`update worker set lease_until = clock_timestamp() - interval '1 second'`;
    assert.deepEqual(await buryWorkers(sql, term), ["w1"]);
    await conclude(sql, term, NOBODY);
    assert.equal((await listNodes(sql))[0]?.status, "unavailable");
    assert.equal((await dueChecks(sql)).length, 0);
  });
});

Deno.test("a node is as full as the leader takes it for: what a worker whose lease is over has left behind counts, and the worker does not", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql);
    await aWorker(sql, { node_id: "gpu-1", worker_id: "alive" });
    for (const gone of [{ lease_ms: -1_000 }, { state: "DEAD" }]) {
      const { worker_id: assigned_worker_id } = await aWorker(sql, { node_id: "gpu-1", ...gone });
      await aRun(sql, { job_definition_id, state: "RUNNING", assigned_worker_id });
    }
    await sql`update node set status = 'available', max_concurrent = 2`;
    const [node] = await listNodes(sql);
    assert.deepEqual([node?.workers, node?.load, node?.status, node?.problem], [1, 2, "busy", "full: 2 of 2"]);
  });
});

Deno.test("a node is removed with its dead workers, and a worker that comes in that moment is not lost", async () => {
  await withStores(async ({ sql }) => {
    assert.equal(await removeNode(sql, "gpu-1", BY), "unknown");
    for (let n = 1; n <= 20; n++) {
      const [came, answer] = [register(sql, `w${n}`), removeNode(sql, "gpu-1", BY)];
      await came;
      assert(["removed", "unknown"].includes(await answer as string) || "lives" in (await answer as object));
      const [row] = await sql`select state from worker where worker_id = ${`w${n}`}`;
      assert.equal(row?.state, "ACTIVE");
      await retireWorker(sql, `w${n}`);
    }
    assert.equal(await removeNode(sql, "gpu-1", BY), "removed");
    assert.equal((await sql`select from worker`).length + (await listNodes(sql)).length, 0);
  });
});

Deno.test("a node in maintenance is checked when somebody asks, and after it nobody gets work there before a check has passed", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const set = (maintenance: boolean) => changeNode(sql, "gpu-1", { maintenance }, BY);
    const node = async () => (await listNodes(sql))[0]!;
    await register(sql, "w1");
    const [under_way] = await dueChecks(sql);
    await conclude(sql, term, FINE);
    await set(false);
    assert.equal((await node()).status, "available", "it was in none");
    await set(true);
    await recordCheck(sql, term, { ...under_way!, status: "available", result: FINE }, PACE);
    await retireWorker(sql, "w1");
    await register(sql, "w2");
    assert.deepEqual([(await dueChecks(sql)).length, (await node()).checking], [0, false]);

    const wish = await requestCheck(sql, "gpu-1", BY);
    assert.deepEqual([(await node()).checking, await isAnswered(sql, "gpu-1", wish!)], [true, false]);
    const [asked] = await dueChecks(sql);
    await recordCheck(sql, term, { ...asked!, status: "available", result: FINE }, PACE);
    assert.deepEqual([(await dueChecks(sql)).length, await isAnswered(sql, "gpu-1", wish!)], [0, true]);
    assert.deepEqual([(await node()).status, (await node()).is_active], ["available", false]);

    await set(false);
    const { status, problem, checked_at, checking } = await node();
    assert.deepEqual([status, problem, checked_at, checking], ["unavailable", null, null, true]);
    await conclude(sql, term, FINE);
    assert.equal((await node()).status, "available");
  });
});

Deno.test("a leader whose term is over writes no result of a check", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await register(sql, "w1");
    const [node] = await dueChecks(sql);
    assert(node);
    await sql`update leader_term set epoch = epoch + 1`;
    assert.equal(await recordCheck(sql, term, { ...node, status: "available", result: FINE }, PACE), undefined);
    assert.equal((await listNodes(sql))[0]?.status, "unavailable");
  });
});

Deno.test("what is measured is judged by the settings: load makes a node busy, all else unavailable", () => {
  const measured: CheckNodeResponse = {
    worker_id: "w1",
    node_id: "gpu-1",
    load_percent: 150,
    cores: 8,
    disk_free_mb: 99,
    memory_free_mb: 1_000,
    bodies: 2,
    scripts: [{ name: "load", ok: false, message: "no license is free", ms: 5 }],
    lack: "",
  };
  const settings = { ...DEFAULT_SETTINGS, node_max_load_percent: 100, node_min_free_disk_mb: 0 };
  const told = (more: Partial<CheckNodeResponse>, by: Partial<typeof settings> = {}) => {
    const { status, result } = judge({ ...measured, ...more }, { settings: { ...settings, ...by }, ms: 1 });
    return [status, english(result.problem)];
  };
  assert.deepEqual(told({ scripts: [], load_percent: 100 }), ["available", null]);
  assert.deepEqual(told({ scripts: [] }), ["busy", "load: 150 % per core of 8, at most 100 % is allowed"]);
  assert.deepEqual(told({ scripts: [] }, { node_max_load_percent: 0 }), ["available", null]);
  assert.deepEqual(told({}), ["unavailable", "script load: no license is free"]);
  assert.deepEqual(told({}, { node_max_load_percent: 0 }), ["unavailable", "script load: no license is free"]);
  assert.deepEqual(told({ scripts: [], load_percent: 0, lack: "No space left on device" }), [
    "unavailable",
    "bodies: 2, none can begin: No space left on device",
  ]);
  const disk = ["unavailable", "disk: 99 MB free, at least 100 MB must be free"];
  assert.deepEqual(told({ scripts: [], load_percent: 0 }, { node_min_free_disk_mb: 100 }), disk);
});

Deno.test("whoever has a node tested hears of each part as it comes, and the next test begins without them", () =>
  withStores(async ({ sql }) => {
    const { worker_id } = await aWorker(sql, { node_id: "gpu-1" });
    await sql`update leader_term set worker_id = ${worker_id}, lease_until = now() + interval '1 minute'`;
    const came: string[] = [];
    const caller = { sql, ...BY, allows: () => true, unreasoned: "none was given" };
    const { due, leader } = await perform(checkNode, caller, { node_id: "gpu-1" });
    assert.equal(leader, worker_id);
    assert.deepEqual([...await sql`select action, actor, reason from admin_action_log`], [{
      action: "node.test",
      ...BY,
    }]);
    const answer = awaitCheck(sql, "gpu-1", { due, came: ({ name }) => came.push(name) });
    for (const [place, name] of ["connection", "script license"].entries()) {
      await noteCheckPart(sql, "gpu-1", { name, ok: true, value: "", message: "", ms: 1 });
      await waitFor(name, () => Promise.resolve(came.length === place + 1 || undefined));
    }
    await sql`update node set next_check_at = now() + interval '1 hour'`;
    await answer;
    assert.deepEqual(came, ["connection", "script license"]);
    await requestCheck(sql, "gpu-1", BY);
    assert.deepEqual(await readCheckParts(sql, "gpu-1"), []);
  }));

Deno.test("a worker notes each script when it has ended, while others go on", async () => {
  const dir = Deno.makeTempDirSync();
  try {
    for (const [name, line] of [["quick", "echo yes"], ["slow", `while [ ! -f ${dir}/go ]; do sleep 0.05; done`]]) {
      Deno.writeTextFileSync(`${dir}/${name}`, `#!/bin/sh\n${line}\n`, { mode: 0o755 });
    }
    const noted: string[] = [];
    const note = ({ name, message }: { name: string; message: string }) => {
      noted.push(`${name} ${message}`.trim());
      if (name === "script quick") Deno.writeTextFileSync(`${dir}/go`, "");
      return Promise.resolve();
    };
    const { scripts } = await new CheckUp({ state_dir: dir, checks_dir: dir }).take(30_000, note);
    assert.deepEqual(scripts.map(({ ok }) => ok), [true, true]);
    assert.deepEqual(noted, ["connection", "disk", "load", "script quick yes", "script slow"]);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});
