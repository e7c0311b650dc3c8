/**
 * A worker that closes its channels sends no HTTP/2 GOAWAY: a Deno process can die of receiving one. The other side here
 * is a bare listener that keeps every byte, so that the frames can be read.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { AddressInfo } from "node:net";
import { type Failure, type PeerAddress, Peers } from "../../src/rpc/peers.ts";
import { MeshTransport } from "../../src/rpc/mesh_transport.ts";
import { openTransport } from "../../src/rpc/open_transport.ts";
import type { Transport } from "../../src/rpc/transport.ts";
import { twoNodes } from "../support/cluster_peers.ts";

const SETTINGS = 4, HEADERS = 1, GOAWAY = 7;
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".length;
const EMPTY_SETTINGS = new Uint8Array([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]);

function frameTypes(bytes: Uint8Array): number[] {
  const types: number[] = [];
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (let at = PREFACE; at + 9 <= bytes.length;) {
    types.push(view.getUint8(at + 3));
    at += 9 + (view.getUint32(at) >>> 8);
  }
  return types;
}

interface Mute {
  peers: Peers;
  address: PeerAddress;
  /** Types of the frames that it was sent. */
  frames(): number[];
  /** It was sent a call. */
  called: Promise<void>;
  /** The connection is over. */
  ended: Promise<void>;
}

Deno.test("closing the channels to peers cuts them, without a farewell", () => withMute(inTls, closesWithoutFarewell));

Deno.test("the same in plain text, in a mesh", () => withMute(inMesh, closesWithoutFarewell));

async function closesWithoutFarewell({ peers, address, frames, called, ended }: Mute): Promise<void> {
  const answer = peers.to(address).ping({ caller_role: "worker", leader_epoch: 0 }, { deadline_ms: 20_000 });
  await called;
  peers.close();
  await ended;
  assert.equal((await answer).ok, false);
  const types = frames();
  assert(types.includes(HEADERS) && !types.includes(GOAWAY), `frames: ${types.join(" ")}`);
}

Deno.test("a peer that is silent is cut off without a farewell, which would wait for it until it wakes", () =>
  withMute(inTls, async ({ peers, address, frames, ended }) => {
    const watched = Promise.withResolvers<Failure>();
    const request = { caller_role: "subleader" as const, leader_epoch: 0 };
    peers.to(address).watch(request, { onStatus: () => {}, onEnd: watched.resolve });
    const { code } = await watched.promise;
    await ended;
    const types = frames();
    assert(types.includes(HEADERS) && !types.includes(GOAWAY), `frames: ${types.join(" ")}`);
    assert.equal(code, "DEADLINE_EXCEEDED");
  }));

async function inTls(): Promise<[Transport, Transport]> {
  const [one, other] = await twoNodes();
  return [openTransport({ tls: one.files }), openTransport({ tls: other.files })];
}

function inMesh(): Promise<[Transport, Transport]> {
  return Promise.resolve([new MeshTransport(), new MeshTransport()]);
}

/** A server that keeps every byte of its first client, and answers with nothing but its settings. */
async function withMute(
  wires: () => Promise<[Transport, Transport]>,
  test: (mute: Mute) => Promise<void>,
): Promise<void> {
  const [one, other] = await wires();
  const heard: Uint8Array[] = [];
  const frames = () => frameTypes(new Uint8Array(Buffer.concat(heard)));
  const ended = Promise.withResolvers<void>();
  const called = Promise.withResolvers<void>();
  let clients = 0;
  const server = other.listener({
    letIn(socket) {
      socket.on("error", () => {});
      if (++clients > 1) return void socket.destroy();
      socket.write(EMPTY_SETTINGS);
      socket.on("data", (bytes: Uint8Array) => {
        heard.push(bytes);
        if (frames().includes(HEADERS)) called.resolve();
      });
      socket.on("close", () => ended.resolve());
    },
    handshakeFailed: (socket) => socket.destroy(),
  });
  const peers = new Peers(one);
  try {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
    const { port } = server.address() as AddressInfo;
    const address = { worker_id: "w1", grpc_host: "127.0.0.1", grpc_port: port };
    await test({ peers, address, frames, called: called.promise, ended: ended.promise });
  } finally {
    peers.close();
    await new Promise((resolve) => server.close(resolve));
    await Promise.all([one.close(), other.close()]);
  }
}
