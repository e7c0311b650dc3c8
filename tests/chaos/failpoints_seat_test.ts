/**
 * Leaders die at every step of leading, and candidates at every step to the leader lock, while there is work of every kind.
 * The next one does what is left, once; nobody leads beside another.
 */
import assert from "node:assert/strict";
import type { FailpointName } from "../../src/platform/failpoint.ts";
import { DeadlineExceeded, within } from "../../src/platform/timers.ts";
import { type Cluster, withProcesses, type WorkerProcess } from "../support/cluster.ts";
import { type Doom, reaches, saidBy, STEADY } from "../support/doomed.ts";
import { giveWork, holdSchedules, leaderJobs, type Work, workIsDone } from "../support/leader_work.ts";
import { judge } from "../support/ledger.ts";
import { PATIENCE_MS } from "../support/waiting.ts";

/** Not after the lock in Redis: who deposes a dead leader comes to the leader lock without it. */
const DEATHS_OF_LEADERS: FailpointName[] = [
  "after-pg-acquire",
  "before-pg-renew",
  "after-pg-renew",
  "after-lease-check-slots",
  "after-lease-check-forbid",
  "after-lease-check-replaced",
  "after-lease-check-events",
  "after-lease-check-late",
  "after-lease-check-cancels",
  "after-lease-check-stuck",
  "after-lease-check-detached",
  "after-bury-before-orphan",
  "after-lease-check-quarantine",
  "after-lease-check-wake",
  "after-lease-check-lines",
  "after-lease-check-hold",
  "after-lease-check-why",
  "after-lease-check-assign",
  "after-assign-before-rpc",
];
const LEADERS_AT_ONCE = 5;
/** Many times what a death takes. */
const AGAIN_MS = 10_000;
const LINES_SHOWN = 20;

function start(cluster: Cluster, ...doom: Doom[]): Promise<WorkerProcess> {
  return cluster.startWorker({ env: { SCHEDULER_FAILPOINT: doom.join(",") } });
}

Deno.test("leaders that die one after the other at each step lose nothing and double nothing", async () => {
  await withProcesses(0, async (cluster) => {
    await holdSchedules(cluster);
    await cluster.sql`update job_definition set max_interruptions = 100`; // a leader that is alone works, and dies with it
    const works: Work[] = [];
    for (let from = 0; from < DEATHS_OF_LEADERS.length; from += LEADERS_AT_ONCE) {
      const points = DEATHS_OF_LEADERS.slice(from, from + LEADERS_AT_ONCE);
      const leaders = await Promise.all(points.map((point) => start(cluster, `${point}:1:kill`)));
      while (leaders.length > 0) {
        const dead = await nextDeath(cluster, leaders, works);
        leaders.splice(leaders.indexOf(dead), 1);
      }
    }
    await Promise.all([start(cluster), start(cluster)]);
    await settles(cluster, works);
  }, { jobs: leaderJobs, more_workers: DEATHS_OF_LEADERS.length + 2 });
});

Deno.test("a subleader that freezes when it has deposed a dead leader finds that it does not lead, and does no harm", async () => {
  await withProcesses(0, async (cluster) => {
    await holdSchedules(cluster);
    await start(cluster);
    const first = await cluster.hears("leader.elected");
    const next = await start(cluster, "after-depose:1:stop");
    await cluster.hears("subleader.seated", {}, { by: next });
    const running = await cluster.enqueue("ledger", { hold_ms: 100 });
    await cluster.hears("run.started", { job_run_id: running }, { by: next });
    await cluster.ends(running);
    first.worker.kill("SIGKILL");
    const hit = await reaches(cluster, next, "after-depose");
    const third = await start(cluster);
    const works = [await giveWork(cluster)];
    const elected = await cluster.hears("leader.elected", {}, { by: third });
    assert(elected.epoch >= first.epoch + 2);
    next.kill("SIGCONT");
    await settles(cluster, works);
    assert.deepEqual(saidBy(cluster, next, { facts: ["leader.elected"], after: hit }), []);
  }, { jobs: leaderJobs, settings: STEADY });
});

Deno.test("two that freeze on their way to the seat, before and after Postgres gave it, wake beside a third that has it", async () => {
  await withProcesses(0, async (cluster) => {
    await holdSchedules(cluster);
    const second = await start(cluster, "after-pg-acquire:1:stop");
    await reaches(cluster, second, "after-pg-acquire");
    const first = await start(cluster, "after-redis-lock:1:stop");
    await reaches(cluster, first, "after-redis-lock");
    const third = await start(cluster);
    const works = [await giveWork(cluster)];
    const { epoch } = await cluster.hears("leader.elected", {}, { by: third });
    for (const worker of [first, second]) worker.kill("SIGCONT");
    await settles(cluster, works);
    const old = await cluster.hears("leader.ended", {}, { by: second });
    assert(old.epoch < epoch);
  }, { jobs: leaderJobs, settings: STEADY });
});

async function settles(cluster: Cluster, works: Work[]): Promise<void> {
  await workIsDone(cluster, works, { burials: true });
  await judge(cluster, { apart: works.flatMap(({ made_up }) => made_up) });
  const elected = cluster.workers.flatMap((worker) => saidBy(cluster, worker, { facts: ["leader.elected"] }));
  const epochs = elected.map(({ said }) => said.epoch);
  assert.equal(new Set(epochs).size, epochs.length, "no epoch has two leaders");
}

/**
 * Gives work until a leader dies of it, more than once if need be: on a busy machine a term may end by itself, and the
 * leader after it finds that kind of work done at which it would have died.
 */
async function nextDeath(cluster: Cluster, leaders: WorkerProcess[], works: Work[]): Promise<WorkerProcess> {
  const death = Promise.race(leaders.map(endOf));
  for (let waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += AGAIN_MS) {
    works.push(await giveWork(cluster));
    const dead = await within(AGAIN_MS, "the death of a leader", death).catch((error) => {
      if (!(error instanceof DeadlineExceeded)) throw error;
    });
    if (dead) return dead;
  }
  const said = leaders.map(({ node_id }) => cluster.printed(node_id).split("\n").slice(-LINES_SHOWN).join("\n"));
  throw new Error(`No leader has died within ${PATIENCE_MS} ms; those that live said at last:\n${said.join("\n\n")}`);
}

async function endOf(worker: WorkerProcess): Promise<WorkerProcess> {
  assert.equal((await worker.ended).signal, "SIGKILL");
  return worker;
}
