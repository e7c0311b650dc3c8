/** Drills on worker processes: killed, frozen and restarted. dev starts again what ends; what is frozen is thawed here. */
import { childrenOf, signalProcess } from "../../sandbox/process_table.ts";
import { currentLeader } from "../../nodes/leadership.ts";
import type { WorkerListing } from "../../nodes/workers.ts";
import type { Scene } from "./scene.ts";
import { DrillError, type Site } from "./site.ts";
import { Undo } from "./undo.ts";

export async function killLeader(scene: Scene): Promise<void> {
  const { leader, epoch } = await leading(scene);
  await scene.strike(`killed ${nameOf(leader)}, which led in epoch ${epoch}`, () => {
    signalProcess(leader.pid, "SIGKILL");
  });
  await scene.failover(epoch);
  const back = await scene.comesBack(leader);
  scene.measure(`dev had ${leader.node_id} back, as ${back.worker_id}`, back.started_at);
}

export async function freezeLeader(scene: Scene): Promise<void> {
  const { leader, epoch } = await leading(scene);
  let freeze: Undo | undefined;
  try {
    await scene.strike(`froze ${nameOf(leader)}, which led in epoch ${epoch}`, () => {
      freeze = Undo.freeze(leader.pid);
    });
    await scene.failover(epoch);
  } finally {
    await freeze?.now();
  }
  scene.say(`${leader.node_id} goes on, and must find that it leads no more`);
  await scene.steady();
}

export async function killWorker(scene: Scene): Promise<void> {
  const victim = await busyWorker(scene);
  await scene.strike(`killed ${nameOf(victim)}, with ${victim.load} runs`, () => {
    signalProcess(victim.pid, "SIGKILL");
  });
  await scene.recovery(victim);
  const back = await scene.comesBack(victim);
  scene.measure(`dev had ${victim.node_id} back, as ${back.worker_id}`, back.started_at);
}

export async function freezeWorker(scene: Scene): Promise<void> {
  const victim = await busyWorker(scene);
  let freeze: Undo | undefined;
  try {
    await scene.strike(`froze ${nameOf(victim)}, with ${victim.load} runs`, () => {
      freeze = Undo.freeze(victim.pid);
    });
    await scene.recovery(victim);
  } finally {
    await freeze?.now();
  }
  const thawed_at = await scene.now();
  scene.say(`${victim.node_id} goes on, and must find that it is dead to the others`);
  const back = await scene.comesBack(victim);
  scene.measure(`thawed, ${victim.node_id} was back under a new id, ${back.worker_id}`, back.started_at, thawed_at);
}

/** One after another, as a deploy does it. */
export async function rollingRestart(scene: Scene): Promise<void> {
  await leading(scene);
  await scene.strike("restarting each worker in turn, with SIGTERM", () => {});
  for (const node_id of scene.site.note.node_ids) {
    const worker = await scene.until(`a worker on ${node_id}`, async () => {
      return (await scene.site.workers()).find((one) => one.node_id === node_id && one.state === "ACTIVE");
    });
    const { epoch, worker_id } = await currentLeader(scene.site.sql);
    const led = worker_id === worker.worker_id;
    const from = await scene.now();
    signalProcess(worker.pid, "SIGTERM");
    if (led) {
      const next = await scene.until("another worker to lead", async () => {
        const leader = await currentLeader(scene.site.sql);
        return leader.epoch > epoch && leader.worker_id && leader.acquired_at
          ? { ...leader, since: leader.acquired_at }
          : undefined;
      });
      scene.measure(`${node_id} led; ${next.node_id} leads, in epoch ${next.epoch}`, next.since, from);
    }
    await scene.until(`${node_id} to finish what it has and stop`, () => {
      return Promise.resolve(childrenOf(scene.site.note.pid).includes(worker.pid) ? undefined : true);
    });
    const back = await scene.comesBack(worker);
    scene.measure(`${node_id} was stopped and is back`, back.started_at, from);
    await scene.steady();
  }
}

/** Who leads, and in which epoch. */
export async function leading(scene: Scene): Promise<{ leader: WorkerListing; epoch: number }> {
  const leader = await scene.steady();
  const { epoch, worker_id } = await currentLeader(scene.site.sql);
  return worker_id === leader.worker_id ? { leader, epoch } : await leading(scene);
}

/** Has bodies running that last, and gives a worker with some, not the one that leads. */
async function busyWorker(scene: Scene): Promise<WorkerListing> {
  await holdBodies(scene);
  return await scene.until("a worker that does not lead to have bodies that last", async () => {
    const { worker_id } = await currentLeader(scene.site.sql);
    for (const worker of await scene.site.workers()) {
      if (worker.worker_id !== worker_id && (await scene.load.heldOn(worker.worker_id)).length > 0) return worker;
    }
  }, 100);
}

/** Bodies that last through the drill: two for each worker, less where there are few slots, which the load needs too. */
export async function holdBodies(scene: Scene): Promise<void> {
  const workers = await scene.site.workers();
  const slots = workers.reduce((sum, worker) => sum + worker.slots, 0);
  await scene.load.hold(Math.max(1, Math.min(2 * workers.length, Math.floor(slots / 4))));
}

/** @throws DrillError where nobody could take over. */
export function needSeveral(site: Site): void {
  if (site.note.node_ids.length > 1) return;
  throw new DrillError("Cannot drill this with one worker: start dev with at least two, deno task dev --workers 3");
}

function nameOf(worker: WorkerListing): string {
  return `${worker.node_id} (${worker.worker_id}, process ${worker.pid})`;
}
