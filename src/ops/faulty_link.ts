/**
 * A TCP relay to one port that can fail in the ways in which networks do; drills and chaos tests put it between two
 * processes. Without a fault it passes bytes both ways, in order.
 *
 * Bytes are never dropped out of a connection that goes on: TCP does not do that, and clients are not made for it. So a
 * connection is held up (`stall`) and later delivers all, or is dead for good (`strand`, `reset`).
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { monotonicMs, rest } from "../platform/timers.ts";
import { freePort } from "./free_port.ts";

/** `there`: from whoever connected to the target; `back`: the answers. */
export type Direction = "there" | "back";

/** One direction of one connection. */
interface Flow {
  direction: Direction;
  from: Socket;
  to: Socket;
  stranded: boolean;
  /** `from` has closed; what it means for `to` may have to wait for the end of a stall. */
  closed: "ended" | "broken" | undefined;
  /** Chunks that are delayed, and when the last of them has arrived. */
  under_way: number;
  last: Promise<void>;
}

export class FaultyLink {
  readonly #target: { hostname: string; port: number };
  readonly #flows = new Set<Flow>();
  readonly #sockets = new Set<Socket>();
  readonly #stalled = new Set<Direction>();
  #server: Server | undefined;
  /** Nobody else is given it while the link refuses. */
  readonly #port = freePort();
  #delay_ms = 0;
  #swallow = false;

  private constructor(target: { hostname: string; port: number }) {
    this.#target = target;
  }

  static async to(port: number, hostname = "127.0.0.1"): Promise<FaultyLink> {
    const link = new FaultyLink({ hostname, port });
    await link.#listen();
    return link;
  }

  /** Where to connect, on 127.0.0.1; the same for as long as the link lives. */
  get port(): number {
    return this.#port;
  }

  /** Nothing passes in these directions, new connections included, until `heal`; then all of it arrives. */
  stall(...directions: Direction[]): void {
    for (const direction of directions.length > 0 ? directions : ["there", "back"] as const) {
      this.#stalled.add(direction);
    }
    this.#regulate();
  }

  /** Each chunk arrives this much later. */
  delay(ms: number): void {
    this.#delay_ms = ms;
  }

  /** The connections of now never pass a byte again and stay open; new ones work. */
  strand(): void {
    for (const flow of this.#flows) flow.stranded = true;
    this.#regulate();
  }

  /** New connections are accepted and never answered; those of now go on. */
  swallow(): void {
    this.#swallow = true;
  }

  /** The connections of now end with a reset; new ones work. */
  reset(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
    this.#flows.clear();
  }

  /** The connections of now end with a reset, new ones are refused, until `heal`: as if no process listened. */
  async refuse(): Promise<void> {
    this.reset();
    await this.#stopListening();
  }

  /** Ends every fault but those of connections that are dead for good. */
  async heal(): Promise<void> {
    this.#stalled.clear();
    this.#delay_ms = 0;
    this.#swallow = false;
    this.#regulate();
    for (const flow of this.#flows) if (flow.closed) this.#passClose(flow);
    await this.#listen();
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await this.#stopListening();
  }

  #listen(): Promise<void> {
    if (this.#server) return Promise.resolve();
    const server = createServer((near) => this.#join(near));
    this.#server = server;
    return new Promise((resolve, reject) => {
      server.once("error", reject).listen(this.#port, "127.0.0.1", () => resolve());
    });
  }

  #stopListening(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    return new Promise((resolve) => server ? server.close(() => resolve()) : resolve());
  }

  #join(near: Socket): void {
    this.#keep(near);
    if (this.#swallow) return;
    const far = connect(this.#target.port, this.#target.hostname);
    this.#keep(far);
    const fresh = { stranded: false, closed: undefined, under_way: 0, last: Promise.resolve() };
    this.#carry({ ...fresh, direction: "there", from: near, to: far });
    this.#carry({ ...fresh, direction: "back", from: far, to: near });
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => {}); // its close is what matters
    socket.on("close", () => this.#sockets.delete(socket));
  }

  #carry(flow: Flow): void {
    const { from, to } = flow;
    this.#flows.add(flow);
    from.on("data", (chunk) => this.#pass(flow, chunk));
    from.on("end", () => this.#inTurn(flow, () => to.end()));
    from.on("close", (broken) => {
      flow.closed = broken ? "broken" : "ended";
      this.#passClose(flow);
    });
    to.on("drain", () => this.#open(flow) && from.resume());
    if (!this.#open(flow)) from.pause();
  }

  #pass(flow: Flow, chunk: Uint8Array | string): void {
    this.#inTurn(flow, () => {
      if (!flow.to.destroyed && !flow.to.write(chunk)) flow.from.pause();
    });
  }

  /** At once, or after the delay and after all that is on its way already. */
  #inTurn(flow: Flow, act: () => void): void {
    const delay_ms = this.#delay_ms;
    if (delay_ms === 0 && flow.under_way === 0) return act();
    const due_ms = monotonicMs() + delay_ms;
    flow.under_way++;
    flow.last = flow.last.then(async () => {
      await rest(due_ms - monotonicMs());
      flow.under_way--;
      act();
    });
  }

  /** A connection that broke on one side while nothing passes is not seen to break on the other. */
  #passClose(flow: Flow): void {
    if (!this.#open(flow)) return;
    this.#flows.delete(flow);
    this.#inTurn(flow, () => {
      if (flow.closed === "broken") flow.to.destroy();
      else flow.to.end();
    });
  }

  #open(flow: Flow): boolean {
    return !flow.stranded && !this.#stalled.has(flow.direction);
  }

  #regulate(): void {
    for (const flow of this.#flows) {
      if (this.#open(flow)) flow.from.resume();
      else flow.from.pause();
    }
  }
}
