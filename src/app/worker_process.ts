/**
 * One worker process, put together: everything is made here and passed on, nothing is found by itself.
 *
 * Start: settings, identity, gRPC, then the row that says "I am here". Stop, in this order, each step with its own
 * budget: resign, refuse new work, let bodies finish within the grace, give back the rest, and the heartbeat last;
 * while it beats nobody takes our runs.
 *
 * A worker that Postgres declared dead, or that was detached and has nothing in hand any more, comes back under a new id,
 * after its bodies are proven gone.
 */
import type { Archive } from "../archive/archive.ts";
import { openArchive } from "../archive/open_archive.ts";
import { type Config, isLoopback, PROJECT_DIR, readConfig } from "../platform/config.ts";
import { loopFailed, observe } from "../platform/facts.ts";
import { failpoint, setFailpoints } from "../platform/failpoint.ts";
import { after, monotonicMs, rest, within } from "../platform/timers.ts";
import { addressText } from "../platform/text.ts";
import { Digests } from "../sync/module_graph.ts";
import { Peers } from "../rpc/peers.ts";
import { connectRedis, RedisAway, type RedisDoor } from "../redis/connection.ts";
import { clearDetach, nextWorkerId, remove } from "../redis/heartbeats.ts";
import { type RunningServer, startServer } from "../rpc/server.ts";
import { openWire } from "../rpc/open_transport.ts";
import type { Wire } from "../rpc/transport.ts";
import type { Subject } from "../ops/metrics/worker.ts";
import { CheckUp } from "../worker/node_probe.ts";
import { Continuation } from "../worker/continuation.ts";
import { Executor } from "../worker/executor.ts";
import { Hand } from "../worker/pending_starts.ts";
import { workerHandlers } from "../worker/handlers.ts";
import { lead } from "../leader/leader.ts";
import { keepLookout } from "../cluster/leader_alert.ts";
import { tellAlerts } from "../alerts/alert_delivery.ts";
import { playRole } from "../cluster/election.ts";
import { Subleader } from "../cluster/subleader.ts";
import { Standing } from "../worker/worker_state.ts";
import { identify, type Identity, Spool } from "../worker/result_journal.ts";
import { keepVigil } from "../worker/sibling_monitor.ts";
import { beatHeart, holdLease, renewOnce, type WorkerParts } from "../worker/worker.ts";
import type { Sandbox } from "../sandbox/process_pool.ts";
import { connectDb, isShutOut, isUnreachable, type Sql } from "../postgres/connection.ts";
import { highestWorkerNumber, registerWorker, retireWorker, setDraining } from "../nodes/workers.ts";
import { lackOfSchema } from "../postgres/schema.ts";
import { readSettings, type Settings } from "../settings/settings.ts";
import { VERSION } from "../platform/version.ts";
import { oneByOne, printFacts } from "./fact_lines.ts";
import { openSandbox } from "./opening.ts";
import { CommandError, type Signals } from "./output.ts";

export async function workerCommand(options: { stopWithStdin?: boolean }, signals: Signals): Promise<void> {
  const config = readConfig();
  printFacts(config.tracing ? oneByOne : undefined);
  if (config.tracing) (await import("../ops/tracing.ts")).traceRuns();
  observe("process.started", { role: "worker", pid: Deno.pid });
  setFailpoints(config.failpoints);
  await refuseWithoutJobs(config.jobs_dir);
  if (config.tls === "mesh") warnOfMesh(config);
  const { stop, hurry } = options.stopWithStdin ? withParent(signals) : signals;
  const me: Self = { subject: () => undefined };
  const metrics = config.metrics && await serveMetrics(config.metrics, me);
  const wire = openWire(config); // for all its lives: one that comes back must not depend on what is on disk just then
  let epoch = 0;
  try {
    while (!stop.aborted) {
      const lost = await runWorker({ config, wire, stop, hurry, epoch, me });
      if (!lost) return;
      epoch = lost.epoch; // what this process has seen is not forgotten with its id: a leader of an older epoch is still refused
      observe("worker.lost", { worker_id: lost.worker_id, reason: lost.reason });
      await rest(1_000, stop);
    }
  } finally {
    await wire.close();
    await metrics?.close();
  }
}

