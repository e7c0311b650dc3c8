/**
 * The network between the processes, in place of gRPC: the production handlers are called, with the failures as values
 * that a channel would give. A call may be lost, delivered twice, or delivered when its caller has long given up.
 */
import { after, rest } from "../../../src/platform/timers.ts";
import type { CallResult, Failure, PeerAddress, Peers, WatchListener } from "../../../src/rpc/peers.ts";
import {
  type Caller,
  RpcRefusal,
  type StartJobsRequest,
  type WatchRequest,
  type WorkerHandlers,
} from "../../../src/rpc/messages.ts";
import { Crashed, type SimProcess } from "./process.ts";
import { awayFor, count, later, undo, type World } from "./world.ts";

/** A process that listens. What is sent to its port reaches whoever listens there now. */
export interface Endpoint {
  port: number;
  process: SimProcess;
  fingerprint: string;
  handlers: WorkerHandlers;
}

interface Stream {
  from: SimProcess;
  to: Endpoint;
  end(why: Failure): void;
}

const DEADLINE_MS = 200;
const KEEPALIVE_MS = 100;
const LATEST_MS = 900;

export class Network {
  readonly #world: World;
  readonly #endpoints = new Map<number, Endpoint>();
  readonly #streams = new Set<Stream>();
  /** The last order to each port of each run. */
  readonly #orders = new Map<string, StartJobsRequest>();
  /** Pairs that do not hear each other. */
  readonly #cut = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }

