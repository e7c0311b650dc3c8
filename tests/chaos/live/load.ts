/**
 * The work of a chaos run, and what was asked for: enqueues and events through a client whose connection fails as the
 * workers' do, each sent with a key of its own until it is acknowledged; cancels; and jobs that kill their worker.
 * Schedules run besides, by themselves.
 */
import { rest, within } from "../../../src/platform/timers.ts";
import { nextSlots } from "../../../src/schedules/calendar.ts";
import { type Client, createClient, EnqueueError } from "../../../src/client.ts";
import { FaultyLink } from "../../../src/ops/faulty_link.ts";
import type { ScheduleSpec } from "../../../src/definitions/definition_rows.ts";
import { requestCancel } from "../../../src/runs/requests.ts";
import type { Chance } from "../stress/chance.ts";
import { insist } from "./servers.ts";
import { through, type World } from "./world.ts";

/** How often each kind of work is given, per second. */
const RATES: [kind: Kind, per_second: number][] = [
  ["quick", 1.8],
  ["serial", 1.2],
  ["event", 0.8],
  ["rumor", 0.2],
  ["plain", 0.3],
  ["flaky", 0.4],
  ["long", 0.25],
  ["spinning", 0.08],
  ["exclusive", 0.08],
  ["killer", 0.02],
  ["journey", 0.5],
  ["source", 0.1],
  ["cancel", 0.2],
];
type Kind =
  | "quick"
  | "serial"
  | "event"
  | "rumor"
  | "plain"
  | "flaky"
  | "long"
  | "spinning"
  | "exclusive"
  | "killer"
  | "journey"
  | "source"
  | "cancel";

const ACTS = [
  ...["step", "step", "shaky", "hopeless", "once", "nap", "sleep", "message", "message", "race"],
  ...["both", "call", "call", "many", "start", "undo", "undo", "fail", "crash"],
];
const SERIAL_KEYS = ["red", "green", "blue", "white", "black"];
const ANSWER_WITHIN_MS = 2_000;
const PAUSE_MS = 200;
/** Beyond this much under way at a time nothing more is asked for: a long outage would end in a flood. */
const MOST_UNDER_WAY = 100;

export class Load {
  /** Acknowledged with two different runs, or in another way not as it should be. */
  readonly mishaps: string[] = [];
  /** How often something was sent again, since no answer came. */
  repeated = 0;
  sent = 0;
  readonly link: FaultyLink;
  readonly #world: World;
  readonly #chance: Chance;
  readonly #client: Client;
  readonly #stop = new AbortController();
  readonly #under_way = new Set<Promise<void>>();
  readonly #keys: { job: string; key: string }[] = [];
  readonly #events = new Map<number, string>();
  readonly #runs: number[] = [];
  #first_slots = new Map<number, Temporal.Instant>();
  #inflight: Promise<unknown> = Promise.resolve();

  private constructor(world: World, chance: Chance, link: FaultyLink) {
    this.#world = world;
    this.#chance = chance;
    this.link = link;
    this.#client = createClient({ databaseUrl: through(world.servers.database_url, link), maxConnections: 4 });
  }

  static async start(world: World, chance: Chance): Promise<Load> {
    const link = await FaultyLink.to(Number(new URL(world.servers.database_url).port));
    const load = new Load(world, chance, link);
    load.#first_slots = await startingPoints(world);
    load.#inflight = Promise.all(RATES.map(([kind, per_second]) => load.#give(kind, per_second)));
    return load;
  }

