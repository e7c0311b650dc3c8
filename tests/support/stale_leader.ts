/**
 * The story of a leader that is stopped between its check of the lease and a statement, and goes on when another has
 * the leader lock. The other is stopped as soon as it has it: so whatever changes then, the stale leader has changed.
 */
import assert from "node:assert/strict";
import type { FailpointName } from "../../src/platform/failpoint.ts";
import { type Cluster, withProcesses, type WorkerProcess } from "./cluster.ts";
import { type Doom, reaches, STEADY } from "./doomed.ts";
import { giveWork, holdSchedules, leaderJobs, workIsDone } from "./leader_work.ts";
import { judge } from "./ledger.ts";

/** `also`: failpoints of the worker that then leads. */
export async function staleLeader(point: FailpointName, also: Doom[] = []): Promise<void> {
  await withProcesses(0, async (cluster) => {
    await holdSchedules(cluster);
    const old = await start(cluster, [`${point}:1:stop`]);
    const first = await cluster.hears("leader.elected", {}, { by: old });
    const next = await start(cluster, ["after-pg-acquire:1:stop", ...also]);
    const work = await giveWork(cluster);
    await reaches(cluster, old, point);
    await reaches(cluster, next, "after-pg-acquire");
    assert.equal(await epochOf(cluster), first.epoch + 1);

    const before = await everything(cluster);
    old.kill("SIGCONT");
    const { reason } = await cluster.hears("leader.ended", { epoch: first.epoch }, { by: old });
    assert.deepEqual(await everything(cluster), before, `a leader whose term is over has written something, ${point}`);
    assert.match(reason, /term is over|trust deadline passed|lock is not ours|not renew in time/);

    next.kill("SIGCONT");
    await workIsDone(cluster, [work], { burials: point === "after-lease-check-bury" });
    await judge(cluster, { apart: work.made_up });
  }, {
    jobs: leaderJobs,
    settings: { ...STEADY, ...(point === "after-lease-check-detach" ? { worker_detach_grace_seconds: 1 } : {}) },
  });
}

function start(cluster: Cluster, doom: Doom[]): Promise<WorkerProcess> {
  return cluster.startWorker({ env: { SCHEDULER_FAILPOINT: doom.join(",") } });
}

async function epochOf({ sql }: Cluster): Promise<number> {
  const [row] = await sql<{ epoch: number }[]>`select epoch from leader_term`;
  return row?.epoch ?? 0;
}

/** All that a leader may write, but for its own term: after a rest the old one may win another. */
async function everything({ sql }: Cluster): Promise<unknown[]> {
  return await Promise.all([
    sql`select * from job_run order by id`,
    sql`select * from job_run_attempt order by job_run_id, attempt`,
    sql`select * from event order by id`,
    sql`select id, last_slot, next_slot from job_schedule order by id`,
    sql`select worker_id, state, dead_epoch from worker order by worker_id`,
    sql`select * from key_recheck order by id`,
    sql`select * from queue_block_reason order by job_definition_id, node`,
  ]).then((tables) => tables.map((rows) => [...rows]));
}
