/** A worker of which only its gRPC port is there, in a process that may open few files. Prints the port, and what of it failed. */
import { hear } from "../../src/platform/facts.ts";
import { MeshTransport } from "../../src/rpc/mesh_transport.ts";
import { startServer } from "../../src/rpc/server.ts";
import { handlersThat } from "./cluster_peers.ts";

Deno.addSignalListener("SIGTERM", () => Deno.exit()); // as a worker: the first one takes files
hear((name, fact) => void (name === "loop.failed" && console.log(name, JSON.stringify(fact))));
const knocking = { every_ms: 200, patience_ms: 1_000 };
const handlers = handlersThat([], {});
console.log(
  (await startServer({ host: "127.0.0.1", port: 0, transport: new MeshTransport(), handlers, knocking })).port,
);
