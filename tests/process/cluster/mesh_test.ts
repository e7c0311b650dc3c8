/** Plain text for a service mesh: it works, it never mixes with certificates, and it says what it is. */
import assert from "node:assert/strict";
import { MESH, MeshTransport } from "../../../src/rpc/mesh_transport.ts";
import { Peers } from "../../../src/rpc/peers.ts";
import { startServer } from "../../../src/rpc/server.ts";
import { openTransport } from "../../../src/rpc/open_transport.ts";
import type { Transport } from "../../../src/rpc/transport.ts";
import { LeaderAuthority } from "../../../src/worker/authority.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import { acquire } from "../../../src/nodes/leadership.ts";
import { DEFAULT_SETTINGS } from "../../../src/settings/settings.ts";
import { withProcesses } from "../../support/cluster.ts";
import { aNode, asLeader, at, handlersThat, patiently } from "../../support/cluster_peers.ts";
import { aTerm, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const IN_A_MESH = {
  SCHEDULER_TLS: "mesh",
  SCHEDULER_TLS_CERT_FILE: "",
  SCHEDULER_TLS_KEY_FILE: "",
  SCHEDULER_TLS_PINS_FILE: "",
};

/** A busy machine keeps them: the leader that is killed is the one that was elected. */
const CALM = {
  worker_lease_seconds: 30,
  leader_lease_seconds: 20,
  leader_stale_seconds: 20,
  heartbeat_ttl_seconds: 20,
};

Deno.test("peers in a mesh talk in plain text, and all callers look the same", async () => {
  await withWires(new MeshTransport(), new MeshTransport(), async ({ ping, callers, watch }) => {
    const answer = await ping(MESH);
    assert.ok(answer.ok, JSON.stringify(answer));
    assert.equal(callers[0]?.fingerprint, MESH);
    await watch();
  });
});

Deno.test("a worker with certificates and one in a mesh do not understand each other, either way", async () => {
  const node = await aNode("one");
  const tls = () => openTransport({ tls: node.files });
  for (
    const [server, client] of [[tls(), new MeshTransport()], [new MeshTransport(), tls()]] as [Transport, Transport][]
  ) {
    await withWires(server, client, async ({ ping, callers }) => {
      assert.equal((await ping()).ok, false);
      assert.equal(callers.length, 0);
    });
  }
});

Deno.test("in a mesh the epoch alone decides who orders: it must be the newest in Postgres, and its holder in the mesh", async () => {
  await withStores(async ({ sql }) => {
    await aWorker(sql, { worker_id: "leader", tls_fingerprint: MESH });
    await aWorker(sql, { worker_id: "with-certificate", tls_fingerprint: "AA:BB" });
    const local = new LocalWorkerState({ worker_id: "me", node_id: "n", slots: 1, settings: DEFAULT_SETTINGS });
    const authority = new LeaderAuthority({ sql, local });
    const caller = { fingerprint: MESH, address: "127.0.0.1:1" };
    const first = await aTerm(sql);
    assert.equal(await authority.refusal(first.epoch, caller), undefined);
    await assert.rejects(authority.refusal(first.epoch + 5, caller), /was never issued/);
    await sql`update leader_term set lease_until = '-infinity'`;
    const second = await acquire(sql, { worker_id: "with-certificate", lease_ms: 60_000, epoch_hint: 0 });
    assert(second);
    await assert.rejects(authority.refusal(second.epoch, caller), /Only the leader of this epoch may order/);
    assert.equal((await authority.refusal(first.epoch, caller))?.result, "REJECTED_OLD_EPOCH");
  });
});

Deno.test("workers in a mesh elect a leader and run jobs, and lose nothing when it is killed", async () => {
  await withProcesses(2, async (cluster) => {
    const leader = await cluster.hears("leader.elected");
    const first = await cluster.enqueue("append_one_row");
    const run = await cluster.ends(first);
    assert.deepEqual([run.state, cluster.effects(first)], ["SUCCEEDED", 1]);
    const said = await cluster.hears("mesh.used", { exposed: false });
    assert.equal(said.grpc_host, "127.0.0.1");
    const [row] = await cluster.sql`select count(*)::int as others from worker where tls_fingerprint <> ${MESH}`;
    assert.equal(row?.others, 0);

    leader.worker.kill("SIGKILL");
    const second = await cluster.enqueue("append_one_row");
    assert.equal((await cluster.ends(second)).state, "SUCCEEDED");
    await cluster.hears("leader.deposed", { worker_id: leader.worker_id }); // its port refused: seen in plain text as well
  }, { env: IN_A_MESH, settings: CALM });
});

Deno.test("who gets past the mesh starts nothing that Postgres did not assign, whatever it says", async () => {
  await withProcesses(2, async (cluster) => {
    const leader = await cluster.hears("leader.elected");
    const ready = await cluster.hears("worker.ready");
    const [job] = await cluster.sql<
      { command_name: string; digest: string }[]
    >`select command_name, digest from job_definition`;
    assert(job);
    const held = (await cluster.client.enqueue("append_one_row", {}, { runAt: new Date("2100-01-01") })).id;
    const transport = new MeshTransport();
    const peers = new Peers(transport);
    const victim = peers.to({
      worker_id: ready.worker_id,
      grpc_host: "127.0.0.1",
      grpc_port: Number(ready.grpc_address.split(":").at(-1)),
    });
    const order = { job_run_id: held, attempt: 1, ...job };
    const said = await victim.startJob({ leader_epoch: leader.epoch, ...order }, patiently);
    assert.deepEqual([said.ok, said.ok && said.value.result], [true, "REJECTED_INVALID"]);
    const ahead = await victim.startJob({ leader_epoch: leader.epoch + 1_000, ...order }, patiently);
    assert.equal(!ahead.ok && ahead.code, "FAILED_PRECONDITION");
    const drained = await victim.drain({ leader_epoch: leader.epoch, enable: true }, patiently);
    assert.deepEqual(
      [drained.ok, drained.ok && drained.value.draining],
      [true, true],
      "that it can do: see docs/tls.md",
    );
    peers.close();
    await transport.close();
    assert.equal(cluster.effects(held), 0);
  }, { env: IN_A_MESH, settings: CALM });
});

Deno.test("a worker in a mesh that listens beyond this machine warns loudly", async () => {
  await withProcesses(1, async (cluster) => {
    const { worker, meaning } = await cluster.hears("mesh.used", { grpc_host: "0.0.0.0", exposed: true });
    assert.match(meaning, /everybody who can connect to 0\.0\.0\.0 can order/);
    assert.match(cluster.printed(worker.node_id), /WARNING: SCHEDULER_TLS=mesh: gRPC is plain text on 0\.0\.0\.0/);
  }, { env: { ...IN_A_MESH, SCHEDULER_GRPC_HOST: "0.0.0.0", SCHEDULER_GRPC_ADVERTISE: "127.0.0.1:1" } });
});

async function withWires(
  server_transport: Transport,
  client_transport: Transport,
  act: (on: {
    ping(fingerprint?: string): ReturnType<ReturnType<Peers["to"]>["ping"]>;
    watch(): Promise<void>;
    callers: { fingerprint: string }[];
  }) => Promise<void>,
): Promise<void> {
  const callers: { fingerprint: string; address: string }[] = [];
  const handlers = handlersThat(callers, {});
  const server = await startServer({ host: "127.0.0.1", port: 0, transport: server_transport, handlers });
  const peers = new Peers(client_transport);
  try {
    await act({
      callers,
      ping: (fingerprint) => peers.to(at(server.port, fingerprint)).ping(asLeader, patiently),
      async watch() {
        const began = Promise.withResolvers<void>();
        const end = peers.to(at(server.port)).watch(asLeader, { onStatus: () => began.resolve(), onEnd: () => {} });
        await began.promise;
        end();
      },
    });
  } finally {
    peers.close();
    await server.close();
    await Promise.all([server_transport.close(), client_transport.close()]);
  }
}