/** What this process says of itself in its present life. */
interface Self {
  subject: () => Subject | undefined;
}

/** Loaded where it is asked for: most workers serve no metrics. */
async function serveMetrics(where: NonNullable<Config["metrics"]>, me: Self) {
  return (await import("../ops/metrics/worker.ts")).serveWorkerMetrics(where, () => me.subject());
}

async function refuseWithoutJobs(jobs_dir: string): Promise<void> {
  const found = await Deno.stat(jobs_dir).catch(() => undefined);
  if (found?.isDirectory) return;
  throw new CommandError(
    `Cannot start a worker: "${jobs_dir}" is no folder; make it, or name another with SCHEDULER_JOBS_DIR`,
  );
}

/** Said at each start: nobody should learn by accident that nothing is encrypted here. */
function warnOfMesh({ grpc_host }: Config): void {
  const exposed = !isLoopback(grpc_host);
  const meaning = exposed
    ? `everybody who can connect to ${grpc_host} can order this worker about; let only the mesh's sidecar reach it`
    : "peers are whoever this machine lets connect, as the mesh decides";
  observe("mesh.used", { grpc_host, exposed, meaning });
  if (!exposed) return;
  console.error(
    `WARNING: SCHEDULER_TLS=mesh: gRPC is plain text on ${grpc_host}: ${meaning}, or use SCHEDULER_TLS=mtls`,
  );
}

/** Without a parent there is nobody to wait for: what does not end within seconds is given back. */
function withParent({ stop, hurry }: Signals): Signals {
  const closed = stdinClosed();
  const late = new AbortController();
  closed.addEventListener("abort", () => after(ORPHAN_GRACE_MS, () => late.abort()), { once: true });
  return { stop: AbortSignal.any([stop, closed]), hurry: AbortSignal.any([hurry, late.signal]) };
}

const ORPHAN_GRACE_MS = 5_000;

interface Opened {
  sql: Sql;
  lease_sql: Sql;
  redis: RedisDoor;
  wire: Wire;
  peers: Peers;
}

interface LostLife {
  worker_id: string;
  reason: string;
  /** The newest that it had seen. */
  epoch: number;
}

/** One life of a worker under one id. Gives why it was lost, or undefined when it was stopped. */
async function runWorker(
  { config, wire, stop, hurry, epoch, me: self }: { config: Config; wire: Wire; epoch: number; me: Self } & Signals,
): Promise<LostLife | undefined> {
  const schema = Deno.readTextFileSync(`${PROJECT_DIR}/schema.sql`);
  const open = openAll(config, wire);
  const settings = await patiently(() => readSettings(open.sql), stop);
  const lack = settings && await patiently(() => lackOfSchema(open.sql, schema), stop);
  if (lack) {
    await closeAll(open);
    throw new CommandError(`Cannot start a worker: ${lack}; apply the schema first: deno task schema`);
  }
  const worker_id = settings && await patiently(() => newWorkerId(open, settings), stop);
  if (!settings || !worker_id || stop.aborted) return await closeAll(open);
  const standing = new Standing({ worker_id, node_id: config.node_id, slots: config.slots, settings });
  standing.sawEpoch(epoch);
  const sandbox = openSandbox(config, {
    slots: () => standing.slots,
    spares: settings.spare_processes,
    owner: worker_id,
    secret_paths: [
      ...config.tls === "mesh" ? [] : [config.tls.key_file, config.tls.cert_file],
      ...config.archive?.kind === "folder" ? [config.archive.path] : [], // what other jobs said
    ],
  });
  sandbox.hold(() => standing.mayRun);
  const me = identify(worker_id);
  const spool = new Spool(config.state_dir, me);
  const { jobs_dir } = config;
  const digests = new Digests({ jobs_dir, project_dir: PROJECT_DIR });
  const executor = new Executor({ sql: open.sql, sandbox, digests, standing, jobs_dir, spool });
  const hand = new Hand({ sql: open.sql, executor, sandbox, digests, standing, jobs_dir });
  self.subject = () => subjectOf(standing, executor, sandbox);
  const check_up = new CheckUp({ state_dir: config.state_dir, checks_dir: config.checks_dir });
  const server = await startServer({
    host: config.grpc_host,
    port: config.grpc_port,
    wire: open.wire,
    handlers: workerHandlers({ sql: open.sql, standing, executor, hand, check_up }),
  });
  const parts: WorkerParts = {
    ...open,
    executor,
    hand,
    standing,
    pid: Deno.pid,
    grpc: config.grpc_advertise ?? { host: config.grpc_host, port: server.port },
  };
  if (!await introduce(parts, me, stop)) {
    await closeAll(open, server);
    return { worker_id, reason: "its id was used up before it heard that it is registered", epoch: standing.epoch };
  }
  spool.open();
  open.wire.announce = () => announce(parts);
  const watch = (until: AbortSignal) => keepVigil({ sql: open.sql, worker_id, state_dir: config.state_dir }, me, until);
  const { alert_webhook: webhook } = config;
  const tell = async (until: AbortSignal) => {
    await Promise.all([executor.code.keep(until), webhook && tellAlerts({ sql: open.sql, worker_id, webhook }, until)]);
  };
  const archive = openArchive(config.archive);
  return await live(parts, { open, sandbox, server, stop, hurry, spool, watch, tell, archive });
}

