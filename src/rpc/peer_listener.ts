/**
 * The listener of a worker: lets in peers that may call, and remembers who is on which connection.
 *
 * A peer that is not let in gets a closed connection and not a byte more; both fingerprints go to the log. When a pin is
 * removed, the connections made with it are closed at once.
 *
 * A listener of Deno's that could not take a connection once, as in a moment in which no more files may be opened, takes none any more and
 * says nothing (2.9.6). No leader would reach such a worker, and it would live on. So the door knocks at itself, and listens anew.
 */
import { connect, type Server, type Socket } from "node:net";
import { observe } from "../platform/facts.ts";
import { after, every, rest } from "../platform/timers.ts";
import { LogThrottle } from "../platform/log_throttle.ts";
import type { Caller } from "./messages.ts";
import type { PresentedCertificates } from "./trust.ts";
import type { Transport } from "./transport.ts";

/** Silence after which TCP asks whether the other machine is still there. */
const LOST_PEER_PROBE_MS = 60_000;
/** How long calls under way may take when the server closes. */
export const CLOSE_GRACE_MS = 500;

/** A peer that is refused comes again every second; the same is said once in this time. */
const SAY_AGAIN_MS = 60_000;

/** `patience_ms`: until a knock counts as unheard. Two in a row must be: after a stall a timer comes before what has arrived. */
export interface IncomingConnection {
  every_ms: number;
  patience_ms: number;
}
const KNOCKING = { every_ms: 30_000, patience_ms: 5_000 };

/** `letIn` gets connections whose peer may call. */
interface Opening {
  host: string;
  port: number;
  letIn: (socket: Socket) => void;
}

export class PeerListener {
  readonly #transport: Transport;
  readonly #said = new LogThrottle(SAY_AGAIN_MS);
  readonly #inside = new Map<
    string,
    { socket: Socket; fingerprint: string; shown: PresentedCertificates | undefined }
  >();
  readonly #knocking = new Set<Socket>();
  readonly #closing = new AbortController();
  #listener: Server | undefined;
  #unhear = () => {};
  /** Ends a knock of our own. */
  #heard = () => {};

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Gives the port. @throws with the fix, where it cannot listen */
  async open(opening: Opening, knocking: IncomingConnection = KNOCKING): Promise<number> {
    const port = await this.#listen(opening);
    this.#unhear = this.#transport.onChange(() => this.#closeUnwelcome());
    const on = { name: "grpc port", stop: this.#closing.signal };
    void every(knocking.every_ms, () => this.#stayOpen({ ...opening, port }, knocking), on);
    return port;
  }

  #listen({ host, port, letIn }: Opening): Promise<number> {
    const listener = this.#transport.listener({
      letIn: (socket, peer) => this.#admit(socket, peer) && letIn(socket),
      handshakeFailed: (socket, error) => {
        // Somebody who connects and goes, as a health check does, is no peer that was refused.
        if ((error as { code?: string }).code === "ECONNRESET") return socket.destroy();
        this.#refuse(socket, { reason: `the handshake failed: ${error.message}`, theirs: "unknown" });
      },
    });
    this.#listener = listener;
    listener.on("connection", (socket) => {
      this.#heard();
      this.#knocking.add(socket);
      socket.once("close", () => this.#knocking.delete(socket));
    });
    return new Promise((resolve, reject) => {
      listener.once("error", (error) => reject(new Error(whyNotListening(host, port, error), { cause: error })));
      listener.listen(port, host, () => {
        listener.on("error", (error) => observe("rpc.failed", { call: "accept", caller: "", error: error.message }));
        resolve((listener.address() as { port: number }).port);
      });
    });
  }

  async #stayOpen(opening: Opening, { patience_ms }: IncomingConnection): Promise<void> {
    if (await this.#hears(opening, patience_ms) || await this.#hears(opening, patience_ms)) return;
    this.#listener?.close();
    await this.#listen(opening);
    throw new Error(`What connects to port ${opening.port} arrived no more, so it listens anew`);
  }

  /** Whether a connection to the own port arrives; also where none can be made now, since that says nothing of the listener. */
  #hears({ host, port }: Opening, patience_ms: number): Promise<boolean> {
    if (this.#closing.signal.aborted) return Promise.resolve(true);
    return new Promise((resolve) => {
      const knock = connect(port, host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host);
      const tell = (heard: boolean) => {
        cancel();
        this.#heard = () => {};
        knock.destroy();
        resolve(heard);
      };
      const cancel = after(patience_ms, () => tell(false));
      this.#heard = () => tell(true);
      knock.on("error", (error) => tell((error as { code?: string }).code !== "ECONNREFUSED"));
    });
  }

  /** Who is on a connection, checked again; a text says why it may no longer call. */
  caller(address: string): Caller | string {
    const connection = this.#inside.get(address);
    if (!connection) return "its connection is not known";
    const { fingerprint, shown } = connection;
    return this.#transport.refusal(shown) ?? { fingerprint, address };
  }

  expel(address: string, reason: string): void {
    const connection = this.#inside.get(address);
    if (connection) this.#refuse(connection.socket, { reason, theirs: connection.fingerprint });
  }

  stopListening(): void {
    this.#closing.abort();
    this.#heard();
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

  #admit(
    socket: Socket,
    peer: { fingerprint: string | undefined; shown: PresentedCertificates | undefined; problem?: string },
  ): boolean {
    socket.on("error", () => socket.destroy()); // a peer that resets is gone, no more
    const { fingerprint, shown } = peer;
    const reason = this.#transport.refusal(shown) ?? peer.problem;
    if (fingerprint === undefined || reason !== undefined) {
      this.#refuse(socket, { reason: reason ?? "it showed no certificate", theirs: fingerprint ?? "none" });
      return false;
    }
    const address = `${socket.remoteAddress}:${socket.remotePort}`;
    this.#inside.set(address, { socket, fingerprint, shown });
    socket.once("close", () => {
      if (this.#inside.get(address)?.socket === socket) this.#inside.delete(address);
    });
    socket.setNoDelay(true);
    socket.setKeepAlive(true, LOST_PEER_PROBE_MS);
    return true;
  }

  #refuse(socket: Socket, why: { reason: string; theirs: string }): void {
    const from = socket.remoteAddress ?? "unknown address";
    socket.destroy();
    const fact = { ...why, reason: `client ${from}: ${why.reason}`, ours: this.#transport.fingerprint };
    const what = Object.values(fact).join();
    if (this.#said.times(what) !== undefined) observe("peer.refused", fact);
  }

  #closeUnwelcome(): void {
    for (const { socket, fingerprint, shown } of this.#inside.values()) {
      const reason = this.#transport.refusal(shown);
      if (reason) this.#refuse(socket, { reason, theirs: fingerprint });
    }
  }
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
