/**
 * A place where worker processes live, one after another: the production roles put together as app/worker_process.ts does it,
 * with wires, peers and bodies of the stress. What is thin here is only the loop that renews the lease, whose pace
 * cannot be set that low, and gRPC.
 */
import { every, rest, Wakeup, within } from "../../../src/platform/timers.ts";
import type { Digests } from "../../../src/sync/module_graph.ts";
import { CheckUp } from "../../../src/worker/node_probe.ts";
import { Continuation } from "../../../src/worker/continuation.ts";
import { Executor } from "../../../src/worker/executor.ts";
import { PendingStarts } from "../../../src/worker/pending_starts.ts";
import { workerHandlers } from "../../../src/worker/handlers.ts";
import { lead } from "../../../src/leader/leader.ts";
import { playRole } from "../../../src/cluster/election.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import { Subleader } from "../../../src/cluster/subleader.ts";
import { beatHeart, renewOnce, type WorkerParts } from "../../../src/worker/worker.ts";
import { isUnreachable } from "../../../src/postgres/connection.ts";
import { certifyDeath, registerWorker, retireWorker, setDraining } from "../../../src/nodes/workers.ts";
import { asSandbox, SimSandbox } from "./bodies.ts";
import { digestOf, MANNERS } from "./load.ts";
import { SimProcess } from "./process.ts";
import { postgresOf, redisOf } from "./wires.ts";
import { count, later, type World } from "./world.ts";

const SLOTS = 8;
const RETRY_MS = 50;

export class Actor {
  readonly world: World;
  readonly node_id: string;
  readonly port: number;
  process: SimProcess;
  /** Fires when the process is to end in good order. */
  #leave = new AbortController();
  #lives = 0;

  constructor(world: World, place: { node_id: string; port: number }) {
    this.world = world;
    this.node_id = place.node_id;
    this.port = place.port;
    this.process = new SimProcess("nobody yet");
  }