function subjectOf(standing: Standing, executor: Executor, sandbox: Sandbox): Subject {
  return {
    role: standing.role,
    slots: standing.slots,
    draining: standing.draining,
    detached: standing.detached,
    may_run: standing.mayRun,
    lease_seconds: Math.max(0, standing.may_run_until_ms - monotonicMs()) / 1000,
    bodies: executor.load,
    spares: sandbox.spares,
  };
}

/**
 * A new certificate goes into the row first, on the lease's own session, so that no older renewal undoes it. It is used a
 * worker's lease later: by then whoever keeps what it read of this row has read it again, or is dead.
 */
async function announce(parts: WorkerParts): Promise<number> {
  await renewOnce(parts);
  return parts.standing.settings.worker_lease_seconds * 1000;
}

/** Asks until Postgres is there: a worker that starts before it waits for it. */
async function patiently<T>(ask: () => Promise<T>, stop: AbortSignal): Promise<T | undefined> {
  while (!stop.aborted) {
    try {
      return await ask();
    } catch (error) {
      if (!isUnreachable(error) || isShutOut(error)) throw error;
      loopFailed("waiting for Postgres", error);
      await rest(1_000, stop);
    }
  }
}

/** Redis is given as long as a candidate gives it. A worker can do without it, also from its start. */
async function newWorkerId({ sql, redis }: Opened, settings: Settings): Promise<string> {
  const highest = await highestWorkerNumber(sql);
  await redis.ready(settings.leader_stale_seconds * 1000).catch((error) => {
    if (!(error instanceof RedisAway)) throw error;
    loopFailed("waiting for Redis, going on without it", error);
  });
  return await nextWorkerId(redis, highest);
}

function openAll(config: Config, wire: Wire): Opened {
  const sql = connectDb(config.database_url, { name: `worker ${config.node_id}`, max: 6, steady: true });
  return {
    sql,
    lease_sql: connectDb(config.database_url, { name: `lease ${config.node_id}`, max: 1, steady: true }),
    redis: connectRedis(config.redis_url, { prefix: config.redis_prefix, name: `worker ${config.node_id}` }),
    wire,
    peers: new Peers(wire),
  };
}

/** False: the id is used up. */
async function introduce(parts: WorkerParts, me: Identity, stop: AbortSignal): Promise<boolean> {
  const { standing, grpc } = parts;
  const registration = {
    ...me,
    node_id: standing.node_id,
    grpc_host: grpc.host,
    grpc_port: grpc.port,
    tls_fingerprint: parts.wire.fingerprint,
    slots: standing.slots,
    version: VERSION,
  };
  const lease_ms = standing.settings.worker_lease_seconds * 1000;
  const answer = await patiently(async () => {
    const lease_until_ms = await registerWorker(parts.sql, registration, lease_ms);
    await failpoint("after-register");
    return { lease_until_ms };
  }, stop);
  if (!answer) return true; // it was stopped
  if (answer.lease_until_ms === undefined) return false;
  standing.holdsUntil(answer.lease_until_ms);
  observe("worker.ready", {
    worker_id: standing.worker_id,
    node_id: standing.node_id,
    grpc_address: addressText(grpc.host, grpc.port),
    slots: standing.slots,
  });
  return true;
}

