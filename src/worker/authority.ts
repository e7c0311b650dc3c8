/**
 * Who may order. The caller is known by its certificate, and that must be the one of the worker to which Postgres gave
 * the epoch that the order names, or for a minute after a rotation the one it had before. In a mesh all callers are
 * "mesh", and so is the leader's row: there the epoch alone decides. An older epoch is refused; one that was never seen is looked up before it is
 * believed, so that no peer can lock out the real leader with a number. One question to Postgres per epoch.
 */
import { observe } from "../platform/facts.ts";
import { type Caller, RpcRefusal, type StartJobResponse } from "../rpc/messages.ts";
import type { Sql } from "../postgres/connection.ts";
import { currentLeader } from "../nodes/leadership.ts";
import type { LocalWorkerState } from "./worker_state.ts";

export type OldEpoch = Pick<StartJobResponse, "message"> & { result: "REJECTED_OLD_EPOCH" };

export class LeaderAuthority {
  readonly #sql: Sql;
  readonly #local: LocalWorkerState;
  #holder: { epoch: number; fingerprint: string; former: string | null } | undefined;

  constructor(parts: { sql: Sql; local: LocalWorkerState }) {
    this.#sql = parts.sql;
    this.#local = parts.local;
  }

  /** A refusal when the term is over; undefined: obey. Throws when the caller is not who leads. */
  async refusal(epoch: number, caller: Caller): Promise<OldEpoch | undefined> {
    if (epoch < this.#local.epoch) return this.#old(epoch);
    if (this.#holder?.epoch !== epoch) await this.#learn(epoch);
    if (epoch < this.#local.epoch) return this.#old(epoch);
    if (this.#holder?.fingerprint === caller.fingerprint) return undefined;
    await this.#learn(epoch); // it may have rotated its certificate since, and still use a connection of before
    const holder = this.#holder;
    if (holder?.fingerprint === caller.fingerprint || holder?.former === caller.fingerprint) return undefined;
    const reason = `it orders under epoch ${epoch}, which is another worker's`;
    observe("peer.refused", { reason, theirs: caller.fingerprint, ours: holder?.fingerprint ?? "" });
    throw new RpcRefusal("PERMISSION_DENIED", "Only the leader of this epoch may order");
  }

  async #learn(epoch: number): Promise<void> {
    const leader = await currentLeader(this.#sql);
    this.#local.sawEpoch(leader.epoch);
    if (epoch > leader.epoch) {
      throw new RpcRefusal("FAILED_PRECONDITION", `Epoch ${epoch} was never issued: the newest is ${leader.epoch}`);
    }
    this.#holder = leader.tls_fingerprint === null
      ? undefined
      : { epoch: leader.epoch, fingerprint: leader.tls_fingerprint, former: leader.tls_former_fingerprint };
  }

  #old(epoch: number): OldEpoch {
    const message = `Epoch ${epoch} is over: the newest seen is ${this.#local.epoch}`;
    return { result: "REJECTED_OLD_EPOCH", message };
  }
}
