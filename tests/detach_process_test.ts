/** Workers are detached, cut off and frozen while they work: bodies go on where somebody says so, and never twice at once. */
import assert from "node:assert/strict";
import { readAttempts, readRun } from "../src/store/run_view.ts";
import { requestDetach } from "../src/store/detach.ts";
import { requestCancel } from "../src/store/requests.ts";
import { cliWith } from "./support/cli.ts";
import { type Cluster, withProcesses, type WorkerProcess } from "./support/cluster.ts";
import { waitFor } from "./support/waiting.ts";
import { cut, withWired } from "./support/wired.ts";

const BY = { actor: "test", reason: "its disk is full" };
/** Bodies may run 4 s without a renewal; the guard of bodies strikes within 3 s more. */
const LEASE = { worker_lease_seconds: 8, worker_renew_seconds: 0.5, worker_margin_seconds: 4 };
const LONGER_THAN_THE_LEASE = { hold_ms: 10_000 };

/** Says every 20 ms that it lives, under its attempt's number: so it shows when two do. */
function tells(folder: string): string {
  return `
    import { defineJob } from "dandori";
    export default defineJob<{ ms: number }>({
      permissions: { write: [${JSON.stringify(folder)}] },
      async run({ args, attempt, jobRunId, signal }) {
        const until = performance.now() + args.ms / attempt ** 2;
        while (performance.now() < until && !signal.aborted) {
          await Deno.writeTextFile(${JSON.stringify(folder)} + "/" + jobRunId, attempt + "\\n", { append: true });
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        return { attempt };
      },
    });`;
}

function told(cluster: Cluster, job_run_id: number): string[] {
  return Deno.readTextFileSync(`${cluster.effects_dir}/${job_run_id}`).trim().split("\n");
}

async function idleWorker(cluster: Cluster): Promise<{ leader: WorkerProcess; worker: WorkerProcess }> {
  const { worker: leader } = await cluster.hears("leader.elected");
  const worker = cluster.workers.find((one) => one !== leader);
  assert(worker);
  return { leader, worker };
}

async function comesBack(cluster: Cluster, worker: WorkerProcess, old_id: string): Promise<string> {
  const lost = await cluster.hears("worker.lost", { worker_id: old_id });
  const ready = await cluster.hears("worker.ready", { node_id: worker.node_id }, { after: lost });
  assert.notEqual(ready.worker_id, old_id);
  const [row] = await cluster.sql`select state from worker where worker_id = ${old_id}`;
  assert.equal(row?.state, "DEAD");
  return ready.worker_id;
}

Deno.test("an operator detaches an idle worker, then the leader: each comes back under a new id, and work goes on", async () => {
  await withProcesses(2, async (cluster) => {
    const { leader, worker } = await idleWorker(cluster);
    const { database_url, redis_url, prefix } = cluster.stores;
    const cli = cliWith({ DATABASE_URL: database_url, REDIS_URL: redis_url, SCHEDULER_REDIS_PREFIX: prefix });
    const unknown = await cli("nodes", "detach", "nobody");
    assert.equal(unknown.code, 1);
    assert.match(unknown.err, /Cannot detach "nobody": no worker or node has that name; there are w.* on node-/);

    const old_id = worker.worker_id;
    const said = await cli("nodes", "detach", old_id, "--reason", "its disk is full");
    assert.equal(said.code, 0, said.err);
    assert.match(said.out, new RegExp(`^${old_id} on ${worker.node_id} is detached`));
    const heard = await cluster.hears("worker.detached", { worker_id: old_id });
    assert.match(`${heard.by} ${heard.reason}`, /^cli:.+ its disk is full$/);
    await comesBack(cluster, worker, old_id);
    const again = await cli("nodes", "detach", old_id);
    assert.match(again.err, new RegExp(`Cannot detach "${old_id}": ${old_id} is DEAD`));

    const led = leader.worker_id;
    const json = await cli("nodes", "detach", leader.node_id, "--json");
    assert.deepEqual(JSON.parse(json.out), [{ worker_id: led, node_id: leader.node_id }]);
    const ended = await cluster.hears("leader.ended", { worker_id: led });
    assert.match(ended.reason, /^detached by cli:/);
    await cluster.hears("leader.elected", {}, { after: ended });
    await comesBack(cluster, leader, led);
    assert.equal((await cluster.ends(await cluster.enqueue("append_one_row"))).state, "SUCCEEDED");
  });
});

