/** A TCP relay to a local port whose connections can go wrong in the ways in which networks do. */
import { connect, createServer, type Socket } from "node:net";

export interface Link {
  port: number;
  /** New connections are accepted and never pass a byte. */
  swallow: boolean;
  /** The connections of now never pass a byte again and stay open; new ones work. */
  strand(): void;
  close(): Promise<void>;
}

export async function aLink(to_port: number): Promise<Link> {
  const pairs = new Set<[Socket, Socket]>();
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    sockets.add(near.on("error", () => {}));
    if (link.swallow) return;
    const far = connect(to_port, "127.0.0.1");
    sockets.add(far.on("error", () => {}));
    near.pipe(far).pipe(near);
    pairs.add([near, far]);
  });
  const link: Link = {
    port: 0,
    swallow: false,
    strand() {
      for (const [near, far] of pairs) {
        near.unpipe(far).pause();
        far.unpipe(near).pause();
      }
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  link.port = await new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
  return link;
}
