/**
 * gRPC credentials whose connections can be cut: closed below HTTP/2, without its farewell.
 *
 * A client that closes in good order sends GOAWAY, and a Deno process that receives one can die of it with a failed
 * assertion of nghttp2 (denoland/deno#36788): one worker that stopped took others with it. So a channel is never just
 * closed: its sockets go first, and the peer sees a connection that ended.
 */
import type { ChannelCredentials } from "@grpc/grpc-js";
import type { Socket } from "node:net";

export interface AbruptlyClosable {
  credentials: ChannelCredentials;
  /** Destroys every connection that was made with these credentials, and refuses to make more. */
  cut(): void;
}

export function abruptlyClosable(credentials: ChannelCredentials): AbruptlyClosable {
  const sockets = new Set<Socket>();
  let over = false;
  const create = credentials._createSecureConnector.bind(credentials);
  credentials._createSecureConnector = (...args) => {
    const connector = create(...args);
    const connect = connector.connect.bind(connector);
    connector.connect = async (socket) => {
      // Also while the handshake is under way: who never answers it would keep this connection for ever, and each channel after it another.
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
      const made = await connect(socket);
      if (over) {
        made.socket.destroy();
        throw new Error("this channel was closed");
      }
      sockets.add(made.socket);
      made.socket.once("close", () => sockets.delete(made.socket));
      return made;
    };
    return connector;
  };
  return {
    credentials,
    cut() {
      over = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}