Deno.test("a detached worker's body goes on beyond the lease by the leader's word, once, and then the worker comes back", async () => {
  await withProcesses(2, async (cluster) => {
    const { leader, worker } = await idleWorker(cluster);
    const old_id = worker.worker_id;
    const id = await cluster.enqueue("append_one_row", LONGER_THAN_THE_LEASE);
    await cluster.hears("run.started", { job_run_id: id, worker_id: old_id });
    await requestDetach(cluster.sql, old_id, BY); // without the flag: its own renewal tells it
    const yes = await cluster.hears("run.continuation", { job_run_id: id, decision: "ALLOW_CONTINUE" });
    assert.deepEqual([yes.worker_id, yes.asked], [old_id, leader.worker_id]);
    const [row] = await cluster
      .sql`select continuation_state, continuation_check_started_at from job_run where id = ${id}`;
    assert.equal(row?.continuation_state, "NONE");
    assert(row?.continuation_check_started_at);
    const other = await cluster.enqueue("append_one_row"); // not to the detached one: alone now, the leader works
    await cluster.hears("run.started", { job_run_id: other, worker_id: leader.worker_id });
    const run = await cluster.ends(id);
    assert.deepEqual([run.state, run.attempt, cluster.effects(id)], ["SUCCEEDED", 1, 1]);
    await comesBack(cluster, worker, old_id);
    assert.equal((await readAttempts(cluster.sql, id)).length, 0);
  }, { settings: LEASE });
});

Deno.test("cut off from Postgres alone, a worker keeps its body by confirmations, and the outcome is recorded after", async () => {
  await withWired(2, async (cluster, [, victim]) => {
    assert(victim);
    const { worker_id } = victim.worker;
    const id = await cluster.enqueue("append_one_row", LONGER_THAN_THE_LEASE);
    await cluster.hears("run.started", { job_run_id: id, worker_id });
    await knowsWhomToAsk(cluster, worker_id);
    cut(victim.postgres);
    const yes = await cluster.hears("run.continuation", { worker_id, decision: "ALLOW_CONTINUE" });
    await cluster.hears("run.continuation", { worker_id, decision: "ALLOW_CONTINUE" }, { after: yes });
    await waitFor("a lease that nobody renews for itself to be past", async () => {
      const [row] = await cluster.sql`
        select 1 from job_run where id = ${id} and started_at < clock_timestamp() - interval '11 s'`;
      return row;
    });
    const [row] = await cluster.sql`select state from worker where worker_id = ${worker_id}`;
    assert.equal(row?.state, "ACTIVE");
    assert.equal((await readRun(cluster.sql, id))?.state, "RUNNING", "its outcome waits with the worker");
    await victim.postgres.heal();
    const run = await cluster.ends(id);
    assert.deepEqual([run.state, run.attempt, cluster.effects(id)], ["SUCCEEDED", 1, 1]);
  }, { settings: LEASE });
});

Deno.test("a run that is canceled while nobody can reach its worker: the worker asks, and hears that it must abort", async () => {
  await withWired(2, async (cluster, [, victim]) => {
    assert(victim);
    const { worker_id } = victim.worker;
    const id = await cluster.enqueue("append_one_row", { hold_ms: 60_000 });
    await cluster.hears("run.started", { job_run_id: id, worker_id });
    await knowsWhomToAsk(cluster, worker_id);
    cut(victim.postgres, victim.grpc);
    await cluster.hears("run.continuation", { worker_id, decision: "ALLOW_CONTINUE" });
    await requestCancel(cluster.sql, id, BY);
    const no = await cluster.hears("run.continuation", { worker_id, decision: "MUST_ABORT" });
    assert.match(no.message, /a cancel was requested/);
    await victim.postgres.heal();
    const run = await cluster.ends(id);
    assert.deepEqual([run.state, run.attempt], ["CANCELED", 1]);
  }, { settings: LEASE });
});

