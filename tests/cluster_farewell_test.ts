/**
 * A worker that closes its channels sends no HTTP/2 GOAWAY: a Deno process can die of receiving one. The other side here
 * is a bare listener that keeps every byte, so that the frames can be read.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { AddressInfo } from "node:net";
import { Peers } from "../src/cluster/peers.ts";
import { MeshWire } from "../src/cluster/mesh.ts";
import { openWire, type Wire } from "../src/cluster/wire.ts";
import { twoNodes } from "./support/cluster_peers.ts";

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

Deno.test("closing the channels to peers cuts them, without a farewell", async () => {
  const [one, other] = await twoNodes();
  await closesWithoutFarewell(openWire({ tls: one.files }), openWire({ tls: other.files }));
});

Deno.test("the same in plain text, in a mesh", async () => {
  await closesWithoutFarewell(new MeshWire(), new MeshWire());
});

async function closesWithoutFarewell(one: Wire, other: Wire): Promise<void> {
  const heard: Uint8Array[] = [];
  const ended = Promise.withResolvers<void>();
  const called = Promise.withResolvers<void>();
  const server = other.listener({
    letIn(socket) {
      socket.write(EMPTY_SETTINGS);
      socket.on("data", (bytes: Uint8Array) => {
        heard.push(bytes);
        if (frameTypes(new Uint8Array(Buffer.concat(heard))).includes(HEADERS)) called.resolve();
      });
      socket.on("error", () => {}).on("close", () => ended.resolve());
    },
    handshakeFailed: (socket) => socket.destroy(),
  });
  try {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
    const { port } = server.address() as AddressInfo;
    const peers = new Peers(one);
    const answer = peers.to({ worker_id: "w1", grpc_host: "127.0.0.1", grpc_port: port })
      .ping({ caller_role: "worker", leader_epoch: 0 }, { deadline_ms: 20_000 });
    await called.promise;
    peers.close();
    await ended.promise;
    assert.equal((await answer).ok, false);
    const types = frameTypes(new Uint8Array(Buffer.concat(heard)));
    assert(types.includes(HEADERS) && !types.includes(GOAWAY), `frames: ${types.join(" ")}`);
  } finally {
    await new Promise((resolve) => server.close(resolve));
    await Promise.all([one.close(), other.close()]);
  }
}
