/**
 * Cuts off a worker that the drill starts itself, beside those of dev: it reaches Postgres and Redis, and is reached by
 * its peers, only through relays of this process. It gets bodies, then the lead if it can be had, and then nothing
 * passes any more, both ways, for longer than its lease; then all is healed.
 *
 * What it asks of its peers itself is not cut. So a leader that can still speak, and no longer write, meets the fence; and
 * a worker that cannot renew its lease asks its peers, who may confirm its bodies: then those go on, and nothing is
 * repeated. Where nobody confirms they are dead before their runs start elsewhere. Both are right, and it says which it was.
 */
import { environment, PROJECT_DIR } from "../../platform/config.ts";
import { monotonicMs, within } from "../../platform/timers.ts";
import { withoutPassword } from "../../platform/text.ts";
import { list } from "../../redis/heartbeats.ts";
import { askToDegrade } from "../../redis/leader_lock.ts";
import { signalGroup, signalProcess } from "../../sandbox/process_table.ts";
import { isUnreachable } from "../../postgres/connection.ts";
import { removeNode } from "../../nodes/node_health.ts";
import { currentLeader } from "../../nodes/leadership.ts";
import { listWorkers, workerEnded, type WorkerListing } from "../../nodes/workers.ts";
import { FaultyLink } from "../faulty_link.ts";
import { freePort } from "../free_port.ts";
import type { Scene } from "./scene.ts";
import { DRILL_NODE, DrillError, type Site } from "./site.ts";
import { leading } from "./workers.ts";

/** It is one of several candidates, so it takes some tries. */
const TRY_TO_LEAD_MS = 30_000;
const HOLD_AGAIN_MS = 700;
const DEGRADE_TTL_MS = 10_000;
const STOP_WITHIN_MS = 15_000;

export async function partition(scene: Scene): Promise<void> {
  await leading(scene);
  const worker = await LinkedWorker.start(scene);
  try {
    const me = await scene.until("a worker of the drill's own, behind relays, to be ready", () => worker.listing());
    const held = await holdThere(scene, me.worker_id);
    const epoch = await letLead(scene, me.worker_id);
    const role = epoch === undefined ? "a worker" : `the leader of epoch ${epoch}`;
    await scene.strike(`cut off ${DRILL_NODE} (${me.worker_id}), ${role}`, () => worker.cut());
    if (epoch !== undefined) await scene.failover(epoch);
    if (await isConfirmed(scene, me.worker_id)) scene.lastSign(me.node_id, held);
    else await scene.recovery(me);
    await worker.heal();
    const healed_at = await scene.now();
    scene.load.release();
    scene.say("healed, and it must find its way back");
    const back = await scene.until(`${DRILL_NODE} to be at work again`, () => atWork(scene));
    scene.measure(`healed, it was at work again, as ${back.worker_id}`, await scene.now(), healed_at);
  } finally {
    await worker.end();
    await forgetIt(scene);
  }
}

/** It left in good order, and its node would stay in every list. One that had to be killed stays until the next such drill. */
async function forgetIt({ site }: Scene): Promise<void> {
  await removeNode(site.sql, DRILL_NODE, { actor: "drill", reason: "the drill is over" }).catch((error) => {
    if (!isUnreachable(error)) throw error;
  });
}

/** The leader gives it nothing until it has reached it, and who gets a run is the leader's choice. */
async function holdThere(scene: Scene, worker_id: string): Promise<number[]> {
  let next_ms = monotonicMs();
  return await scene.until(`${DRILL_NODE} to have bodies that last`, async () => {
    const held = await scene.load.heldOn(worker_id);
    if (held.length > 0) return held;
    if (monotonicMs() < next_ms) return undefined;
    next_ms = monotonicMs() + HOLD_AGAIN_MS;
    await scene.load.hold(1);
  }, 100);
}

/** Asks one leader after the other to step down until this worker leads; gives its epoch, or undefined when luck was out. */
async function letLead(scene: Scene, worker_id: string): Promise<number | undefined> {
  const { sql, redis } = scene.site;
  scene.say(`asking who leads to hand over, until ${DRILL_NODE} does`);
  const until_ms = monotonicMs() + TRY_TO_LEAD_MS;
  while (monotonicMs() < until_ms) {
    const before = await scene.until("somebody to lead", async () => {
      const now = await currentLeader(sql);
      return now.worker_id ? now : undefined;
    });
    if (before.worker_id === worker_id) return before.epoch;
    await askToDegrade(redis, { epoch: before.epoch, ttl_ms: DEGRADE_TTL_MS });
    await scene.until("it to hand over", async () => {
      const now = await currentLeader(sql);
      return now.epoch > before.epoch && now.worker_id ? true : undefined;
    });
  }
  scene.say(`${DRILL_NODE} did not come to lead, so it is cut off as a worker`);
}

