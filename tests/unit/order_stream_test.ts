/** Orders over a stream that stays open: they are answered as calls would be. */
import assert from "node:assert/strict";
import { type sendUnaryData, Server, ServerCredentials, type ServerUnaryCall } from "@grpc/grpc-js";
import { PeerListener } from "../../src/rpc/peer_listener.ts";
import { Peers } from "../../src/rpc/peers.ts";
import {
  type Caller,
  RpcRefusal,
  type StartJobsRequest,
  type StartJobsResponse,
  workerService,
} from "../../src/rpc/messages.ts";
import { Tls } from "../../src/rpc/tls.ts";
import { FaultyLink } from "../../src/ops/faulty_link.ts";
import { at, twoNodes, withServer } from "../support/cluster_peers.ts";

const order = (job_run_id: number): StartJobsRequest => ({
  leader_epoch: 7,
  orders: [{ job_run_id, attempt: 1, command_name: "job.ts", digest: "digest", due_unix_us: 0, priority: 240 }],
});
const accepted = ({ orders }: StartJobsRequest): StartJobsResponse => ({
  results: orders.map(({ job_run_id, attempt }) => ({
    job_run_id,
    attempt,
    result: "ACCEPTED",
    message: "",
    other_code: null,
  })),
  observed_leader_epoch: 7,
});

Deno.test("each order gets its own answer, whichever is decided first; one that comes too late is nobody's", async () => {
  const [server, client] = await twoNodes();
  const first = Promise.withResolvers<void>();
  const callers = new Set<string>();
  const startJobs = async (request: StartJobsRequest, caller: Caller) => {
    callers.add(caller.address);
    if (request.orders[0]?.job_run_id === 3) throw new RpcRefusal("PERMISSION_DENIED", "not you");
    if (request.orders[0]?.job_run_id === 1) await first.promise;
    return accepted(request);
  };
  await withServer({ server, client }, async ({ port }, peers) => {
    const peer = peers.to(at(port));
    const late = peer.startJobs(order(1), { deadline_ms: 300 });
    const slow = peer.startJobs(order(1));
    const second = await peer.startJobs(order(2));
    assert.deepEqual(second, { ok: true, value: accepted(order(2)) });
    assert.deepEqual(await peer.startJobs(order(3)), { ok: false, code: "PERMISSION_DENIED", message: "not you" });
    const missed = await late;
    assert.equal(!missed.ok && missed.code, "DEADLINE_EXCEEDED");
    first.resolve();
    assert.deepEqual(await slow, { ok: true, value: accepted(order(1)) });
    assert.equal(callers.size, 1, "all over one connection");
  }, { startJobs });
});

Deno.test("a connection that breaks fails the orders under way, and the next one takes another", async () => {
  const [server, client] = await twoNodes();
  const asked = Promise.withResolvers<void>();
  let answers = false;
  const startJobs = (request: StartJobsRequest) => {
    if (answers) return accepted(request);
    asked.resolve();
    return new Promise<never>(() => {});
  };
  await withServer({ server, client }, async ({ port }, peers) => {
    const link = await FaultyLink.to(port);
    const peer = peers.to(at(link.port));
    const broken = peer.startJobs(order(1));
    await asked.promise;
    answers = true;
    link.reset();
    const failed = await broken;
    assert.equal(!failed.ok && failed.code, "UNAVAILABLE");
    assert.deepEqual(await peer.startJobs(order(2)), { ok: true, value: accepted(order(2)) });
    await link.close();
  }, { startJobs });
});

Deno.test("a worker of a version without the stream is called, once for each order", async () => {
  const [server, client] = await twoNodes();
  const { StartJobs } = workerService;
  const heard: StartJobsRequest[] = [];
  const earlier = new Server();
  earlier.addService({ StartJobs } as typeof workerService, {
    StartJobs: ({ request }: ServerUnaryCall<StartJobsRequest, object>, reply: sendUnaryData<object>) => {
      heard.push(request);
      reply(null, accepted(request));
    },
  });
  const [tls, client_tls] = [new Tls(server.files), new Tls(client.files)];
  const [door, peers] = [new PeerListener(tls), new Peers(client_tls)];
  const inside = earlier.createConnectionInjector(ServerCredentials.createInsecure());
  const port = await door.open({ host: "127.0.0.1", port: 0, letIn: (socket) => inside.injectConnection(socket) });
  for (const id of [1, 2]) {
    assert.deepEqual(await peers.to(at(port)).startJobs(order(id)), { ok: true, value: accepted(order(id)) });
  }
  assert.equal(heard.length, 2);
  peers.close();
  door.stopListening();
  await door.close();
  await Promise.all([tls.close(), client_tls.close()]);
});
