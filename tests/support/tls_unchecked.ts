/** A peer that does not know the server's certificate calls it, and prints what came of that. For NODE_TLS_REJECT_UNAUTHORIZED=0. */
import { aNode, asLeader, at, withServer } from "./cluster_peers.ts";

const client = await aNode("client");
const server = await aNode("server", { pins: [client] });
await withServer({ server, client }, async ({ port, callers }, peers) => {
  const { ok } = await peers.to(at(port)).ping(asLeader);
  console.log(`${ok ? "answered" : "refused"}, ${callers.length} callers`);
});
