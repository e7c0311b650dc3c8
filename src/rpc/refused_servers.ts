/** Says in the log which servers were refused and why, with both fingerprints: once each, and not at every attempt. */
import { observe } from "../platform/facts.ts";
import type { Meant, PresentedCertificates } from "./trust.ts";
import type { Transport } from "./transport.ts";

interface Where {
  worker_id: string;
  grpc_host: string;
  grpc_port: number;
}

export class RefusedServers {
  readonly #transport: Transport;
  #told = "";
  #looked_at_generation = 0;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  tell(at: Where, { server, reason }: { server: PresentedCertificates | undefined; reason: string }): void {
    const theirs = server?.certificate.fingerprint ?? "unknown";
    const told = `${this.#transport.generation} ${theirs} ${reason}`;
    if (told === this.#told) return;
    this.#told = told;
    this.#looked_at_generation = this.#transport.generation;
    observe("peer.refused", {
      reason: `server of ${at.worker_id} at ${at.grpc_host}:${at.grpc_port}: ${reason}`,
      theirs,
      ours: this.#transport.fingerprint,
    });
  }

  /** The TLS library refuses an unknown server before it shows whom: look who is there, once for each set of pins. */
  async lookAndTell(at: Where, failed: { meant: Meant; message: string }): Promise<void> {
    if (this.#looked_at_generation === this.#transport.generation) return;
    this.#looked_at_generation = this.#transport.generation;
    const server = await this.#transport.whoIsAt(at.grpc_host, at.grpc_port);
    const reason = (server && this.#transport.refusal(server, failed.meant)) ?? failed.message;
    this.tell(at, { server, reason });
  }
}
