/**
 * A worker process dies on a node where another lives: its runs go on elsewhere at once, whatever is left of its lease.
 * Leases here are five minutes long, so only a sibling's certificate can explain what happens within a test.
 */
import assert from "node:assert/strict";
import { FaultyLink } from "../../../src/ops/faulty_link.ts";
import { fileNameOf, identityIn, journalsFolder } from "../../../src/worker/results/result_journal.ts";
import { BODY_MARK, GUARD_MARK } from "../../../src/sandbox/orphan_processes.ts";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import type { Settings } from "../../../src/settings/settings.ts";
import { CALM, type Cluster, withProcesses, type WorkerProcess } from "../../support/cluster.ts";
import { HOST } from "../../support/estates.ts";
import { processesWith } from "../../support/processes.ts";
import { waitFor } from "../../support/waiting.ts";

const NODE = "node-2";
/** Whoever leads, and however busy the machine is: runs are the siblings', and start where they were first sent. */
const SETTINGS: Partial<Settings> = {
  ...CALM,
  worker_lease_seconds: 300,
  worker_renew_seconds: 0.5,
  worker_margin_seconds: 4,
  max_jobs_per_worker: 1,
  leader_runs_jobs: "always",
  reassign_after_seconds: 60,
};

/** Says on the first line of its effects that it runs, and then never ends by itself in its first attempt. */
const stubborn = (effects_dir: string, permissions: string, then: string) => `
  import { defineJob } from "dandori";
  const folder = ${JSON.stringify(effects_dir)};
  export default defineJob({
    node: "${NODE}",
    permissions: { write: [folder], ${permissions} },
    async run({ attempt, jobRunId }) {
      await Deno.writeTextFile(folder + "/" + jobRunId, attempt + "\\n", { append: true });
      if (attempt > 1) return { attempt };
      ${then}
    },
  });`;

const SPINS = "for (;;);";
/** One in the body's group that ignores TERM, one that has moved into a session of its own. */
const BREEDS = `
  const script = "trap '' TERM; while :; do sleep 1; done";
  new Deno.Command("sh", { args: ["-c", script] }).spawn();
  new Deno.Command("setsid", { args: ["sh", "-c", script] }).spawn();
  await new Promise((resolve) => setTimeout(resolve, 600_000));`;

/** Ends when the test says so. */
const gated = (effects_dir: string) => `
  import { defineJob } from "dandori";
  const folder = ${JSON.stringify(effects_dir)};
  export default defineJob({
    node: "${NODE}",
    permissions: { read: [folder], write: [folder] },
    async run({ attempt, jobRunId }) {
      await Deno.writeTextFile(folder + "/" + jobRunId, attempt + "\\n", { append: true });
      while (!await Deno.stat(folder + "/go").catch(() => false)) await new Promise((resolve) => setTimeout(resolve, 20));
      return { attempt };
    },
  });`;

/** The leader alone on the first node, `workers` on the second. */
function withSiblings(
  workers: number,
  test: (cluster: Cluster, siblings: WorkerProcess[]) => Promise<void>,
): Promise<void> {
  return withProcesses(1, async (cluster) => {
    await cluster.hears("leader.elected");
    await cluster.sync({
      "spins.ts": stubborn(cluster.effects_dir, "", SPINS),
      "gated.ts": gated(cluster.effects_dir),
      "breeds.ts": stubborn(cluster.effects_dir, 'unsafe: { run: ["sh", "setsid"] }', BREEDS),
    });
    const siblings: WorkerProcess[] = [];
    for (let n = 0; n < workers; n++) siblings.push(await cluster.startWorker({ node_id: NODE }));
    await test(cluster, siblings);
  }, { settings: SETTINGS });
}

/** Runs the job until its body is at work, and gives its worker. */
async function atWork(cluster: Cluster, job: string): Promise<{ id: number; worker: WorkerProcess }> {
  const id = await cluster.enqueue(job);
  const { worker_id } = await cluster.hears("run.started", { job_run_id: id });
  await waitFor("the body's first effect", () => Promise.resolve(cluster.effects(id) === 1 || undefined));
  const worker = cluster.workers.find((one) => one.worker_id === worker_id);
  assert(worker, `no process of ${worker_id}`);
  return { id, worker };
}

