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
import { connectRedis, RedisAway, type RedisConnection } from "../redis/connection.ts";
import { clearDetach, nextWorkerId, remove } from "../redis/heartbeats.ts";
import { type RunningServer, startServer } from "../rpc/server.ts";
import { openTransport } from "../rpc/open_transport.ts";
import type { Transport } from "../rpc/transport.ts";
import type { MetricsSubject } from "../ops/metrics/worker.ts";
import { CheckUp } from "../worker/node_probe.ts";
import { Continuation } from "../worker/continuation.ts";
import { Executor } from "../worker/executor.ts";
import { PendingStarts } from "../worker/pending_starts.ts";
import { workerHandlers } from "../worker/handlers.ts";
import { lead } from "../leader/leader.ts";
import { watchForLeader } from "../cluster/leader_alert.ts";
import { deliverAlerts } from "../alerts/alert_delivery.ts";
import { playRole } from "../cluster/election.ts";
import { Subleader } from "../cluster/subleader.ts";
import { LocalWorkerState } from "../worker/worker_state.ts";
import { identify, type Identity, ResultJournal } from "../worker/results/result_journal.ts";
import { monitorSiblings } from "../worker/sibling_monitor.ts";
import { beatHeart, holdLease, renewOnce, type WorkerParts } from "../worker/worker.ts";
import type { ProcessPool } from "../sandbox/process_pool.ts";
import { connectDb, isShutOut, isUnreachable, type Sql } from "../postgres/connection.ts";
import { highestWorkerNumber, registerWorker, retireWorker, setDraining } from "../nodes/workers.ts";
import { checkSchema } from "../postgres/schema.ts";
import { readSettings, type Settings } from "../settings/settings.ts";
import { VERSION } from "../platform/version.ts";
import { oneByOne, printFacts } from "./fact_lines.ts";
import { openSandbox } from "./opening.ts";
import { CommandError, type Signals } from "./output.ts";
import { stored } from "../locale/message.ts";

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
  const transport = openTransport(config); // for all its lives: one that comes back must not depend on what is on disk just then
  let epoch = 0;
  try {
    while (!stop.aborted) {
      const lost = await runWorker({ config, transport, stop, hurry, epoch, me });
      if (!lost) return;
      epoch = lost.epoch; // what this process has seen is not forgotten with its id: a leader of an older epoch is still refused
      observe("worker.lost", { worker_id: lost.worker_id, reason: lost.reason });
      await rest(1_000, stop);
    }
  } finally {
    await transport.close();
    await metrics?.close();
  }
}

/** What this process says of itself in its present life. */
interface Self {
  subject: () => MetricsSubject | undefined;
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
  redis: RedisConnection;
  transport: Transport;
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
  { config, transport, stop, hurry, epoch, me: self }:
    & { config: Config; transport: Transport; epoch: number; me: Self }
    & Signals,
): Promise<LostLife | undefined> {
  const open = openAll(config, transport);
  const settings = await patiently(() => readSettings(open.sql), stop);
  const schema = settings && await patiently(() => checkSchema(open.sql), stop);
  if (schema?.fits === false) {
    await closeAll(open);
    throw new CommandError(`Cannot start a worker: ${schema.what}; ${schema.fix}`);
  }
  const worker_id = settings && await patiently(() => newWorkerId(open, settings), stop);
  if (!settings || !worker_id || stop.aborted) return await closeAll(open);
  const local = new LocalWorkerState({ worker_id, node_id: config.node_id, slots: config.slots, settings });
  local.sawEpoch(epoch);
  const sandbox = openSandbox(config, {
    slots: () => local.slots,
    spares: settings.spare_processes,
    owner: worker_id,
    secret_paths: [
      ...config.tls === "mesh" ? [] : [config.tls.key_file, config.tls.cert_file],
      ...config.archive?.kind === "folder" ? [config.archive.path] : [], // what other jobs said
    ],
  });
  sandbox.hold(() => local.mayRun);
  const me = identify(worker_id);
  const journal = new ResultJournal(config.state_dir, me);
  const { jobs_dir, callback } = config;
  const digests = new Digests({ jobs_dir, project_dir: PROJECT_DIR });
  const executor = new Executor({ sql: open.sql, sandbox, digests, local, jobs_dir, journal, callback });
  const pending_starts = new PendingStarts({ sql: open.sql, executor, sandbox, digests, local, jobs_dir });
  self.subject = () => subjectOf(local, executor, sandbox);
  const check_up = new CheckUp({ state_dir: config.state_dir, checks_dir: config.checks_dir });
  const server = await startServer({
    host: config.grpc_host,
    port: config.grpc_port,
    transport: open.transport,
    handlers: workerHandlers({ sql: open.sql, local, executor, pending_starts, check_up }),
  });
  const parts: WorkerParts = {
    ...open,
    executor,
    pending_starts,
    local,
    pid: Deno.pid,
    grpc: config.grpc_advertise ?? { host: config.grpc_host, port: server.port },
  };
  if (!await introduce(parts, me, stop)) {
    await closeAll(open, server);
    return { worker_id, reason: "its id was used up before it heard that it is registered", epoch: local.epoch };
  }
  journal.open();
  open.transport.announce = () => announce(parts);
  const watch = (until: AbortSignal) =>
    monitorSiblings({ sql: open.sql, worker_id, state_dir: config.state_dir }, me, until);
  const { alert_webhook: webhook } = config;
  const tell = async (until: AbortSignal) => {
    await Promise.all([
      executor.code.keep(until),
      webhook && deliverAlerts({ sql: open.sql, worker_id, webhook }, until),
    ]);
  };
  const archive = openArchive(config.archive);
  return await live(parts, { open, sandbox, server, stop, hurry, journal, watch, tell, archive });
}

