/** Says in the log which servers were refused and why, with both fingerprints: once each, and not at every attempt. */
import { observe } from "../platform/facts.ts";
import type { Meant, Shown } from "./trust.ts";
import type { Wire } from "./transport.ts";

interface Where {
  worker_id: string;
  grpc_host: string;
  grpc_port: number;
}

export class RefusedServers {
  readonly #wire: Wire;
  #told = "";
  #looked_at_generation = 0;

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  tell(at: Where, { server, reason }: { server: Shown | undefined; reason: string }): void {
    const theirs = server?.certificate.fingerprint ?? "unknown";
    const told = `${this.#wire.generation} ${theirs} ${reason}`;
    if (told === this.#told) return;
    this.#told = told;
    this.#looked_at_generation = this.#wire.generation;
    observe("peer.refused", {
      reason: `server of ${at.worker_id} at ${at.grpc_host}:${at.grpc_port}: ${reason}`,
      theirs,
      ours: this.#wire.fingerprint,
    });
  }

  /** The TLS library refuses an unknown server before it shows whom: look who is there, once for each set of pins. */
  async lookAndTell(at: Where, failed: { meant: Meant; message: string }): Promise<void> {
    if (this.#looked_at_generation === this.#wire.generation) return;
    this.#looked_at_generation = this.#wire.generation;
    const server = await this.#wire.whoIsAt(at.grpc_host, at.grpc_port);
    const reason = (server && this.#wire.refusal(server, failed.meant)) ?? failed.message;
    this.tell(at, { server, reason });
  }
}
