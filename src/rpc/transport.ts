/**
 * How peers reach and know each other: mutual TLS (tls.ts), or the word of a service mesh (mesh_transport.ts). Which of the two is
 * said by SCHEDULER_TLS and by nothing else; neither falls back to the other.
 */
import type { Server, Socket } from "node:net";
import type { AbruptlyClosable } from "./abrupt_close.ts";
import type { Meant, PresentedCertificates } from "./trust.ts";

export interface Transport {
  /** Of the certificate in use; `MESH` where a mesh identifies. Goes into the worker's row, and orders are known by it. */
  readonly fingerprint: string;
  /** That of before, for as long as connections made with it may live; null when there is none. */
  readonly former_fingerprint: string | null;
  /** The same for all who let in the same peers. */
  readonly trust_digest: string;
  /** When the certificate in use ends; null where a mesh identifies. */
  readonly not_after: Date | null;
  /** Counts what was taken: 1 at the start, one more for each change of certificates. */
  readonly generation: number;
  /** Calls `listener` after each change; the returned function ends that. */
  onChange(listener: () => void): () => void;
  /** Makes a new certificate known, and gives the ms after which it may be used; a failure puts the change off. */
  announce: (() => Promise<number>) | undefined;
  /** Why a peer is not acceptable now, undefined when it is. */
  refusal(shown: PresentedCertificates | undefined, meant?: Meant): string | undefined;
  /** A listener that is not listening yet. `letIn` hears of each peer before a byte of it is read, and judges it. */
  listener(on: ListenerEvents): Server;
  /** For a gRPC channel. Made anew after each change. `meant` is asked at each connection, `onServer` hears the outcome. */
  clientCredentials(
    meant: () => Meant,
    onServer: (shown: PresentedCertificates | undefined, refusal: string | undefined) => void,
  ): AbruptlyClosable;
  /** Channel options that go with `clientCredentials`. */
  readonly client_options: Record<string, string>;
  /** Who listens there, for the log only: nothing is trusted and nothing is sent. */
  whoIsAt(host: string, port: number): Promise<PresentedCertificates | undefined>;
  close(): Promise<void>;
}

export interface ListenerEvents {
  letIn(
    socket: Socket,
    peer: { fingerprint: string | undefined; shown: PresentedCertificates | undefined; problem?: string },
  ): void;
  handshakeFailed(socket: Socket, error: Error): void;
}