const remainsOf = (worker: WorkerProcess) => processesWith(`${BODY_MARK}=${worker.worker_id}`);
const guardsOf = (worker: WorkerProcess) => processesWith(`${GUARD_MARK}=${worker.worker_id}`);

/** Both at once: the worker is frozen first, so that it cannot put another guard in the place of this one. */
async function killWithGuard(worker: WorkerProcess): Promise<void> {
  worker.kill("SIGSTOP");
  await waitFor("a guard", () => Promise.resolve(guardsOf(worker)[0]));
  for (const { pid } of guardsOf(worker)) Deno.kill(pid, "SIGKILL");
  worker.kill("SIGKILL");
  await worker.ended;
}

async function stateOf(cluster: Cluster, worker: WorkerProcess) {
  const [row] = await cluster.sql`
    select state, lease_until > clock_timestamp() as leased from worker where worker_id = ${worker.worker_id}`;
  return row;
}

Deno.test("kill -9 of a worker with a sibling: its spinning body is gone, and its run goes on without the lease", async () => {
  await withSiblings(2, async (cluster) => {
    const { id, worker } = await atWork(cluster, "spins");
    worker.kill("SIGKILL");
    const again = await cluster.hears("run.started", { job_run_id: id, attempt: 2 });
    assert.deepEqual(remainsOf(worker), []);
    assert.notEqual(again.worker_id, worker.worker_id);
    const { by } = await cluster.hears("worker.certified", { worker_id: worker.worker_id });
    assert.equal(by, again.worker_id);
    assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    const [lost] = await readAttempts(cluster.sql, id);
    assert.deepEqual([lost?.attempt, lost?.outcome, lost?.worker_id], [1, "LOST", worker.worker_id]);
    const view = await readRun(cluster.sql, id);
    assert.deepEqual([view?.failures, view?.interruptions], [0, 1]);
    assert.deepEqual(await stateOf(cluster, worker), { state: "DEAD", leased: false });
  });
});

for (const job of ["spins", "breeds"]) {
  Deno.test(`kill -9 of a worker and its guard: what it left is killed before its run goes on (${job})`, async () => {
    await withSiblings(2, async (cluster) => {
      const { id, worker } = await atWork(cluster, job);
      if (job === "breeds") {
        await waitFor("two grandchildren", () => Promise.resolve(remainsOf(worker).length >= 4 || undefined));
      }
      await killWithGuard(worker);
      const again = await cluster.hears("run.started", { job_run_id: id, attempt: 2 });
      assert.deepEqual(remainsOf(worker), []);
      const killed = await cluster.hears("worker.orphans_killed", { worker_id: worker.worker_id });
      assert(killed.groups >= 1 && killed.place < again.place);
      assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
      assert.equal(cluster.effects(id), 2);
    });
  });
}

/** Its row and the name of its journal say so, as of a worker of another container that shares the state folder. */
async function moveToAnotherHost(cluster: Cluster, { worker_id, node_id }: WorkerProcess): Promise<void> {
  const folder = journalsFolder(cluster.stateOf(node_id));
  await cluster.sql`update worker set host = ${HOST} where worker_id = ${worker_id}`;
  const names = [...Deno.readDirSync(folder)].map(({ name }) => name);
  const mine = names.map(identityIn).find((one) => one?.worker_id === worker_id);
  assert(mine, names.join(" "));
  Deno.renameSync(`${folder}/${fileNameOf(mine)}`, `${folder}/${fileNameOf({ ...mine, host: HOST })}`);
}