function subjectOf(local: LocalWorkerState, executor: Executor, sandbox: ProcessPool): MetricsSubject {
  return {
    role: local.role,
    slots: local.slots,
    draining: local.draining,
    detached: local.detached,
    may_run: local.mayRun,
    lease_seconds: Math.max(0, local.may_run_until_ms - monotonicMs()) / 1000,
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
  return parts.local.settings.worker_lease_seconds * 1000;
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

function openAll(config: Config, transport: Transport): Opened {
  const sql = connectDb(config.database_url, { name: `worker ${config.node_id}`, max: 6, steady: true });
  return {
    sql,
    lease_sql: connectDb(config.database_url, { name: `lease ${config.node_id}`, max: 1, steady: true }),
    redis: connectRedis(config.redis_url, { prefix: config.redis_prefix, name: `worker ${config.node_id}` }),
    transport,
    peers: new Peers(transport),
  };
}

/** False: the id is used up. */
async function introduce(parts: WorkerParts, me: Identity, stop: AbortSignal): Promise<boolean> {
  const { local, grpc } = parts;
  const registration = {
    ...me,
    node_id: local.node_id,
    grpc_host: grpc.host,
    grpc_port: grpc.port,
    tls_fingerprint: parts.transport.fingerprint,
    slots: local.slots,
    version: VERSION,
  };
  const lease_ms = local.settings.worker_lease_seconds * 1000;
  const answer = await patiently(async () => {
    const lease_until_ms = await registerWorker(parts.sql, registration, lease_ms);
    await failpoint("after-register");
    return { lease_until_ms };
  }, stop);
  if (!answer) return true; // it was stopped
  if (answer.lease_until_ms === undefined) return false;
  local.holdsUntil(answer.lease_until_ms);
  observe("worker.ready", {
    worker_id: local.worker_id,
    node_id: local.node_id,
    grpc_address: addressText(grpc.host, grpc.port),
    slots: local.slots,
  });
  return true;
}

async function live(
  parts: WorkerParts,
  around: {
    open: Opened;
    sandbox: ProcessPool;
    server: RunningServer;
    stop: AbortSignal;
    hurry: AbortSignal;
    journal: ResultJournal;
    /** Looks after siblings. */
    watch(until: AbortSignal): Promise<void>;
    /** Sends alerts, and says which job files are not what was synced. */
    tell(until: AbortSignal): Promise<void>;
    archive: Archive | undefined;
  },
): Promise<LostLife | undefined> {
  const { local } = parts;
  const beating = new AbortController(); // ends last
  const ending = new AbortController(); // ends first
  const stop = AbortSignal.any([around.stop, ending.signal]);
  const heart = beatHeart(parts, beating.signal);
  const lease = holdLease(parts, beating.signal).then((reason) => {
    if (reason) ending.abort();
    return reason;
  });
  const vigil = around.watch(beating.signal);
  const lookout = watchForLeader(parts, stop);
  const telling = around.tell(stop);
  const { peers } = around.open;
  const asking = new Continuation({ ...parts, peers }).tend(beating.signal);
  const subleader = new Subleader({ ...parts, peers, wakeup: local.election_wakeup });
  await playRole({
    ...parts,
    wakeup: local.election_wakeup,
    subleader,
    lead: (term, signal) => lead(term, { ...parts, peers, archive: around.archive }, signal),
  }, stop);
  const lost = ending.signal.aborted ? await lease : undefined;
  if (lost) parts.pending_starts.empty();
  if (lost) await parts.executor.stop(stored("runs.cause.worker_given_up"), around.hurry);
  else await leaveWell(parts, around.hurry);
  await around.sandbox.close(); // before the lease ends: what runs here is proven gone while it is still ours
  await failpoint("after-bodies-gone-before-retire");
  beating.abort();
  await Promise.all([heart, lease, asking]);
  await quietly("ending the vigil", vigil);
  await quietly("ending the lookout", Promise.all([lookout, telling]));
  // With outcomes that Postgres does not have yet the death is left for the heirs to tell: they record those first.
  const done = around.journal.waiting === 0 &&
    await quietly("retiring", retireWorker(parts.sql, local.worker_id));
  around.journal.close(done);
  await quietly("leaving the roster", remove(parts.redis, local.worker_id));
  if (local.detached) await quietly("ending the detach", clearDetach(parts.redis, local.worker_id));
  await closeAll(around.open, around.server);
  if (lost) return { worker_id: local.worker_id, reason: lost, epoch: local.epoch };
  observe("worker.stopped", { worker_id: local.worker_id });
}

/** `playRole` has resigned already. */
async function leaveWell(parts: WorkerParts, hurry: AbortSignal): Promise<void> {
  const { local, executor } = parts;
  observe("worker.draining", { worker_id: local.worker_id, reason: "stopping" });
  local.stopping = true;
  local.draining = true;
  await quietly("saying that it drains", setDraining(parts.sql, local.worker_id, true));
  await quietly("giving back what has not started", renewOnce(parts));
  parts.pending_starts.empty();
  await executor.drain(local.settings.drain_grace_seconds * 1000, hurry);
}

async function closeAll(open: Opened, server?: RunningServer): Promise<undefined> {
  open.peers.close();
  if (server) await quietly("closing gRPC", server.close());
  open.transport.announce = undefined;
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