  get endpoints(): Endpoint[] {
    return [...this.#endpoints.values()];
  }

  open(endpoint: Endpoint): void {
    this.#endpoints.set(endpoint.port, endpoint);
    endpoint.process.end.addEventListener("abort", () => this.close(endpoint), { once: true });
  }

  close(endpoint: Endpoint): void {
    if (this.#endpoints.get(endpoint.port) === endpoint) this.#endpoints.delete(endpoint.port);
    for (const stream of this.#streams) {
      if (stream.to === endpoint) stream.end(failure("UNAVAILABLE", "the peer ended"));
    }
  }

  /** Nothing passes between the two for a while. */
  cut(one: SimProcess, other: SimProcess, ms: number): void {
    const pair = pairOf(one, other);
    this.#cut.add(pair);
    undo(this.#world, ms, () => this.#cut.delete(pair));
    undo(this.#world, KEEPALIVE_MS * this.#world.scale, () => {
      for (const stream of this.#streams) {
        if (pairOf(stream.from, stream.to.process) === pair) stream.end(failure("UNAVAILABLE", "the peer fell silent"));
      }
    });
  }

  /** All other workers, as one of them sees them. */
  peersOf(me: { process: SimProcess; fingerprint: string }): Peers {
    const to = ({ grpc_port }: PeerAddress) => {
      const call = (name: keyof WorkerHandlers) => (request: unknown) =>
        this.#call(me, { port: grpc_port, name, request }).catch(asValue);
      return {
        ping: call("ping"),
        getStatus: call("getStatus"),
        startJob: call("startJob"),
        startJobs: call("startJobs"),
        cancelJob: call("cancelJob"),
        drain: call("drain"),
        checkNode: call("checkNode"),
        confirmContinuation: call("confirmContinuation"),
        watch: (request: WatchRequest, listener: WatchListener) =>
          this.#watch(me, { port: grpc_port, request, listener }),
      };
    };
    return { to, retain: () => {}, close: () => {} } as unknown as Peers;
  }

  async #call(
    me: { process: SimProcess; fingerprint: string },
    sent: { port: number; name: keyof WorkerHandlers; request: unknown },
  ): Promise<CallResult<unknown>> {
    const { weather, chance, scale } = this.#world;
    const deadline_ms = DEADLINE_MS * scale;
    if (chance.happens(weather.pause)) {
      count(this.#world, "paused before a call");
      me.process.freeze(awayFor(this.#world));
    }
    await me.process.passes();
    if (isAhead(sent.request)) count(this.#world, "orders ahead of their assignment");
    const target = this.#endpoints.get(sent.port);
    if (!target) return failure("UNAVAILABLE", "connect ECONNREFUSED");
    const silence = failure("DEADLINE_EXCEEDED", "no answer in time");
    const deliver = async (wait_ms = 0) => {
      await rest(wait_ms);
      return await this.#deliver(me, { ...sent, target });
    };
    if (chance.happens(weather.rpc_twice)) {
      count(this.#world, "calls delivered twice");
      later(this.#world, deliver(scale * chance.between(0, LATEST_MS)));
    }
    if (sent.name === "startJobs") this.#replay(me, { target, request: sent.request as StartJobsRequest });
    const late = chance.happens(weather.rpc_late);
    if (late) {
      count(this.#world, "calls delivered late");
      later(this.#world, deliver(scale * chance.between(0, LATEST_MS)));
    }
    if (late || chance.happens(weather.rpc_lost) || this.#isCut(me.process, target.process)) {
      await rest(deadline_ms);
      await me.process.passes();
      return silence;
    }
    let cancel = () => {};
    const patience = new Promise<Failure>((resolve) => cancel = after(deadline_ms, () => resolve(silence)));
    const answer = deliver(chance.happens(weather.rpc_slow) ? chance.between(0, 0.8 * deadline_ms) : 0);
    later(this.#world, answer);
    const heard = await Promise.race([answer, patience]).finally(cancel);
    await me.process.passes();
    return chance.happens(weather.rpc_lost) ? silence : heard;
  }

  /** What was ordered of the same run before may come again, just before the new order. */
  #replay(
    me: { process: SimProcess; fingerprint: string },
    sent: { target: Endpoint; request: StartJobsRequest },
  ): void {
    const { leader_epoch } = sent.request;
    for (const order of sent.request.orders) {
      const key = `${sent.target.port} ${order.job_run_id}`;
      const old = this.#orders.get(key);
      this.#orders.set(key, { leader_epoch, orders: [order] });
      if (!old || !this.#world.chance.happens(this.#world.weather.rpc_replay)) continue;
      count(this.#world, "orders of an older attempt");
      later(this.#world, this.#deliver(me, { target: sent.target, name: "startJobs", request: old }));
    }
  }

  async #deliver(
    me: { process: SimProcess; fingerprint: string },
    sent: { target: Endpoint; name: keyof WorkerHandlers; request: unknown },
  ): Promise<CallResult<unknown>> {
    const { process, handlers } = sent.target;
    try {
      await process.passes();
      if (this.#isCut(me.process, process)) return failure("UNAVAILABLE", "the peer fell silent");
      const handler = handlers[sent.name] as (request: unknown, caller: Caller) => unknown;
      const value = structuredClone(await handler(structuredClone(sent.request), callerFrom(me)));
      await process.passes();
      return { ok: true, value };
    } catch (error) {
      if (error instanceof RpcRefusal) return failure(error.code, error.message);
      return failure(error instanceof Crashed ? "UNAVAILABLE" : "INTERNAL", String(error));
    }
  }

  #watch(
    me: { process: SimProcess; fingerprint: string },
    sent: { port: number; request: WatchRequest; listener: WatchListener },
  ): () => void {
    const over = new AbortController();
    const to = this.#endpoints.get(sent.port);
    const end = (why?: Failure) => {
      if (over.signal.aborted) return;
      over.abort();
      if (stream) this.#streams.delete(stream);
      if (why && !me.process.crashed) later(this.#world, me.process.passes().then(() => sent.listener.onEnd(why)));
    };
    const stream = to && { from: me.process, to, end };
    if (!stream) {
      later(this.#world, Promise.resolve().then(() => end(failure("UNAVAILABLE", "connect ECONNREFUSED"))));
      return () => end();
    }
    this.#streams.add(stream);
    const stopped = AbortSignal.any([over.signal, me.process.end, stream.to.process.end]);
    const follow = async () => {
      await stream.to.process.passes();
      for await (const news of stream.to.handlers.watch(sent.request, callerFrom(me), stopped)) {
        await stream.to.process.passes();
        if (this.#isCut(me.process, stream.to.process)) return end(failure("UNAVAILABLE", "the peer fell silent"));
        await me.process.passes();
        if (stopped.aborted) break;
        sent.listener.onStatus(structuredClone(news));
      }
      end(failure("UNAVAILABLE", "the peer ended the stream"));
    };
    later(this.#world, follow());
    return () => end();
  }

  #isCut(one: SimProcess, other: SimProcess): boolean {
    return this.#cut.has(pairOf(one, other));
  }
}

/** Whether it orders a lone run whose assignment is being written. */
function isAhead(request: unknown): boolean {
  return (request as Partial<StartJobsRequest>).orders?.some(({ assigning }) => assigning) ?? false;
}

/** A call never throws; also not to a caller that is no more. */
function asValue(error: unknown): Failure {
  if (error instanceof Crashed) return failure("UNAVAILABLE", "the caller was killed");
  throw error;
}

function pairOf(one: SimProcess, other: SimProcess): string {
  return [one.name, other.name].sort().join(" ");
}

function callerFrom({ fingerprint }: { fingerprint: string }): Caller {
  return { fingerprint, address: "stress" };
}

function failure(code: Failure["code"], message: string): Failure {
  return { ok: false, code, message };
}
