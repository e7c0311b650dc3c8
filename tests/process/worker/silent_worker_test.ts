/** Before the leader detaches a worker that is silent it asks for its status: one that answers is left alone. */
import assert from "node:assert/strict";
import { rest, Wakeup } from "../../../src/platform/timers.ts";
import { RpcRefusal } from "../../../src/rpc/messages.ts";
import { connectRedis } from "../../../src/redis/connection.ts";
import { detachUnheard } from "../../../src/leader/detach.ts";
import type { LeaderContext } from "../../../src/leader/leader_context.ts";
import { WorkerMonitor } from "../../../src/leader/worker_monitor.ts";
import { readDispatchSnapshot } from "../../../src/dispatch/dispatch_queues.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import { aStatus, twoNodes, withServer } from "../../support/cluster_peers.ts";
import { aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

Deno.test("a worker without stream and heartbeat is not detached while it answers, and is when it does not", async () => {
  const [server, client] = await twoNodes();
  let asked = 0;
  let answers = true;
  const away = () => new RpcRefusal("PERMISSION_DENIED", "not now");
  const getStatus = () => {
    asked++;
    if (!answers) throw away();
    return { ...aStatus, load: 0, current_job_run_id: null, last_heartbeat_unix_ms: 0 };
  };
  // deno-lint-ignore require-yield
  const watch = async function* () {
    await rest(0);
    throw away();
  };
  await withStores(async ({ sql, redis_url, prefix }) => {
    await withServer({ server, client }, async ({ port }, peers) => {
      const redis = connectRedis(redis_url, { prefix });
      const term = await aTerm(sql);
      const { worker_id } = await aWorker(sql, { grpc_port: port });
      const wakeup = new Wakeup();
      const monitor = new WorkerMonitor({ peers, wakeup, epoch: term.epoch });
      const settings = {
        ...DEFAULT_SETTINGS,
        worker_detach_grace_seconds: 0.05,
        heartbeat_interval_seconds: 0.05,
      };
      const me = { sql, redis, peers, monitor, wakeup, term, settings } as unknown as LeaderContext;
      const state = async () => (await sql`select state from worker where worker_id = ${worker_id}`)[0]?.state;
      const look = async () => {
        monitor.follow((await readDispatchSnapshot(sql, 0)).workers);
        detachUnheard(me);
      };
      await waitFor("a third look, with two answers before it", async () => {
        await look();
        return asked >= 3 || undefined;
      });
      assert.equal(await state(), "ACTIVE");
      answers = false;
      await waitFor("it to be detached", async () => {
        await look();
        return (await state()) === "DETACHED" || undefined;
      });
      monitor.disband();
      await waitFor("the last look to end", () => Promise.resolve(!me.looking || undefined));
      await redis.close();
    }, { getStatus, watch });
  });
});
