/**
 * Calls to other workers. One channel for each (worker, address), made when it is first needed and made again when it
 * proves to be stuck.
 *
 * Every unary call has a deadline, and its failure is a value that the caller must look at. A failure says that no
 * answer came, never that the call had no effect: it may have been carried out. Watch has no deadline, but each of its
 * statuses has one, and who is silent is cut off. gRPC's keepalive would say farewell, of which a frozen process can die
 * when it wakes (abrupt_close.ts).
 */
import { type ClientReadableStream, Metadata, type MethodDefinition, type ServiceError } from "@grpc/grpc-js";
import { observe } from "../platform/facts.ts";
import { after, afterOnBeat, rest, wallClock } from "../platform/timers.ts";
import { type CallResult, type Failure, failureFrom, read } from "./call_result.ts";
import {
  type CallName,
  type CancelJobRequest,
  type CheckNodeRequest,
  type ConfirmContinuationRequest,
  type DrainRequest,
  type PingRequest,
  type StartJobRequest,
  type StartJobsRequest,
  type StartJobsResponse,
  type UnaryCalls,
  type WatchRequest,
  workerService,
  type WorkerStatus,
} from "./messages.ts";
import { type Channel, openChannel } from "./channel.ts";
import { OrderStream } from "./order_stream.ts";
import { RefusedServers } from "./refused_servers.ts";
import type { Meant, PresentedCertificates } from "./trust.ts";
import type { Transport } from "./transport.ts";

/** Where a worker is, as its row in Postgres says; with its fingerprint, nobody else is taken for it. */
export interface PeerAddress {
  worker_id: string;
  /** What its certificate must name when an authority vouches for it. */
  node_id?: string | null;
  grpc_host: string;
  grpc_port: number;
  tls_fingerprint?: string | null;
  /** That of before a rotation, which its connections may still show. */
  tls_former_fingerprint?: string | null;
}

export type { CallResult, Failure } from "./call_result.ts";

export interface CallOptions {
  deadline_ms?: number;
}

export interface WatchListener {
  onStatus(news: WorkerStatus): void;
  /** Once, when the stream is over for whatever reason but the watcher's own; the watcher decides what it means. */
  onEnd(why: Failure): void;
}

/** How long each call may take by default, and how often it is tried. Only calls that change nothing are tried again. */
const PATIENCE: Record<CallName, { deadline_ms: number; tries: number }> = {
  ping: { deadline_ms: 300, tries: 3 },
  getStatus: { deadline_ms: 300, tries: 3 },
  startJob: { deadline_ms: 2_000, tries: 1 },
  startJobs: { deadline_ms: 3_000, tries: 1 },
  cancelJob: { deadline_ms: 2_000, tries: 1 },
  drain: { deadline_ms: 2_000, tries: 1 },
  confirmContinuation: { deadline_ms: 1_000, tries: 1 },
  checkNode: { deadline_ms: 12_000, tries: 2 },
};
/** A worker sends a status each second, to whoever asks for no less. For the first one and from one to the next there is twice the time. */
const STATUS_EVERY_MS = 1_000;
const PAUSE_BETWEEN_TRIES_MS = 50;
/** A connect that was swallowed in the handshake is never given up by grpc-js (grpc/grpc-node#2785); a new channel is. */
const DEADLINES_BEFORE_NEW_CHANNEL = 2;

/** How long a channel that was replaced is kept for the calls on it: longer than any may take. */
export const OLD_CHANNEL_MS = 5_000;

/** All workers that this process talks to. */
export class Peers {
  readonly #transport: Transport;
  readonly #peers = new Map<string, Peer>();
  readonly #unhear: () => void;

  constructor(transport: Transport) {
    this.#transport = transport;
    this.#unhear = transport.onChange(() => {
      for (const peer of this.#peers.values()) peer.renewIdentity();
    });
  }

  /** The worker at that address; asking again gives the same one, with its connection. */
  to(address: PeerAddress): Peer {
    const key = `${address.worker_id} ${address.grpc_host} ${address.grpc_port}`;
    const known = this.#peers.get(key);
    if (known) {
      known.expect(address);
      return known;
    }
    const peer = new Peer(address, this.#transport);
    this.#peers.set(key, peer);
    return peer;
  }

  /** Closes the channels to all workers but these, e.g. those that are alive. */
  retain(worker_ids: Iterable<string>): void {
    const kept = new Set(worker_ids);
    for (const [key, peer] of this.#peers) {
      if (kept.has(peer.worker_id)) continue;
      this.#peers.delete(key);
      peer.close();
    }
  }

  close(): void {
    this.#unhear();
    this.retain([]);
  }
}