  /** One life after another until stopped; the last one ends in good order. */
  async live(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      await this.#oneLife(stop);
      await rest(this.world.chance.between(10, 300) * this.world.scale, stop);
    }
  }

  /** Ends the process in good order; another one begins. */
  restart(): void {
    this.#leave.abort();
  }

  async #oneLife(stop: AbortSignal): Promise<void> {
    const { world, node_id, port } = this;
    const worker_id = `w${port}.${++this.#lives}-${crypto.randomUUID().slice(0, 8)}`;
    const process = this.process = new SimProcess(worker_id);
    const leave = this.#leave = new AbortController();
    const local = new LocalWorkerState({ worker_id, node_id, slots: SLOTS, settings: world.settings });
    // Read from Postgres they would be refused: no real worker may keep time this short.
    Object.defineProperty(local, "settings", { get: () => world.settings, set: () => {} });
    const sql = postgresOf(world, process);
    const sandbox = new SimSandbox({ world, process, mayRun: () => local.mayRun, manners: MANNERS });
    const executor = new Executor({ sql, sandbox: asSandbox(sandbox), digests: DIGESTS, local, jobs_dir: "/jobs" });
    const pending_starts = new PendingStarts({
      sql,
      executor,
      sandbox: { expect() {} },
      digests: DIGESTS,
      local,
      jobs_dir: "/jobs",
    });
    const check_up = new CheckUp({ state_dir: ".", checks_dir: undefined });
    const fingerprint = `fingerprint of ${worker_id}`;
    const endpoint = {
      port,
      process,
      fingerprint,
      handlers: workerHandlers({ sql, local, executor, pending_starts, check_up }),
    };
    const parts: WorkerParts = {
      sql,
      lease_sql: sql,
      redis: redisOf(world, process),
      executor,
      pending_starts,
      local,
      transport: { fingerprint, former_fingerprint: null, not_after: null, trust_digest: "" },
      pid: port * 1_000 + this.#lives,
      grpc: { host: "stress", port },
    };
    const over = AbortSignal.any([stop, leave.signal, process.end]);
    world.network.open(endpoint);
    try {
      await this.#introduce(parts, over);
      await this.#work(parts, { sandbox, over });
    } catch (error) {
      if (!process.crashed) throw error;
      this.#certify(parts);
    } finally {
      world.network.close(endpoint);
      process.kill();
    }
  }

  /** A sibling may find it gone, and all its bodies; its guard struck at once. */
  #certify(parts: WorkerParts): void {
    const { world, node_id } = this;
    if (world.mistake?.unguarded || !world.chance.happens(0.5)) return;
    count(world, "deaths certified");
    const of = { worker_id: parts.local.worker_id, pid: parts.pid, process_started: "0", host: node_id };
    later(world, rest(world.chance.between(30, 300)).then(() => certifyDeath(world.sql, of)));
  }

  async #introduce(parts: WorkerParts, stop: AbortSignal): Promise<void> {
    const { local, grpc } = parts;
    const registration = {
      worker_id: local.worker_id,
      node_id: local.node_id,
      pid: parts.pid,
      process_started: "0",
      host: local.node_id,
      grpc_host: grpc.host,
      grpc_port: grpc.port,
      tls_fingerprint: parts.transport.fingerprint,
      slots: local.slots,
      version: "stress",
    };
    while (!stop.aborted) {
      try {
        const lease_ms = this.world.settings.worker_lease_seconds * 1000;
        const lease_until_ms = await registerWorker(parts.sql, registration, lease_ms);
        if (lease_until_ms !== undefined) return local.holdsUntil(lease_until_ms);
        this.process.kill(); // buried before it heard that it is registered: a real one takes a new id, here another process does
        throw new Error("its id was used up");
      } catch (error) {
        if (!isUnreachable(error)) throw error;
        await rest(RETRY_MS, stop);
      }
    }
  }

  async #work(parts: WorkerParts, around: { sandbox: SimSandbox; over: AbortSignal }): Promise<void> {
    const { process, world } = this;
    const { local, executor } = parts;
    const dead = new AbortController();
    const renewing = new AbortController();
    const lease = every(RETRY_MS, async () => {
      if (await renewOnce(parts)) dead.abort();
      return this.world.settings.worker_renew_seconds * 1000;
    }, {
      name: "worker lease",
      stop: AbortSignal.any([renewing.signal, dead.signal, process.end]),
      wakeup: local.lease_wakeup,
    });
    const until = AbortSignal.any([renewing.signal, process.end]);
    const heart = beatHeart(parts, until);
    const wakeup = new Wakeup();
    const peers = world.network.peersOf({ process, fingerprint: parts.transport.fingerprint });
    const asking = new Continuation({ ...parts, peers }).tend(until);
    const subleader = new Subleader({ ...parts, peers, wakeup });
    const leadTerm = (term: Parameters<typeof lead>[0], signal: AbortSignal) => lead(term, { ...parts, peers }, signal);
    await playRole({ ...parts, wakeup, subleader, lead: leadTerm }, AbortSignal.any([around.over, dead.signal]));
    if (process.crashed) return;
    count(
      world,
      dead.signal.aborted
        ? local.detached ? "workers that were detached" : "workers that found themselves dead"
        : "workers that left",
    );
    if (dead.signal.aborted) await executor.stop("its worker is dead to the others, or detached", process.end);
    else await this.#leaveWell(parts);
    await around.sandbox.close();
    renewing.abort();
    await Promise.all([lease, heart, asking]);
    await quietly(retireWorker(parts.sql, local.worker_id));
  }

  async #leaveWell(parts: WorkerParts): Promise<void> {
    const { local, executor } = parts;
    local.stopping = true;
    local.draining = true;
    await quietly(setDraining(parts.sql, local.worker_id, true));
    await quietly(renewOnce(parts));
    await executor.drain(this.world.settings.drain_grace_seconds * 1000, this.process.end);
  }
}

const DIGESTS = {
  of: (name: string) => Promise.resolve({ digest: digestOf(name) }),
  last: (name: string) => digestOf(name),
} as unknown as Digests;

async function quietly(step: Promise<unknown>): Promise<void> {
  await within(2_000, "a step of leaving", step).catch(() => undefined);
}
