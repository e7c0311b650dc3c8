/** Calls between workers: what arrives, how they fail, and how soon a dead or stuck peer is noticed. */
import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { MESH, MeshTransport } from "../../../src/rpc/mesh_transport.ts";
import { Peers } from "../../../src/rpc/peers.ts";
import { RpcRefusal, type StartJobsRequest, type StartOrder, type WorkerStatus } from "../../../src/rpc/messages.ts";
import { Tls } from "../../../src/rpc/tls.ts";
import { asLeader, aStatus, at, type TestNode, twoNodes, withServer } from "../../support/cluster_peers.ts";
import { FaultyLink } from "../../../src/ops/faulty_link.ts";
import { withCrammed } from "../../support/crammed.ts";
import { waitFor } from "../../support/waiting.ts";

/** Nothing below is about how fast this machine is. */
const PATIENT = { deadline_ms: 30_000 };
const BUSY_MS = 20_000;

Deno.test("every call carries its message there and back, run ids and epochs as numbers", async () => {
  const [server, client] = await twoNodes();
  const heard: unknown[] = [];
  const startJobs = (request: StartJobsRequest) => {
    heard.push(request);
    return {
      results: request.orders.map((order) => ({ ...order, result: "REJECTED_FULL" as const, message: "no slot" })),
      observed_leader_epoch: 2 ** 53 - 1,
    };
  };
  await withServer({ server, client }, async ({ port }, peers) => {
    const peer = peers.to(at(port));
    const orders = [anOrder(812), { ...anOrder(2 ** 53 - 1), attempt: 3 }];
    assert.deepEqual(value(await peer.startJobs({ leader_epoch: 7, orders }, PATIENT)), {
      results: orders.map(({ job_run_id, attempt }) => ({
        job_run_id,
        attempt,
        result: "REJECTED_FULL",
        message: "no slot",
        other_code: null,
      })),
      observed_leader_epoch: 2 ** 53 - 1,
    });
    assert.deepEqual(heard, [{ leader_epoch: 7, orders }]);
    assert.deepEqual(value(await peer.startJob({ leader_epoch: 7, ...anOrder(1) }, PATIENT)), {
      result: "ACCEPTED",
      message: "",
      other_code: null,
      observed_leader_epoch: 7,
    });
    const status = value(await peer.getStatus(asLeader, PATIENT));
    assert.deepEqual(status.running, aStatus.running);
    assert.equal(status.current_job_run_id, 812);
    assert.equal(status.last_heartbeat_unix_ms, 1_700_000_000_000);
    const cancel = { leader_epoch: 7, job_run_id: 1, reason: "asked", attempt: 0 };
    assert.equal(value(await peer.cancelJob(cancel, PATIENT)).result, "NOT_FOUND");
    assert.equal(value(await peer.drain({ leader_epoch: 7, enable: true }, PATIENT)).draining, true);
    const confirm = { leader_epoch: 7, worker_id: "w1", job_run_id: 1, attempt: 1 };
    assert.equal(value(await peer.confirmContinuation(confirm, PATIENT)).decision, "UNAVAILABLE");
    assert.equal(value(await peer.ping(asLeader, PATIENT)).observed_leader_epoch, 7);
  }, { startJobs });
});

Deno.test("what other code a worker has goes with its refusal, also where it has none", async () => {
  const [server, client] = await twoNodes();
  const says = [{ digest: "e17994f0" }, { digest: "" }, null];
  const startJobs = ({ orders }: StartJobsRequest) => ({
    results: orders.map(({ job_run_id, attempt }, place) => ({
      ...{ job_run_id, attempt, result: "REJECTED_INVALID" as const, message: "other code" },
      other_code: says[place],
    })),
    observed_leader_epoch: 7,
  });
  const startJob = () => ({
    ...{ result: "REJECTED_INVALID" as const, message: "" },
    other_code: says[0],
    observed_leader_epoch: 7,
  });
  await withServer({ server, client }, async ({ port }, peers) => {
    const peer = peers.to(at(port));
    const { results } = value(await peer.startJobs({ leader_epoch: 7, orders: [1, 2, 3].map(anOrder) }, PATIENT));
    assert.deepEqual(results.map(({ other_code }) => other_code), says);
    assert.deepEqual(value(await peer.startJob({ leader_epoch: 7, ...anOrder(1) }, PATIENT)).other_code, says[0]);
  }, { startJobs, startJob });
});