  /** Asks for no more, and waits until all that was asked for is acknowledged and every slot until now has come. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#inflight;
    await Promise.all(this.#under_way);
    await this.#catchUp();
  }

  /** A schedule that is up to date gets no more slots. */
  async #catchUp(): Promise<void> {
    const late = AbortSignal.timeout(CATCH_UP_MS);
    for (;;) {
      const behind = await insist(this.#world.sql, async (sql) => {
        await sql`update job_schedule set enabled = false where next_slot > clock_timestamp()`;
        return await sql`select id from job_schedule where enabled`;
      });
      if (behind.length === 0) return;
      if (late.aborted) break;
      await rest(50);
    }
    this.mishaps.push(`Some schedules are behind ${CATCH_UP_MS / 1000} s after all was healed`);
    await insist(this.#world.sql, (sql) => sql`update job_schedule set enabled = false`);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#inflight;
    await this.#client.close();
    await this.link.close();
  }

  /** The keys of all runs that must be there, and of no others. */
  async new_runs(): Promise<string[]> {
    const { sql } = this.#world;
    const jobs = await sql<{ id: number; name: string; event_types: string[] }[]>`
      select id, name, event_types from job_definition`;
    const ids = new Map(jobs.map(({ id, name }) => [name, id]));
    const of_events = [...this.#events].flatMap(([event_id, type]) =>
      jobs.filter(({ event_types }) => event_types.includes(type)).map(({ id }) => `event:${event_id}:${id}`)
    );
    const schedules = await sql<(ScheduleSpec & { id: number; last_slot: Date })[]>`select * from job_schedule`;
    const of_slots = schedules.flatMap((schedule) => {
      const until_ms = schedule.last_slot.getTime();
      const after = this.#first_slots.get(schedule.id) as Temporal.Instant;
      const count = Math.ceil((until_ms - after.epochMilliseconds) / 1000) + 1; // none fires more than once a second
      return nextSlots(schedule, { after, count }).filter((slot) => slot.epochMilliseconds <= until_ms)
        .map((slot) => `time:${schedule.id}:${slot}`);
    });
    return [...this.#keys.map(({ job, key }) => `enqueue:${ids.get(job)}:${key}`), ...of_events, ...of_slots];
  }

  /** Enqueues one run at once and gives its id when it is acknowledged. */
  async ask(job: string, args: unknown): Promise<number> {
    const key = crypto.randomUUID();
    this.#keys.push({ job, key });
    return await this.#untilHeard(async () => (await this.#client.enqueue(job, args, { idempotencyKey: key })).id);
  }

  async #give(kind: Kind, per_second: number): Promise<void> {
    const chance = this.#chance.fork(kind);
    while (!this.#stop.signal.aborted) {
      await rest(-Math.log(1 - chance.next()) * 1000 / per_second, this.#stop.signal);
      if (this.#stop.signal.aborted) return;
      const act = this.#act(kind, chance); // its throws are made in any case
      if (this.#under_way.size >= MOST_UNDER_WAY) continue;
      this.sent++;
      const inflight: Promise<void> = act().finally(() => this.#under_way.delete(inflight));
      this.#under_way.add(inflight);
    }
  }

  #act(kind: Kind, chance: Chance): () => Promise<void> {
    switch (kind) {
      case "cancel": {
        const luck = chance.next();
        return () => this.#cancel(luck);
      }
      case "event":
        return this.#emit("chaos.happened", { hold_ms: chance.whole(0, 300) }, chance);
      case "rumor":
        return this.#emit("chaos.rumored", {}, chance);
      case "journey": {
        const acts = Array.from({ length: chance.whole(1, 6) }, () => chance.pick(ACTS));
        const sends = acts.filter((act) => act === "message" || (act === "race" && chance.happens(0.5)));
        const delays_ms = sends.map(() => chance.happens(0.3) ? 0 : chance.whole(200, 9_000));
        return () => this.#journey(acts, delays_ms);
      }
      default: {
        const args = argsFor(kind, chance);
        return async () => void this.#runs.push(await this.ask(kind, args));
      }
    }
  }

  /** A workflow, and the messages that it waits for: some come before it has begun. */
  async #journey(acts: readonly string[], delays_ms: number[]): Promise<void> {
    const id = await this.ask("journey", { acts });
    this.#runs.push(id);
    await Promise.all(delays_ms.map(async (ms) => {
      const [payload, dedupeKey] = [crypto.randomUUID(), crypto.randomUUID()];
      await rest(ms, this.#stop.signal); // in the end all that is waited for comes at once
      await this.#untilHeard(async () => (await this.#client.send(id, "go", payload, { dedupeKey })).id)
        .catch((error) => {
          if (!/has ended|ended/.test(error.message)) throw error; // canceled meanwhile, or failed
        });
    }));
  }

  #emit(type: string, payload: unknown, chance: Chance): () => Promise<void> {
    const dedupeKey = `${type}-${chance.whole(0, 2 ** 52)}`;
    return async () => {
      const id = await this.#untilHeard(async () => (await this.#client.emit(type, payload, { dedupeKey })).id);
      this.#events.set(id, type);
    };
  }

  /** Of one of the last runs, whatever became of it. */
  async #cancel(luck: number): Promise<void> {
    const recent = this.#runs.slice(-20);
    const id = recent[Math.floor(luck * recent.length)];
    if (id === undefined) return;
    const by = { actor: "chaos", reason: "somebody changed their mind" };
    await insist(this.#world.sql, (sql) => requestCancel(sql, id, by));
  }

  /** The same again until there is an answer; what was asked may have been done each time. */
  async #untilHeard(send: () => Promise<number>): Promise<number> {
    const heard = new Set<number>();
    for (;;) {
      const answer = send();
      answer.then((id) => this.#compare(heard, id), () => {}); // an answer that comes too late counts too
      try {
        return await within(ANSWER_WITHIN_MS, "the client", answer);
      } catch (error) {
        if (error instanceof EnqueueError) throw error; // nothing was sent, and nothing will change that
        this.repeated++;
        await rest(PAUSE_MS);
      }
    }
  }

  #compare(heard: Set<number>, id: number): void {
    if (heard.size > 0 && !heard.has(id)) {
      this.mishaps.push(`One key was acknowledged as ${[...heard].join(", ")} and as ${id}`);
    }
    heard.add(id);
  }
}

const CATCH_UP_MS = 30_000;

function argsFor(kind: Exclude<Kind, "cancel" | "event" | "rumor" | "journey">, chance: Chance): unknown {
  switch (kind) {
    case "quick":
      return { hold_ms: chance.whole(0, 400) };
    case "serial": {
      const failures = chance.happens(0.1) ? chance.whole(1, 3) : 0;
      return { key: chance.pick(SERIAL_KEYS), hold_ms: chance.whole(0, 250), failures };
    }
    case "plain":
      return { hold_ms: chance.whole(0, 2_000) };
    case "flaky":
      return { failures: chance.whole(0, 5), fatal: chance.happens(0.2) };
    case "long":
      return { hold_ms: chance.whole(2_000, 15_000) };
    case "spinning":
      return { spin_ms: chance.whole(200, 3_000) };
    case "killer":
      return { kills: chance.happens(0.3) ? 100 : chance.whole(1, 2) };
    case "source":
      return { fails: chance.happens(0.2) };
    case "exclusive":
      return {};
  }
}

/** From where on each schedule must have a run for every slot. */
async function startingPoints(world: World): Promise<Map<number, Temporal.Instant>> {
  const rows = await world.sql<{ id: number; last_slot: Date }[]>`
    update job_schedule set last_slot = clock.now, next_slot = clock.now, enabled = true
      from (select date_trunc('milliseconds', clock_timestamp()) as now) clock returning id, last_slot`;
  return new Map(rows.map(({ id, last_slot }) => [id, last_slot.toTemporalInstant()]));
}