Deno.test("cut off from everything, a worker's body is dead before its run starts elsewhere", async () => {
  await withWired(3, async (cluster, wired) => {
    await cluster.sync({ "tells.ts": tells(cluster.effects_dir) });
    const id = await cluster.enqueue("tells", { ms: 40_000 });
    const { worker_id } = await cluster.hears("run.started", { job_run_id: id });
    const victim = wired.find(({ worker }) => worker.worker_id === worker_id);
    const others = wired.filter((one) => one !== victim);
    assert(victim && others.length === 2);
    await knowsWhomToAsk(cluster, worker_id);
    cut(victim.postgres, victim.redis, victim.grpc, ...others.map(({ grpc }) => grpc));
    await waitFor("its body to be silent", async () => {
      const before = told(cluster, id).length;
      await waitFor("a second", () => cluster.sql`select pg_sleep(1)`.then(() => true));
      return told(cluster, id).length === before || undefined;
    });
    assert.equal(told(cluster, id).at(-1), "1");
    await Promise.all(others.map(({ grpc }) => grpc.heal()));
    const run = await cluster.ends(id);
    assert.deepEqual([run.state, run.attempt], ["SUCCEEDED", 2]);
    const attempts = told(cluster, id);
    assert.deepEqual(attempts, attempts.toSorted(), "no first body after the second began");
    const [lost] = await readAttempts(cluster.sql, id);
    assert.deepEqual([lost?.outcome, lost?.worker_id], ["LOST", worker_id]);
    await Promise.all([victim.postgres, victim.redis, victim.grpc].map((link) => link.heal()));
    await comesBack(cluster, victim.worker, worker_id);
  }, { settings: LEASE });
});

Deno.test("the leader detaches a frozen worker; what that had not started starts elsewhere at once, and it comes back", async () => {
  const settings = { worker_lease_seconds: 60, reassign_after_seconds: 600 };
  await withProcesses(3, async (cluster) => {
    const { leader, worker } = await idleWorker(cluster);
    const old_id = worker.worker_id;
    worker.kill("SIGSTOP");
    const heard = await cluster.hears("worker.detached", { worker_id: old_id });
    assert.equal(heard.by, `leader:${leader.worker_id}`);
    const [assigned] = await cluster.sql`
      insert into job_run (job_definition_id, source, state, assigned_worker_id, assigned_at, leader_epoch)
      select id, 'enqueue', 'ASSIGNED', ${old_id}, clock_timestamp(), 1 from job_definition returning id`;
    const run = await cluster.ends(Number(assigned?.id));
    assert.deepEqual([run.state, run.attempt, cluster.effects(run.id)], ["SUCCEEDED", 2, 1]);
    const acts = await cluster.sql`select actor, action from admin_action_log where target_id = ${old_id}`;
    assert.deepEqual([...acts], [{ actor: heard.by, action: "worker.detach" }]);
    worker.kill("SIGCONT");
    await comesBack(cluster, worker, old_id);
  }, { settings });
});

/** It knows leader and subleaders from its renewals; the seats must be taken, and one renewal must have followed. */
async function knowsWhomToAsk(cluster: Cluster, worker_id: string): Promise<void> {
  await waitFor("subleaders in the rows", async () => {
    const rows = await cluster.sql`select 1 from worker where subleader and state = 'ACTIVE'`;
    return rows.length >= cluster.workers.length - 1 || undefined;
  });
  const renewed = async () => {
    const [row] = await cluster.sql<
      { at: string }[]
    >`select lease_until::text as at from worker where worker_id = ${worker_id}`;
    return row?.at;
  };
  for (let times = 0; times < 2; times++) {
    const before = await renewed();
    await waitFor("a renewal", async () => (await renewed()) !== before || undefined);
  }
}