async function live(
  parts: WorkerParts,
  around: {
    open: Opened;
    sandbox: Sandbox;
    server: RunningServer;
    stop: AbortSignal;
    hurry: AbortSignal;
    spool: Spool;
    /** Looks after siblings. */
    watch(until: AbortSignal): Promise<void>;
    /** Sends alerts, and says which job files are not what was synced. */
    tell(until: AbortSignal): Promise<void>;
    archive: Archive | undefined;
  },
): Promise<LostLife | undefined> {
  const { standing } = parts;
  const beating = new AbortController(); // ends last
  const ending = new AbortController(); // ends first
  const stop = AbortSignal.any([around.stop, ending.signal]);
  const heart = beatHeart(parts, beating.signal);
  const lease = holdLease(parts, beating.signal).then((reason) => {
    if (reason) ending.abort();
    return reason;
  });
  const vigil = around.watch(beating.signal);
  const lookout = keepLookout(parts, stop);
  const telling = around.tell(stop);
  const { peers } = around.open;
  const asking = new Continuation({ ...parts, peers }).tend(beating.signal);
  const subleader = new Subleader({ ...parts, peers, bell: standing.seat_bell });
  await playRole({
    ...parts,
    bell: standing.seat_bell,
    subleader,
    lead: (term, signal) => lead(term, { ...parts, peers, archive: around.archive }, signal),
  }, stop);
  const lost = ending.signal.aborted ? await lease : undefined;
  if (lost) parts.hand.empty();
  if (lost) await parts.executor.stop("its worker is dead to the others", around.hurry);
  else await leaveWell(parts, around.hurry);
  await around.sandbox.close(); // before the lease ends: what runs here is proven gone while it is still ours
  await failpoint("after-bodies-gone-before-retire");
  beating.abort();
  await Promise.all([heart, lease, asking]);
  await quietly("ending the vigil", vigil);
  await quietly("ending the lookout", Promise.all([lookout, telling]));
  // With outcomes that Postgres does not have yet the death is left for the heirs to tell: they record those first.
  const done = around.spool.waiting === 0 &&
    await quietly("retiring", retireWorker(parts.sql, standing.worker_id));
  around.spool.close(done);
  await quietly("leaving the roster", remove(parts.redis, standing.worker_id));
  if (standing.detached) await quietly("ending the detach", clearDetach(parts.redis, standing.worker_id));
  await closeAll(around.open, around.server);
  if (lost) return { worker_id: standing.worker_id, reason: lost, epoch: standing.epoch };
  observe("worker.stopped", { worker_id: standing.worker_id });
}

/** `playRole` has resigned already. */
async function leaveWell(parts: WorkerParts, hurry: AbortSignal): Promise<void> {
  const { standing, executor } = parts;
  observe("worker.draining", { worker_id: standing.worker_id, reason: "stopping" });
  standing.stopping = true;
  standing.draining = true;
  await quietly("saying that it drains", setDraining(parts.sql, standing.worker_id, true));
  await quietly("giving back what has not started", renewOnce(parts));
  parts.hand.empty();
  await executor.drain(standing.settings.drain_grace_seconds * 1000, hurry);
}

async function closeAll(open: Opened, server?: RunningServer): Promise<undefined> {
  open.peers.close();
  if (server) await quietly("closing gRPC", server.close());
  open.wire.announce = undefined;
  await Promise.allSettled([open.redis.close(), open.sql.end({ timeout: 1 }), open.lease_sql.end({ timeout: 1 })]);
}

/** A step of leaving that must not keep the next ones from happening. False: it failed. */
async function quietly(what: string, step: Promise<unknown>): Promise<boolean> {
  try {
    await within(2_000, what, step);
    return true;
  } catch (error) {
    loopFailed(what, error);
    return false;
  }
}

/** Fires when the parent is gone: it holds the other end of our stdin. */
function stdinClosed(): AbortSignal {
  const closed = new AbortController();
  const listen = async () => {
    for await (const _ of Deno.stdin.readable) { /* nothing is said on it */ }
  };
  listen().catch(() => undefined).then(() => closed.abort("stdin closed")); // one that cannot be read is as good as closed
  return closed.signal;
}