Deno.test("a worker of another host, and one that is frozen, are not certified by siblings that see their pids", async () => {
  await withSiblings(3, async (cluster) => {
    const elsewhere = await atWork(cluster, "spins");
    const frozen = await atWork(cluster, "spins");
    await moveToAnotherHost(cluster, elsewhere.worker);
    frozen.worker.kill("SIGSTOP");
    elsewhere.worker.kill("SIGKILL");
    await elsewhere.worker.ended;
    await waitFor("its end", () => Promise.resolve(remainsOf(elsewhere.worker).length === 0 || undefined));
    // One that dies after them is certified by the last that lives: so it has looked at those two as well.
    const late = await atWork(cluster, "spins");
    await cluster.startWorker({ node_id: NODE });
    late.worker.kill("SIGKILL");
    await cluster.hears("worker.certified", { worker_id: late.worker.worker_id });
    await cluster.ends(late.id);
    for (const { worker, id } of [elsewhere, frozen]) {
      const { state, leased } = await stateOf(cluster, worker) ?? {};
      assert(leased && /^(ACTIVE|DETACHED)$/.test(state), `${state}`); // who is not heard for long is detached, which certifies nothing
      assert.equal((await readRun(cluster.sql, id))?.state, "RUNNING");
    }
  });
});

Deno.test("what ended while Postgres was away is recorded by a sibling when its worker is killed, and runs once", async () => {
  await withSiblings(0, async (cluster) => {
    const url = new URL(cluster.stores.database_url);
    const link = await FaultyLink.to(Number(url.port), url.hostname);
    url.host = `127.0.0.1:${link.port}`;
    try {
      const worker = await cluster.startWorker({ node_id: NODE, env: { DATABASE_URL: url.href } });
      const { id } = await atWork(cluster, "gated");
      link.stall();
      Deno.writeTextFileSync(`${cluster.effects_dir}/go`, "");
      await waitFor("its outcome in the file", () => Promise.resolve(cluster.spooled(worker) > 0 || undefined));
      assert.equal((await readRun(cluster.sql, id))?.state, "RUNNING");
      await cluster.startWorker({ node_id: NODE });
      worker.kill("SIGKILL");
      const run = await cluster.ends(id);
      assert.deepEqual([run.state, run.attempt, run.result], ["SUCCEEDED", 1, { attempt: 1 }]);
      await cluster.hears("outcomes.replayed", { worker_id: worker.worker_id, recorded: 1 });
      await cluster.hears("worker.certified", { worker_id: worker.worker_id });
      assert.equal(cluster.effects(id), 1);
      await waitFor("the file to go", () => Promise.resolve(cluster.spooled(worker) === -1 || undefined));
    } finally {
      await link.close();
    }
  });
});

Deno.test("kill -9 of all workers of a node: the next one that starts there records and certifies", async () => {
  await withSiblings(0, async (cluster) => {
    const url = new URL(cluster.stores.database_url);
    const link = await FaultyLink.to(Number(url.port), url.hostname);
    url.host = `127.0.0.1:${link.port}`;
    try {
      const first = await cluster.startWorker({ node_id: NODE, env: { DATABASE_URL: url.href } });
      const { id: done } = await atWork(cluster, "gated");
      const second = await cluster.startWorker({ node_id: NODE });
      const lost = await atWork(cluster, "spins");
      assert.equal(lost.worker, second);
      link.stall();
      Deno.writeTextFileSync(`${cluster.effects_dir}/go`, "");
      await waitFor("its outcome in the file", () => Promise.resolve(cluster.spooled(first) > 0 || undefined));
      for (const worker of [first, second]) worker.kill("SIGSTOP"); // neither sees the other die
      for (const worker of [first, second]) worker.kill("SIGKILL");
      await Promise.all([first.ended, second.ended]);
      const recoverer = await cluster.startWorker({ node_id: NODE });
      const [run, again] = [await cluster.ends(done), await cluster.ends(lost.id)];
      assert.deepEqual([run.state, run.attempt, cluster.effects(done)], ["SUCCEEDED", 1, 1]);
      assert.deepEqual([again.state, again.attempt], ["SUCCEEDED", 2]);
      for (const { worker_id } of [first, second]) {
        assert.equal((await cluster.hears("worker.certified", { worker_id })).by, recoverer.worker_id);
      }
    } finally {
      await link.close();
    }
  });
});