Deno.test("an idle worker runs no job", async () => {
  const [server, client] = await twoNodes();
  const getStatus = () => ({ ...aStatus, running: [], load: 0, current_job_run_id: null, last_heartbeat_unix_ms: 1 });
  await withServer({ server, client }, async ({ port }, peers) => {
    assert.equal(value(await peers.to(at(port)).getStatus(asLeader)).current_job_run_id, null);
  }, { getStatus });
});

Deno.test("a handler that throws tells the caller nothing, one that refuses tells what it means to", async () => {
  const [server, client] = await twoNodes();
  const startJob = () => {
    throw new Error("password=topsecret");
  };
  const drain = () => Promise.reject(new RpcRefusal("UNAVAILABLE", "Postgres is away"));
  await withServer({ server, client }, async ({ port }, peers) => {
    const peer = peers.to(at(port));
    const failed = await peer.startJob({ leader_epoch: 7, ...anOrder(1) });
    assert.deepEqual(failed, { ok: false, code: "INTERNAL", message: "the worker failed to answer; its log says why" });
    const refused = await peer.drain({ leader_epoch: 7, enable: true });
    assert.deepEqual(refused, { ok: false, code: "UNAVAILABLE", message: "Postgres is away" });
  }, { startJob, drain });
});

Deno.test("a message that cannot be read exactly, or is too large, never reaches a handler", async () => {
  const [server, client] = await twoNodes();
  let reached = 0;
  const startJobs = () => {
    reached += 1;
    return { results: [], observed_leader_epoch: 0 };
  };
  await withServer({ server, client }, async ({ port }, peers) => {
    const peer = peers.to(at(port));
    const code = async (request: StartJobsRequest) => {
      const answer = await peer.startJobs(request);
      return answer.ok ? "OK" : answer.code;
    };
    assert.equal(await code({ leader_epoch: 2 ** 53, orders: [] }), "INVALID_ARGUMENT");
    for (const job_run_id of [0, -1, 1.5, 2 ** 53, "1; drop" as unknown as number]) {
      assert.equal(await code({ leader_epoch: 1, orders: [anOrder(job_run_id)] }), "INVALID_ARGUMENT");
    }
    const orders = Array.from({ length: 3_000 }, (_, place) => anOrder(1_000_000_000 + place));
    assert.equal(await code({ leader_epoch: 1, orders }), "RESOURCE_EXHAUSTED");
    assert.equal(reached, 0);
    assert.equal(await code({ leader_epoch: 1, orders: orders.slice(0, 2_000) }), "OK");
  }, { startJobs });
});

Deno.test("no call is without a deadline, and one that gets no answer is a failure by name", async () => {
  const [server, client] = await twoNodes();
  const never = Promise.withResolvers<never>();
  never.promise.catch(() => {}); // on a busy machine the deadline is over before the handler has it
  await withServer({ server, client }, async ({ port }, peers) => {
    const peer = peers.to(at(port));
    const order = { leader_epoch: 7, ...anOrder(1) };
    const before = performance.now();
    const answer = await peer.startJob(order, { deadline_ms: 150 });
    assert.equal(!answer.ok && answer.code, "DEADLINE_EXCEEDED");
    assert.ok(performance.now() - before < BUSY_MS);
    for (const deadline_ms of [0, -1, NaN, Infinity]) {
      await assert.rejects(peer.startJob(order, { deadline_ms }), /must be above 0 and finite/);
    }
    never.reject(new Error("the test is over"));
  }, { startJob: () => never.promise });
});

Deno.test("a call to a port where nobody listens fails at once", async () => {
  const [, client] = await twoNodes();
  const tls = new Tls(client.files);
  const peers = new Peers(tls);
  const before = performance.now();
  const answer = await peers.to(at(1)).startJob({ leader_epoch: 1, ...anOrder(1) }, PATIENT);
  assert.equal(!answer.ok && answer.code, "UNAVAILABLE");
  assert.match(answer.ok ? "" : answer.message, /ECONNREFUSED/);
  assert.ok(performance.now() - before < BUSY_MS);
  peers.close();
  await tls.close();
});