/** Waits for longer than its lease; true: it still holds one, which only its peers can have renewed. */
async function isConfirmed(scene: Scene, worker_id: string): Promise<boolean> {
  const { worker_lease_seconds, worker_renew_seconds } = scene.site.settings;
  const until_ms = scene.struck_at.getTime() + 1000 * (worker_lease_seconds + 2 * worker_renew_seconds);
  const what = `the end of its lease of ${worker_lease_seconds} s, unless its peers confirm its bodies`;
  return await scene.until(what, async () => {
    if (await workerEnded(scene.site.sql, worker_id)) return false;
    const one = (await listWorkers(scene.site.sql)).find((listed) => listed.worker_id === worker_id);
    return (await scene.now()).getTime() < until_ms ? undefined : one !== undefined;
  }, 100);
}

/** In Postgres and in Redis; one that was detached comes back under a new id. */
async function atWork({ site }: Scene): Promise<WorkerListing | undefined> {
  const found = await site.find(DRILL_NODE);
  const beats = (await list(site.redis)).some((one) => one.worker_id === found?.worker_id);
  return found?.state === "ACTIVE" && beats ? found : undefined;
}

/** A worker process whose links can be cut. */
class LinkedWorker {
  readonly #site: Site;
  readonly #links: FaultyLink[];
  readonly #child: Deno.ChildProcess;
  readonly #printed: Promise<unknown>;

  private constructor(site: Site, links: FaultyLink[], child: Deno.ChildProcess) {
    this.#site = site;
    this.#links = links;
    this.#child = child;
    this.#printed = Promise.all([drain(child.stdout), drain(child.stderr)]);
  }

  static async start({ site, worker_command }: Scene): Promise<LinkedWorker> {
    const { note } = site;
    const port = freePort();
    const [postgres, redis, grpc] = await Promise.all([
      relayTo(note.database_url, 5432),
      relayTo(note.redis_url, 6379),
      FaultyLink.to(port).then((link) => ({ link, url: "" })),
    ]);
    const [program = "", ...args] = worker_command;
    const child = new Deno.Command(program, {
      args,
      cwd: PROJECT_DIR,
      env: {
        ...environment(),
        DATABASE_URL: postgres.url,
        REDIS_URL: redis.url,
        SCHEDULER_STATE_DIR: site.state_dir,
        SCHEDULER_REDIS_PREFIX: note.redis_prefix,
        SCHEDULER_NODE_ID: DRILL_NODE,
        SCHEDULER_JOBS_DIR: note.jobs_dir,
        SCHEDULER_GRPC_HOST: "127.0.0.1",
        SCHEDULER_GRPC_PORT: String(port),
        SCHEDULER_GRPC_ADVERTISE: `127.0.0.1:${grpc.link.port}`,
        SCHEDULER_TLS: "mtls",
        SCHEDULER_TLS_CA_FILE: "",
        SCHEDULER_TLS_CERT_FILE: `${note.tls_dir}/tls.crt`,
        SCHEDULER_TLS_KEY_FILE: `${note.tls_dir}/tls.key`,
        SCHEDULER_TLS_PINS_FILE: `${note.tls_dir}/pins.pem`,
      },
      detached: true,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    return new LinkedWorker(site, [postgres.link, redis.link, grpc.link], child);
  }

  /** Its row, once it has registered. */
  async listing() {
    const found = await this.#site.find(DRILL_NODE);
    return found?.pid === this.#child.pid ? found : undefined;
  }

  cut(): void {
    for (const link of this.#links) link.stall();
  }

  async heal(): Promise<void> {
    await Promise.all(this.#links.map((link) => link.heal()));
  }

  /** Lets it leave in good order, or kills it. */
  async end(): Promise<void> {
    await this.heal();
    signalProcess(this.#child.pid, "SIGTERM");
    const gone = this.#child.status;
    await within(STOP_WITHIN_MS, "stopping the drill's worker", gone).catch(() => {
      signalGroup(this.#child.pid, "SIGKILL");
    });
    await gone;
    await this.#child.stdin.close().catch(() => {});
    await this.#printed;
    await Promise.all(this.#links.map((link) => link.close()));
  }
}

/** A relay to a server, and the server's URL by way of it. */
async function relayTo(text: string, default_port: number): Promise<{ link: FaultyLink; url: string }> {
  const url = URL.parse(text); // null: it names several hosts
  if (!url || !/^(redis|postgres|postgresql):$/.test(url.protocol) || url.hostname.includes(",")) {
    throw new DrillError(
      `Cannot cut a worker off from ${withoutPassword(text)}: the relay leads to one plain server; start dev without ` +
        "REDIS_URL and DATABASE_URL",
    );
  }
  const link = await FaultyLink.to(Number(url.port || default_port), url.hostname);
  url.hostname = "127.0.0.1";
  url.port = String(link.port);
  return { link, url: url.href };
}

async function drain(stream: ReadableStream<Uint8Array>): Promise<void> {
  for await (const _ of stream) { /* nobody reads it */ }
}