/** One other worker. */
class Peer {
  readonly worker_id: string;
  #address: PeerAddress;
  readonly #transport: Transport;
  readonly #calls = new Set<{ cancel(): void }>();
  #channel: Channel;
  #orders: OrderStream | undefined;
  #streams_orders = true;
  /** Close the channels that were replaced and still serve calls. */
  readonly #old = new Set<() => void>();
  #missed_deadlines = 0;
  readonly #told = new Set<string>();
  /** Whom the latest connection found, if that was right. */
  #server: PresentedCertificates | undefined;
  readonly #refused: RefusedServers;

  constructor(address: PeerAddress, transport: Transport) {
    this.worker_id = address.worker_id;
    this.#address = address;
    this.#transport = transport;
    this.#refused = new RefusedServers(transport);
    this.#channel = this.#connect();
  }

  ping(request: PingRequest, options?: CallOptions) {
    return this.#call("ping", request, options);
  }

  getStatus(request: PingRequest, options?: CallOptions) {
    return this.#call("getStatus", request, options);
  }

  startJob(request: StartJobRequest, options?: CallOptions) {
    return this.#call("startJob", request, options);
  }

  startJobs(request: StartJobsRequest, options?: CallOptions) {
    return this.#call("startJobs", request, options);
  }

  cancelJob(request: CancelJobRequest, options?: CallOptions) {
    return this.#call("cancelJob", request, options);
  }

  drain(request: DrainRequest, options?: CallOptions) {
    return this.#call("drain", request, options);
  }

  confirmContinuation(request: ConfirmContinuationRequest, options?: CallOptions) {
    return this.#call("confirmContinuation", request, options);
  }

  checkNode(request: CheckNodeRequest, options?: CallOptions) {
    return this.#call("checkNode", request, options);
  }

