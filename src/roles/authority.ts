/**
 * Who may order. The caller is known by its certificate, and that must be the one of the worker to which Postgres gave
 * the epoch that the order names. An older epoch is refused; one that was never seen is looked up before it is
 * believed, so that no peer can lock out the real leader with a number. One question to Postgres per epoch.
 */
import { observe } from "../base/facts.ts";
import { type Caller, RpcRefusal, type StartJobResponse } from "../cluster/protocol.ts";
import type { Sql } from "../store/db.ts";
import { currentLeader } from "../store/leadership.ts";
import type { Standing } from "./standing.ts";

export type OldEpoch = Pick<StartJobResponse, "message"> & { result: "REJECTED_OLD_EPOCH" };

export class Authority {
  readonly #sql: Sql;
  readonly #standing: Standing;
  #holder: { epoch: number; tls_fingerprint: string } | undefined;

  constructor(parts: { sql: Sql; standing: Standing }) {
    this.#sql = parts.sql;
    this.#standing = parts.standing;
  }

  /** A refusal when the term is over; undefined: obey. Throws when the caller is not who leads. */
  async refusal(epoch: number, caller: Caller): Promise<OldEpoch | undefined> {
    if (epoch < this.#standing.epoch) return this.#old(epoch);
    if (this.#holder?.epoch !== epoch) await this.#learn(epoch);
    if (epoch < this.#standing.epoch) return this.#old(epoch);
    if (this.#holder?.tls_fingerprint === caller.fingerprint) return undefined;
    await this.#learn(epoch); // it may have rotated its certificate since
    if (this.#holder?.tls_fingerprint === caller.fingerprint) return undefined;
    const reason = `it orders under epoch ${epoch}, which is another worker's`;
    observe("peer.refused", { reason, theirs: caller.fingerprint, ours: this.#holder?.tls_fingerprint ?? "" });
    throw new RpcRefusal("PERMISSION_DENIED", "Only the leader of this epoch may order");
  }

  async #learn(epoch: number): Promise<void> {
    const leader = await currentLeader(this.#sql);
    this.#standing.sawEpoch(leader.epoch);
    if (epoch > leader.epoch) {
      throw new RpcRefusal("FAILED_PRECONDITION", `Epoch ${epoch} was never issued: the newest is ${leader.epoch}`);
    }
    this.#holder = leader.tls_fingerprint === null
      ? undefined
      : { epoch: leader.epoch, tls_fingerprint: leader.tls_fingerprint };
  }

  #old(epoch: number): OldEpoch {
    const message = `Epoch ${epoch} is over: the newest seen is ${this.#standing.epoch}`;
    return { result: "REJECTED_OLD_EPOCH", message };
  }
}
