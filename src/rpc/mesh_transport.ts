/**
 * Plain text between workers, where a service mesh encrypts and says who may connect. Every peer looks the same from here:
 * whoever reaches the port is taken for a worker. What is left of authority then is the epoch, which must be the newest
 * in Postgres, and the rows, which decide what may run (docs/tls.md says what a stranger could do).
 */
import { credentials } from "@grpc/grpc-js";
import { createServer, type Server } from "node:net";
import { abruptlyClosable } from "./abrupt_close.ts";
import type { ListenerEvents, Transport } from "./transport.ts";

/** Stands where a certificate's fingerprint would. A peer with certificates never has it, so the two kinds cannot mix. */
export const MESH = "mesh";

export class MeshTransport implements Transport {
  readonly fingerprint = MESH;
  readonly former_fingerprint = null;
  readonly trust_digest = MESH;
  readonly not_after = null;
  readonly generation = 1;
  readonly client_options = {};
  announce: undefined;

  onChange(): () => void {
    return () => {};
  }

  refusal(): undefined {
    return undefined;
  }

  listener(on: ListenerEvents): Server {
    return createServer((socket) => on.letIn(socket, { fingerprint: MESH, shown: undefined }));
  }

  clientCredentials() {
    return abruptlyClosable(credentials.createInsecure());
  }

  whoIsAt(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