Deno.test("a connection swallowed in the handshake is given up after two deadlines", async () => {
  const [server, client] = await twoNodes();
  await withServer({ server, client }, async ({ port }, peers) => {
    const link = await FaultyLink.to(port);
    link.swallow();
    const peer = peers.to(at(link.port));
    const order = { leader_epoch: 7, ...anOrder(1) };
    assert.equal((await peer.startJob(order, { deadline_ms: 150 })).ok, false);
    await link.heal(); // healed, but what was swallowed stays so
    assert.equal((await peer.startJob(order, { deadline_ms: 150 })).ok, false);
    assert.equal((await peer.startJob(order)).ok, true);
    await link.close();
  });
});

Deno.test("connections that were swallowed in the handshake do not outlive the channel that is given up", async () => {
  const [server, client] = await twoNodes();
  const knocking = new Set<Socket>();
  let knocked = 0;
  const hole = createServer((socket) => {
    knocked++;
    knocking.add(socket);
    socket.on("error", () => {}).on("close", () => knocking.delete(socket)).resume();
  });
  await new Promise<void>((resolve) => hole.listen(0, "127.0.0.1", resolve));
  const { port } = hole.address() as { port: number };
  await withServer({ server, client }, async (_serving, peers) => {
    const peer = peers.to(at(port));
    while (knocked < 4) await peer.ping(asLeader, { deadline_ms: 100 });
    peers.retain([]); // as when its worker is DEAD
    await waitFor("all of them to be closed", () => Promise.resolve(knocking.size === 0 || undefined));
  });
  for (const socket of knocking) socket.destroy();
  hole.close();
});

Deno.test("a watch brings every status until its watcher ends it, which the server sees", async () => {
  const [server, client] = await twoNodes();
  const over = Promise.withResolvers<void>();
  async function* watch(_request: unknown, _caller: unknown, stop: AbortSignal): AsyncGenerator<WorkerStatus> {
    for (let slots = 1; slots <= 3; slots++) yield { ...aStatus, slots };
    await new Promise<void>((resolve) => stop.addEventListener("abort", () => resolve(), { once: true }));
    over.resolve();
  }
  await withServer({ server, client }, async ({ port }, peers) => {
    const seen: WorkerStatus[] = [];
    const third = Promise.withResolvers<void>();
    let ended = 0;
    const end = peers.to(at(port)).watch(asLeader, {
      onStatus: (news) => seen.push(news) === 3 && third.resolve(),
      onEnd: () => ended += 1,
    });
    await third.promise;
    assert.deepEqual(seen.map((news) => news.slots), [1, 2, 3]);
    assert.deepEqual(seen[0], { ...aStatus, slots: 1 });
    end();
    await over.promise;
    assert.equal(ended, 0, "its own end is no news to the watcher");
  }, { watch });
});

Deno.test("a server that closes ends its watches and answers what is under way, and the watcher lives on", async () => {
  const [server, client] = await twoNodes();
  for (let round = 0; round < 5; round++) {
    const began = Promise.withResolvers<void>();
    const startJob = async () => {
      began.resolve();
      await new Promise((resolve) => setTimeout(resolve, 100));
      return { result: "ACCEPTED" as const, message: "", observed_leader_epoch: 7 };
    };
    await withServer({ server, client }, async ({ port, close }, peers) => {
      const ends: string[] = [];
      const watching = Array.from({ length: 3 }, () => watched(peers, port, { onEnd: (why) => ends.push(why) }));
      await Promise.all(watching.map((one) => one.began));
      const under_way = peers.to(at(port)).startJob({ leader_epoch: 7, ...anOrder(1) }, PATIENT);
      await began.promise;
      await close();
      assert.equal((await under_way).ok, true);
      await Promise.all(watching.map((one) => one.ended));
      assert.deepEqual(ends, Array(3).fill("the peer ended the stream"));
    }, { startJob });
  }
});

