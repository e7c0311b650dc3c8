/**
 * The gRPC server of a worker. Peers reach the handlers only through the door (peer_listener.ts), which every call asks again,
 * since pins change while connections live.
 *
 * The server never sends GOAWAY: the process that receives one may die of it (denoland/deno#36788, seen on 2.9.6 as a
 * segmentation fault within a few tries). So gRPC's own shutdown and its keepalive of connections are not used here;
 * calls and streams are ended, then the sockets are cut. Frozen or lost watchers are left to TCP.
 *
 * Promised to handlers: who calls is proven, or, with a mesh, was let in by it; ids and epochs are exact numbers; a thrown
 * error tells the caller nothing about the inside. Not promised: that the caller is the leader, which the handler must
 * judge by fingerprint and epoch.
 */
import {
  type sendUnaryData,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { Socket } from "node:net";
import { observe } from "../platform/facts.ts";
import { rest } from "../platform/timers.ts";
import { addressText } from "../platform/text.ts";
import { CLOSE_GRACE_MS, type IncomingConnection, PeerListener } from "./peer_listener.ts";
import {
  admit,
  BadMessage,
  type Caller,
  type CallName,
  type OrdersRequest,
  type OrdersResponse,
  RpcRefusal,
  type StartJobsResponse,
  type WatchRequest,
  type WorkerHandlers,
  workerService,
  type WorkerStatus,
} from "./messages.ts";
import type { Transport } from "./transport.ts";

/** Room for about 2,000 orders in one StartJobs. */
const MAX_REQUEST_BYTES = 256 * 1024;
/** For the last replies to leave, before the connections are cut: several turns, since after a stall a timer comes before what waits to be sent. */
const FLUSH_MS = 20;
const FLUSH_TURNS = 5;

const SERVER_OPTIONS = {
  "grpc.max_receive_message_length": MAX_REQUEST_BYTES,
  "grpc.enable_channelz": 0,
};

export interface ServerOptions {
  host: string;
  /** 0: any free one. */
  port: number;
  transport: Transport;
  handlers: WorkerHandlers;
  /** How it looks whether what connects to it arrives; default: twice a minute. */
  knocking?: IncomingConnection;
}

export interface RunningServer {
  /** "host:port", as peers may dial it. */
  address: string;
  port: number;
  /** Ends watches, lets calls under way finish for half a second, then closes every connection. */
  close(): Promise<void>;
}

/** Listens; rejects with the reason and the fix when the address cannot be had. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const door = new PeerListener(options.transport);
  const stop = new AbortController();
  const grpc = new Server(SERVER_OPTIONS);
  const under_way = new UnderWay();
  grpc.addService(workerService, implementation(options.handlers, { door, stop: stop.signal, under_way }));
  // The listener is ours, so that a refused peer can be named; gRPC sees only connections that were let in.
  const inside = grpc.createConnectionInjector(ServerCredentials.createInsecure());
  const letIn = (socket: Socket) => inside.injectConnection(socket);
  const port = await door.open({ host: options.host, port: options.port, letIn }, options.knocking);
  return {
    address: addressText(options.host, port),
    port,
    async close() {
      stop.abort();
      door.stopListening();
      await Promise.race([under_way.none(), rest(CLOSE_GRACE_MS)]);
      for (let turn = 0; turn < FLUSH_TURNS; turn++) await rest(FLUSH_MS / FLUSH_TURNS);
      await door.close();
    },
  };
}

/** The calls that are being answered. */
class UnderWay {
  #count = 0;
  #idle: (() => void)[] = [];

  async whilst<T>(work: Promise<T>): Promise<T> {
    this.#count += 1;
    try {
      return await work;
    } finally {
      this.#count -= 1;
      if (this.#count === 0) this.#idle.splice(0).forEach((resolve) => resolve());
    }
  }

  none(): Promise<void> {
    return this.#count === 0 ? Promise.resolve() : new Promise((resolve) => this.#idle.push(resolve));
  }
}

interface Inside {
  door: PeerListener;
  stop: AbortSignal;
  under_way: UnderWay;
}

function implementation(handlers: WorkerHandlers, inside: Inside): UntypedServiceImplementation {
  const unary = (name: CallName) => (call: ServerUnaryCall<object, object>, reply: sendUnaryData<object>) => {
    const answered = answer(handlers, name, { call, door: inside.door });
    inside.under_way.whilst(answered).then((value) => reply(null, value), (error) => reply(error));
  };
  return {
    Ping: unary("ping"),
    GetStatus: unary("getStatus"),
    StartJob: unary("startJob"),
    StartJobs: unary("startJobs"),
    CancelJob: unary("cancelJob"),
    Drain: unary("drain"),
    ConfirmContinuation: unary("confirmContinuation"),
    CheckNode: unary("checkNode"),
    Orders: (call: ServerDuplexStream<OrdersRequest, OrdersResponse>) => serveOrders(handlers, call, inside),
    Watch: (call: ServerWritableStream<WatchRequest, WorkerStatus>) => {
      const watched = serveWatch(handlers, call, inside);
      inside.under_way.whilst(watched).then(() => call.end(), (error) => call.emit("error", error));
    },
  };
}

/** Rejects only with what a gRPC status is made of. */
async function answer(
  handlers: WorkerHandlers,
  name: CallName,
  on: { call: { request: object; getPeer(): string }; door: PeerListener },
): Promise<object> {
  const caller = callerOf(on.call, on.door);
  try {
    const handler = handlers[name] as (request: object, caller: Caller) => object | Promise<object>;
    return await handler.call(handlers, admit(on.call.request), caller);
  } catch (error) {
    throw asStatus(error, { call: name, caller: caller.fingerprint });
  }
}

/** Each message as the call that it stands for; the answers go out as they come. */
function serveOrders(
  handlers: WorkerHandlers,
  call: ServerDuplexStream<OrdersRequest, OrdersResponse>,
  inside: Inside,
): void {
  const getPeer = () => call.getPeer();
  let over = false;
  const end = () => over = true;
  const tell = (answer: OrdersResponse) => {
    if (!over) call.write(answer);
  };
  call.on("data", ({ number, start }: OrdersRequest) => {
    const answered = answer(handlers, "startJobs", { call: { request: start ?? {}, getPeer }, door: inside.door });
    inside.under_way.whilst(answered).then(
      (started) => tell({ number, started: started as StartJobsResponse }),
      ({ code, message }) => tell({ number, refused: { code, message } }),
    );
  });
  call.on("cancelled", end);
  call.on("error", end);
  call.on("end", () => {
    end();
    call.end();
  });
}

async function serveWatch(
  handlers: WorkerHandlers,
  call: ServerWritableStream<WatchRequest, WorkerStatus>,
  inside: Inside,
): Promise<void> {
  const caller = callerOf(call, inside.door);
  const gone = new AbortController();
  call.on("cancelled", () => gone.abort());
  call.on("error", () => gone.abort());
  const stop = AbortSignal.any([gone.signal, inside.stop]);
  try {
    for await (const news of handlers.watch(admit(call.request), caller, stop)) {
      if (stop.aborted) break;
      if (!call.write(news)) await drained(call, stop);
    }
  } catch (error) {
    throw asStatus(error, { call: "watch", caller: caller.fingerprint });
  }
}

function callerOf(call: { getPeer(): string }, door: PeerListener): Caller {
  const address = call.getPeer();
  const caller = door.caller(address);
  if (typeof caller !== "string") return caller;
  door.expel(address, caller);
  throw asError("UNAUTHENTICATED", "not pinned");
}

function drained(call: ServerWritableStream<WatchRequest, WorkerStatus>, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (stop.aborted) return resolve();
    const done = () => {
      call.off("drain", done);
      stop.removeEventListener("abort", done);
      resolve();
    };
    call.once("drain", done);
    stop.addEventListener("abort", done, { once: true });
  });
}

function asStatus(error: unknown, on: { call: string; caller: string }): Error {
  if (error instanceof RpcRefusal) return asError(error.code, error.message);
  if (error instanceof BadMessage) return asError("INVALID_ARGUMENT", error.message);
  observe("rpc.failed", { ...on, error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) });
  return asError("INTERNAL", "the worker failed to answer; its log says why");
}

function asError(code: keyof typeof status, message: string): Error {
  return Object.assign(new Error(message), { code: status[code], details: message });
}
