/** Who is no proper peer: somebody with any certificate who connects, or answers; and what the log says of it. */
import { connect as connectTls, createServer, type TLSSocket } from "node:tls";
import { type Facts, hear } from "../../src/platform/facts.ts";
import { within } from "../../src/platform/timers.ts";
import type { NodeCertificate } from "../../src/rpc/certificates.ts";

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

/**
 * What a server answers to somebody who speaks TLS 1.2 at most: the type of its record, 0x16 for a handshake that goes on, 0x15 for an
 * alert, and of that its number. The words are written by hand, since a library may leave out what it finds too old.
 */
export async function answerToTls12(port: number): Promise<{ record: number; alert: number }> {
  const socket = await Deno.connect({ hostname: "127.0.0.1", port });
  try {
    await socket.write(CLIENT_HELLO);
    const answer = new Uint8Array(7);
    const read = await within(ANSWER_MS, "the answer to a TLS 1.2 handshake", socket.read(answer));
    return { record: read ? answer[0] as number : 0, alert: read === 7 ? answer[6] as number : 0 };
  } finally {
    socket.close();
  }
}

const CLIENT_HELLO = Uint8Array.fromHex(
  [
    "16 0301 0048 01 000044 0303", // a handshake; a client's hello; TLS 1.2
    "00".repeat(32), // random
    "00 0004 c02b c02f 01 00", // no session; ECDHE with AES-128-GCM for ECDSA and for RSA; no compression
    "0017", // extensions
    "000a 0004 0002 0017", // groups: secp256r1
    "000d 0006 0004 0403 0804", // signatures: ECDSA and RSA-PSS with SHA-256
    "ff01 0001 00", // no renegotiation
  ].join("").replaceAll(" ", ""),
);

/** For what is sure to come. */
export const ANSWER_MS = 20_000;

/** What a server sends to somebody who completes the handshake with this certificate and speaks HTTP/2. */
export async function bytesFrom(port: number, identity?: NodeCertificate): Promise<number> {
  let socket: TLSSocket | undefined;
  const ended = new Promise<number>((resolve) => {
    let bytes = 0;
    const stranger = socket = connectTls({
      host: "127.0.0.1",
      port,
      servername: "dandori-worker",
      rejectUnauthorized: false,
      cert: identity?.certificate,
      key: identity?.private_key,
      ALPNProtocols: ["h2"],
    }, () => stranger.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"));
    stranger.on("data", (data: Uint8Array) => {
      bytes += data.length;
      stranger.destroy();
    });
    stranger.on("error", () => {}).on("close", () => resolve(bytes));
  });
  try {
    return await within(ANSWER_MS, "a server that should answer or hang up", ended);
  } finally {
    socket?.destroy();
  }
}

/** A TLS server with any certificate, good or not, that would take any client; `taken`: those whose handshake it has completed. */
export async function withBareServer(
  identity: NodeCertificate,
  act: (port: number, taken: ReadonlySet<unknown>) => Promise<void>,
  newest: "TLSv1.2" | "TLSv1.3" = "TLSv1.3",
): Promise<void> {
  const sockets = new Set<TLSSocket>();
  const server = createServer(
    { cert: identity.certificate, key: identity.private_key, maxVersion: newest, ALPNProtocols: ["h2"] },
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
    await act(port, sockets);
  } finally {
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  }
}
