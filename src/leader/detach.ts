/**
 * Detaches workers that give no sign of life: their Watch stream has been gone for `worker_detach_grace_seconds`, and their
 * heartbeat in Redis is as old or gone. Both, since each alone has harmless causes: a dead port is answered by giving no
 * work (worker_monitor.ts), and a worker that cannot reach Redis can work. Redis away says nothing about anybody.
 *
 * Looked at beside the tick, which must not wait for Redis. That the heartbeat is gone must be seen for two beats: after a
 * flush of Redis all are gone for a moment. Then each is asked for its status, and one that answers is left alone. What ends the worker's runs is its lease; detaching only frees at once what
 * it has not started, and tells it to ask before it goes on.
 */
import { loopFailed, observe } from "../platform/facts.ts";
import { failpoint } from "../platform/failpoint.ts";
import { RedisAway } from "../redis/connection.ts";
import { list, setDetach } from "../redis/heartbeats.ts";
import { detachSilent } from "../dispatch/detach.ts";
import type { WorkerRow } from "../nodes/workers.ts";
import type { LeaderContext } from "./leader_context.ts";
import { stored } from "../locale/message.ts";

export function detachUnheard(me: LeaderContext): void {
  const grace_ms = me.settings.worker_detach_grace_seconds * 1000;
  const unheard = me.monitor.unheardFor(grace_ms).filter((one) => one.worker_id !== me.term.worker_id);
  if (unheard.length === 0 || me.looking) return;
  me.looking = true;
  lookAt(me, unheard, grace_ms)
    .catch((error) => {
      if (!(error instanceof RedisAway)) loopFailed("leader: detach", error);
    })
    .finally(() => me.looking = false);
}

async function lookAt(me: LeaderContext, unheard: WorkerRow[], grace_ms: number): Promise<void> {
  const ages = new Map((await list(me.redis)).map((one) => [one.worker_id, one.heartbeat_age_ms]));
  const two_beats_ms = me.settings.heartbeat_interval_seconds * 2_000;
  const silent = unheard.filter(({ worker_id }) => {
    const age_ms = ages.get(worker_id);
    return me.monitor.notePulse(worker_id, age_ms !== undefined && age_ms < grace_ms) >= two_beats_ms;
  });
  const mute = await withoutAnswer(me, silent);
  if (mute.length === 0 || !me.term.trusted) return;
  const actor = `leader:${me.term.worker_id}`;
  const reason = stored("reason.unheard", { seconds: grace_ms / 1000 });
  const worker_ids = mute.map((one) => one.worker_id);
  await failpoint("after-lease-check-detach");
  const detached = await detachSilent(me.sql, me.term, { worker_ids, actor, reason });
  for (const { worker_id } of detached) observe("worker.detached", { worker_id, by: actor, reason });
  me.wakeup.signal(); // what it did not start goes elsewhere
  const ttl_ms = me.settings.worker_lease_seconds * 2_000;
  await Promise.all(detached.map(({ worker_id }) => setDetach(me.redis, worker_id, { ttl_ms })));
}

async function withoutAnswer(me: LeaderContext, silent: WorkerRow[]): Promise<WorkerRow[]> {
  const asked = { caller_role: "leader" as const, leader_epoch: me.term.epoch };
  const answers = await Promise.all(silent.map((worker) => me.peers.to(worker).getStatus(asked)));
  return silent.filter(({ worker_id }, place) => {
    const answered = answers[place]?.ok ?? false;
    if (answered) me.monitor.notePulse(worker_id, true);
    return !answered;
  });
}
