/** Workers are cut off from Postgres, from their peers, from everything: bodies go on where somebody says so, and never twice at once. */
import assert from "node:assert/strict";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import { requestCancel } from "../../../src/runs/requests.ts";
import { type Cluster, comesBack } from "../../support/cluster.ts";
import { waitFor } from "../../support/waiting.ts";
import { cut, withWired } from "../../support/wired.ts";

const BY = { actor: "test", reason: "it takes too long" };
/** Bodies may run 4 s without a renewal; the guard of bodies strikes within 3 s more. */
const SETTINGS = {
  worker_lease_seconds: 8,
  worker_renew_seconds: 0.5,
  worker_margin_seconds: 4,
  leader_lease_seconds: 10, // who leads goes on leading, also on a machine that is busy
  leader_stale_seconds: 10,
};
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
  }, { settings: SETTINGS });
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
  }, { settings: SETTINGS });
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
  }, { settings: SETTINGS });
});

/** It knows leader and subleaders from its renewals; the lock must be taken, and one renewal must have followed. */
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
