/** Who is no proper peer: somebody with any certificate who connects, or answers; and what the log says of it. */
import { connect as connectTls, createServer, type TLSSocket } from "node:tls";
import { type Facts, hear } from "../../src/base/facts.ts";
import type { NodeCertificate } from "../../src/cluster/certs.ts";

export async function hearing<Name extends keyof Facts>(
  name: Name,
  act: (heard: Facts[Name][]) => Promise<void>,
): Promise<void> {
  const heard: Facts[Name][] = [];
  const silence = hear((fact_name, fact) =>
    void (fact_name as string === name && heard.push(fact as unknown as Facts[Name]))
  );
  try {
    await act(heard);
  } finally {
    silence();
  }
}

export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 5_000;
  while (!await holds()) {
    if (performance.now() > deadline) throw new Error(`Waited 5 s for ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** What a server sends to somebody who completes the handshake with this certificate and speaks HTTP/2. */
export function bytesFrom(port: number, identity?: NodeCertificate): Promise<number> {
  return new Promise((resolve) => {
    let bytes = 0;
    const socket = connectTls({
      host: "127.0.0.1",
      port,
      servername: "dandori-worker",
      rejectUnauthorized: false,
      cert: identity?.certificate,
      key: identity?.private_key,
      ALPNProtocols: ["h2"],
    }, () => socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"));
    socket.on("data", (data: Uint8Array) => {
      bytes += data.length;
      socket.destroy();
    });
    socket.on("error", () => {}).on("close", () => resolve(bytes));
  });
}

/** A TLS server with any certificate, good or not, that would take any client. */
export async function withBareServer(identity: NodeCertificate, act: (port: number) => Promise<void>): Promise<void> {
  const sockets = new Set<TLSSocket>();
  const server = createServer(
    { cert: identity.certificate, key: identity.private_key, ALPNProtocols: ["h2"] },
    (socket) => {
      sockets.add(socket);
      socket.on("error", () => {});
    },
  );
  server.on("tlsClientError", () => {});
  const port = await new Promise<number>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
  try {
    await act(port);
  } finally {
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  }
}
