/**
 * The gRPC server of a worker. Peers reach the handlers only through a TLS connection whose certificate is pinned, and
 * every call looks again, since pins change while connections live.
 *
 * A peer that is not let in gets a closed connection and not a byte more; both fingerprints go to the log. When a pin is
 * removed, the connections made with it are closed at once.
 *
 * The server never sends GOAWAY: the process that receives one may die of it (denoland/deno#36788, seen on 2.9.6 as a
 * segmentation fault within a few tries). So gRPC's own shutdown and its keepalive of connections are not used here;
 * calls and streams are ended, then the sockets are cut. Frozen or lost watchers are left to TCP.
 *
 * Promised to handlers: who calls is proven; ids and epochs are exact numbers; a thrown error tells the caller nothing
 * about the inside. Not promised: that the caller is the leader, which the handler must judge by fingerprint and epoch.
 */
import {
  type sendUnaryData,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { createServer, type Server as TlsServer, type TLSSocket } from "node:tls";
import { observe } from "../base/facts.ts";
import { rest } from "../base/loop.ts";
import {
  admit,
  BadMessage,
  type Caller,
  type CallName,
  RpcRefusal,
  type WatchRequest,
  type WorkerHandlers,
  workerService,
  type WorkerStatus,
} from "./protocol.ts";
import { fingerprintOf } from "./tls_files.ts";
import type { Tls } from "./tls.ts";

/** Room for about 2,000 orders in one StartJobs. */
const MAX_REQUEST_BYTES = 256 * 1024;
const HANDSHAKE_TIMEOUT_MS = 5_000;
/** Silence after which TCP asks whether the other machine is still there. */
const LOST_PEER_PROBE_MS = 60_000;
/** How long calls under way may take when the server closes. */
const CLOSE_GRACE_MS = 500;
/** For the last replies to leave, before the connections are cut. */
const FLUSH_MS = 20;

const SERVER_OPTIONS = {
  "grpc.max_receive_message_length": MAX_REQUEST_BYTES,
  "grpc.enable_channelz": 0,
};

export interface ServerOptions {
  host: string;
  /** 0: any free one. */
  port: number;
  tls: Tls;
  handlers: WorkerHandlers;
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
  const door = new Door(options.tls);
  const stop = new AbortController();
  const grpc = new Server(SERVER_OPTIONS);
  const under_way = new UnderWay();
  grpc.addService(workerService, implementation(options.handlers, { door, stop: stop.signal, under_way }));
  // The TLS is ours, so that a refused peer can be named; gRPC sees only connections that were let in.
  const inside = grpc.createConnectionInjector(ServerCredentials.createInsecure());
  const port = await door.open(options.host, options.port, (socket) => inside.injectConnection(socket));
  return {
    address: options.host.includes(":") ? `[${options.host}]:${port}` : `${options.host}:${port}`,
    port,
    async close() {
      stop.abort();
      door.stopListening();
      await Promise.race([under_way.none(), rest(CLOSE_GRACE_MS)]);
      await rest(FLUSH_MS);
      await door.close();
    },
  };
}

/** The TLS listener: lets pinned peers in, remembers who is on which connection. */
class Door {
  readonly #tls: Tls;
  readonly #inside = new Map<string, { socket: TLSSocket; fingerprint: string }>();
  readonly #knocking = new Set<{ destroy(): void }>();
  #listener: TlsServer | undefined;
  #unhear = () => {};

  constructor(tls: Tls) {
    this.#tls = tls;
  }

  open(host: string, port: number, letIn: (socket: TLSSocket) => void): Promise<number> {
    const listener = createServer({ ...this.#tls.serverOptions(), handshakeTimeout: HANDSHAKE_TIMEOUT_MS });
    this.#listener = listener;
    listener.on("connection", (socket) => {
      this.#knocking.add(socket);
      socket.once("close", () => this.#knocking.delete(socket));
    });
    listener.on("secureConnection", (socket) => this.#admit(socket) && letIn(socket));
    listener.on("tlsClientError", (error, socket) => {
      // Somebody who connects and goes, as a health check does, is no peer that was refused.
      if ((error as { code?: string }).code !== "ECONNRESET") {
        this.#refuse(socket, { reason: `the handshake failed: ${error.message}`, theirs: "unknown" });
      }
    });
    this.#unhear = this.#tls.onChange(() => {
      listener.setSecureContext(this.#tls.serverOptions());
      this.#closeUnpinned();
    });
    return new Promise((resolve, reject) => {
      listener.once("error", (error) => reject(new Error(whyNotListening(host, port, error), { cause: error })));
      listener.listen(port, host, () => {
        listener.on("error", (error) => observe("rpc.failed", { call: "accept", caller: "", error: error.message }));
        resolve((listener.address() as { port: number }).port);
      });
    });
  }

  /** Who is on a connection, checked again; a text says why it may no longer call. */
  caller(address: string): Caller | string {
    const connection = this.#inside.get(address);
    if (!connection) return "its connection is not known";
    const { fingerprint } = connection;
    return this.#tls.refusal(fingerprint) ?? { fingerprint, address };
  }

  expel(address: string, reason: string): void {
    const connection = this.#inside.get(address);
    if (connection) this.#refuse(connection.socket, { reason, theirs: connection.fingerprint });
  }

  stopListening(): void {
    this.#unhear();
    this.#listener?.close();
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      if (!this.#listener?.listening && this.#knocking.size === 0) resolve();
      else this.#listener?.once("close", () => resolve());
    });
    for (const socket of this.#knocking) socket.destroy();
    for (const { socket } of this.#inside.values()) socket.destroy();
    await Promise.race([closed, rest(CLOSE_GRACE_MS)]);
  }

  #admit(socket: TLSSocket): boolean {
    socket.on("error", () => socket.destroy()); // a peer that resets is gone, no more
    const raw = socket.getPeerCertificate().raw as Uint8Array | undefined;
    const theirs = raw && fingerprintOf(raw);
    const reason = this.#tls.refusal(theirs) ??
      (socket.authorized ? undefined : `its certificate leads to no pin: ${socket.authorizationError}`);
    if (theirs === undefined || reason !== undefined) {
      this.#refuse(socket, { reason: reason ?? "it showed no certificate", theirs: theirs ?? "none" });
      return false;
    }
    const address = `${socket.remoteAddress}:${socket.remotePort}`;
    this.#inside.set(address, { socket, fingerprint: theirs });
    socket.once("close", () => {
      if (this.#inside.get(address)?.socket === socket) this.#inside.delete(address);
    });
    socket.setNoDelay(true);
    socket.setKeepAlive(true, LOST_PEER_PROBE_MS);
    return true;
  }

  #refuse(socket: TLSSocket, why: { reason: string; theirs: string }): void {
    const from = socket.remoteAddress ?? "unknown address";
    socket.destroy();
    observe("peer.refused", { ...why, reason: `client ${from}: ${why.reason}`, ours: this.#tls.fingerprint });
  }

  #closeUnpinned(): void {
    for (const { socket, fingerprint } of this.#inside.values()) {
      const reason = this.#tls.refusal(fingerprint);
      if (reason) this.#refuse(socket, { reason, theirs: fingerprint });
    }
  }
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
  door: Door;
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
  on: { call: ServerUnaryCall<object, object>; door: Door },
): Promise<object> {
  const caller = callerOf(on.call, on.door);
  try {
    const handler = handlers[name] as (request: object, caller: Caller) => object | Promise<object>;
    return await handler.call(handlers, admit(on.call.request), caller);
  } catch (error) {
    throw asStatus(error, { call: name, caller: caller.fingerprint });
  }
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

function callerOf(call: { getPeer(): string }, door: Door): Caller {
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

function whyNotListening(host: string, port: number, error: Error): string {
  const code = (error as { code?: string }).code;
  const fix = code === "EADDRINUSE"
    ? "another process has that port: choose another with SCHEDULER_GRPC_PORT, 0 for any free one"
    : code === "EADDRNOTAVAIL"
    ? "this machine has no such address: set SCHEDULER_GRPC_HOST to one of its own"
    : "check SCHEDULER_GRPC_HOST and SCHEDULER_GRPC_PORT";
  return `Cannot listen on ${host} port ${port}: ${error.message}; ${fix}`;
}