Deno.test("a watch that the server refuses ends with its reason", async () => {
  const [server, client] = await twoNodes();
  // deno-lint-ignore require-yield
  async function* watch(): AsyncGenerator<WorkerStatus> {
    throw new RpcRefusal("FAILED_PRECONDITION", "not yet registered");
  }
  await withServer({ server, client }, async ({ port }, peers) => {
    const ended = Promise.withResolvers<unknown>();
    peers.to(at(port)).watch(asLeader, { onStatus: () => {}, onEnd: ended.resolve });
    assert.deepEqual(await ended.promise, { ok: false, code: "FAILED_PRECONDITION", message: "not yet registered" });
  }, { watch });
});

Deno.test("a peer killed with SIGKILL is noticed by its connection, not by its silence", async () => {
  const [server, client] = await twoNodes();
  await withPeerProcess(server, client, async (process, port, peers) => {
    const ends: string[] = [];
    const one = watched(peers, port, { onEnd: (why) => ends.push(why) });
    await one.began;
    process.kill("SIGKILL");
    await one.ended;
    assert.match(ends.join(), /Connection dropped|ECONNRESET/);
  });
});

Deno.test("a connection that fell silent is noticed by its watcher, and calls go on over a new one", async () => {
  const [server, client] = await twoNodes();
  await withServer({ server, client }, async ({ port }, peers) => {
    const link = await FaultyLink.to(port);
    const one = watched(peers, link.port);
    await one.began;
    link.strand();
    const stranded_at = performance.now();
    await one.ended;
    assert.ok(performance.now() - stranded_at < BUSY_MS);
    assert.equal((await peers.to(at(link.port)).ping(asLeader, PATIENT)).ok, true);
    await link.close();
  });
});

Deno.test("a peer that froze is noticed by its watcher", async () => {
  const [server, client] = await twoNodes();
  await withPeerProcess(server, client, async (process, port, peers) => {
    const one = watched(peers, port);
    await one.began;
    const frozen_at = performance.now();
    process.kill("SIGSTOP");
    await one.ended;
    assert.ok(performance.now() - frozen_at < BUSY_MS);
  });
});

function anOrder(job_run_id: number): StartOrder {
  return {
    job_run_id,
    attempt: 1,
    command_name: "reports/nightly_export.ts",
    digest: "0123456789abcdef".repeat(4),
    due_unix_us: 1_800_000_000_123_456,
    priority: 120,
    assigning: true,
  };
}

function value<T>(answer: { ok: true; value: T } | { ok: false; code: string; message: string }): T {
  if (!answer.ok) throw new Error(`${answer.code}: ${answer.message}`);
  return answer.value;
}

function watched(peers: Peers, port: number, on: { onEnd?(why: string): void } = {}) {
  const began = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  peers.to(at(port)).watch(asLeader, {
    onStatus: () => began.resolve(),
    onEnd(why) {
      on.onEnd?.(why.message);
      ended.resolve();
    },
  });
  return { began: began.promise, ended: ended.promise };
}

async function withPeerProcess(
  server: TestNode,
  client: TestNode,
  act: (process: Deno.ChildProcess, port: number, peers: Peers) => Promise<void>,
): Promise<void> {
  const program = new URL("../../support/cluster_peers.ts", import.meta.url).pathname;
  const folder = server.files.cert_file.replace("/tls.crt", "");
  const config = new URL("../../../deno.json", import.meta.url).pathname;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--config", config, "--allow-all", program, folder],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const tls = new Tls(client.files);
  const peers = new Peers(tls);
  const reader = process.stdout.getReader();
  try {
    const { value: line } = await reader.read();
    await act(process, Number(new TextDecoder().decode(line)), peers);
  } finally {
    peers.close();
    await tls.close();
    try {
      process.kill("SIGKILL");
    } catch { /* killed by the test */ }
    await process.status;
    await reader.cancel();
  }
}

Deno.test("a worker that could take no connection, since it might open no more files, listens anew", () =>
  withCrammed(new URL("../../support/rpc_crammed.ts", import.meta.url), async ({ port, cram, says }) => {
    const peers = new Peers(new MeshTransport());
    const ping = () => peers.to(at(port, MESH)).ping(asLeader, PATIENT);
    try {
      await cram(async () =>
        assert.equal((await peers.to(at(port, MESH)).ping(asLeader, { deadline_ms: 500 })).ok, false)
      );
      await says(/loop\.failed .*arrived no more, so it listens anew/);
      await waitFor("an answer", async () => (await ping()).ok || undefined);
    } finally {
      peers.close();
    }
  }));