  /** Hears the peer's status now and at each change. The returned function ends it, silently. */
  watch(request: WatchRequest, listener: WatchListener): () => void {
    const method = workerService.Watch as MethodDefinition<WatchRequest, WorkerStatus>;
    const stream = this.#channel.client.makeServerStreamRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      request,
      new Metadata(),
      {},
    );
    return this.#follow(stream, listener, 2 * (request.status_every_ms || STATUS_EVERY_MS));
  }

  /** What its row says now. A server that it no longer names, as some time after a rotation, is dialed anew. */
  expect(address: PeerAddress): void {
    const before = meantBy(this.#address).fingerprints.join();
    this.#address = address;
    if (meantBy(address).fingerprints.join() === before) return;
    const kept = this.#server && this.#transport.refusal(this.#server, meantBy(address)) === undefined;
    if (!kept) this.#reconnect();
  }

  /** Uses the certificates of now: new calls on a new connection, old calls to their end, unless the pin is gone. */
  renewIdentity(): void {
    if (this.#server && this.#transport.refusal(this.#server) !== undefined) this.#cancelAll();
    this.#reconnect();
  }

  close(): void {
    this.#cancelAll();
    for (const close of this.#old) close();
    this.#old.clear();
    this.#channel.close();
  }

  async #call<Name extends CallName>(
    name: Name,
    request: UnaryCalls[Name]["request"],
    options: CallOptions = {},
  ): Promise<CallResult<UnaryCalls[Name]["response"]>> {
    const { deadline_ms, tries } = { ...PATIENCE[name], ...options };
    if (!(deadline_ms > 0 && deadline_ms < Infinity)) {
      throw new RangeError(`Cannot call ${name} with deadline ${deadline_ms} ms: it must be above 0 and finite`);
    }
    let answer = await this.#try(name, request, deadline_ms);
    for (let tried = 1; tried < tries && !answer.ok && isOfTheNetwork(answer); tried++) {
      await rest(PAUSE_BETWEEN_TRIES_MS);
      answer = await this.#try(name, request, deadline_ms);
    }
    if (answer.ok) this.#told.clear();
    else this.#report(name, answer);
    return answer;
  }

  async #try<Name extends CallName>(
    name: Name,
    request: UnaryCalls[Name]["request"],
    deadline_ms: number,
  ): Promise<CallResult<UnaryCalls[Name]["response"]>> {
    const answer = name === "startJobs"
      ? await this.#order(request as StartJobsRequest, deadline_ms) as CallResult<UnaryCalls[Name]["response"]>
      : await this.#once(methodOf(name), request, deadline_ms);
    if (!answer.ok && answer.code === "DEADLINE_EXCEEDED") {
      this.#missed_deadlines += 1;
      if (this.#missed_deadlines >= DEADLINES_BEFORE_NEW_CHANNEL) this.#reconnect();
    } else {
      this.#missed_deadlines = 0;
    }
    return answer;
  }

  /** Over the stream for orders; a worker of a version without it is called. */
  async #order(request: StartJobsRequest, deadline_ms: number): Promise<CallResult<StartJobsResponse>> {
    if (this.#streams_orders) {
      const answer = await (this.#orders ??= this.#openOrders()).ask(request, deadline_ms);
      if (answer.ok || answer.code !== "UNIMPLEMENTED") return answer;
      this.#streams_orders = false;
    }
    return await this.#once(methodOf("startJobs"), request, deadline_ms);
  }

  #openOrders(): OrderStream {
    const stream = new OrderStream(this.#channel.client, () => {
      this.#calls.delete(stream);
      if (this.#orders === stream) this.#orders = undefined;
    });
    this.#calls.add(stream);
    return stream;
  }

  #once<Request, Response>(
    method: MethodDefinition<Request, Response>,
    request: Request,
    deadline_ms: number,
  ): Promise<CallResult<Response>> {
    return new Promise((resolve) => {
      const call = this.#channel.client.makeUnaryRequest(
        method.path,
        method.requestSerialize,
        method.responseDeserialize,
        request,
        new Metadata(),
        { deadline: wallClock().getTime() + deadline_ms },
        (error, response) => {
          this.#calls.delete(call);
          resolve(error ? failureFrom(error) : read(response));
        },
      );
      this.#calls.add(call);
    });
  }

  #follow(stream: ClientReadableStream<WorkerStatus>, listener: WatchListener, within_ms: number): () => void {
    let over = false;
    const end = (why?: Failure) => {
      if (over) return;
      over = true;
      cancelPatience();
      this.#calls.delete(stream);
      stream.cancel();
      if (!why) return;
      this.#report("watch", why);
      listener.onEnd(why);
    };
    const channel = this.#channel;
    const giveUp = () => {
      this.#leave(channel);
      end({ ok: false, code: "DEADLINE_EXCEEDED", message: `no status came within ${within_ms} ms` });
    };
    let cancelPatience = afterOnBeat(within_ms, giveUp);
    this.#calls.add(stream);
    stream.on("data", (message: unknown) => {
      if (over) return;
      cancelPatience();
      cancelPatience = afterOnBeat(within_ms, giveUp);
      const news = read<WorkerStatus>(message);
      if (news.ok) {
        this.#told.clear();
        listener.onStatus(news.value);
      } else end(news);
    });
    stream.on("error", (error: ServiceError) => end(failureFrom(error)));
    stream.on("end", () => end({ ok: false, code: "UNAVAILABLE", message: "the peer ended the stream" }));
    return () => end();
  }

  #connect(): Channel {
    return openChannel(this.#transport, this.#address, {
      meant: () => meantBy(this.#address),
      onServer: (server, refusal) => {
        this.#server = refusal === undefined ? server : undefined;
        if (refusal) this.#refused.tell(this.#address, { server, reason: refusal });
      },
    });
  }

  #reconnect(): void {
    const old = this.#channel;
    this.#orders = undefined;
    this.#missed_deadlines = 0;
    this.#channel = this.#connect();
    const cancel = after(OLD_CHANNEL_MS, () => { // calls under way on it come to their end; a Watch begins anew
      this.#old.delete(cancelAndClose);
      old.close();
    });
    const cancelAndClose = () => {
      cancel();
      old.close();
    };
    this.#old.add(cancelAndClose);
  }

  /** Nothing comes over this channel any more: what is under way on it fails now. */
  #leave(silent: Channel): void {
    if (this.#channel === silent) {
      this.#orders = undefined;
      this.#channel = this.#connect();
    }
    silent.close();
  }

  #cancelAll(): void {
    for (const call of [...this.#calls]) call.cancel();
  }

  /** Once for each kind of failure until something succeeds: a peer that is gone is asked again and again. */
  #report(call: string, failure: Failure): void {
    const kind = `${call} ${failure.code}`;
    if (!this.#told.has(kind)) {
      observe("peer.failed", { worker_id: this.worker_id, call, error: `${failure.code}: ${failure.message}` });
    }
    this.#told.add(kind);
    if (/self.signed|certificate/i.test(failure.message)) {
      this.#refused.lookAndTell(this.#address, { meant: meantBy(this.#address), message: failure.message });
    }
  }
}

function meantBy({ tls_fingerprint, tls_former_fingerprint, node_id }: PeerAddress): Meant {
  const fingerprints = [tls_fingerprint, tls_former_fingerprint].filter((one) => typeof one === "string" && one !== "");
  return { fingerprints: fingerprints as string[], node_id: node_id ?? undefined };
}

const METHODS = new Map(Object.values(workerService).map((method) => [method.originalName, method]));

function methodOf<Name extends CallName>(name: Name) {
  return METHODS.get(name) as MethodDefinition<UnaryCalls[Name]["request"], UnaryCalls[Name]["response"]>;
}

function isOfTheNetwork(failure: Failure): boolean {
  return failure.code === "UNAVAILABLE" || failure.code === "DEADLINE_EXCEEDED";
}
