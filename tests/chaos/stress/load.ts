/** The work that the stress gives: schedules, events, enqueues of jobs with every policy and bulks, and people who cancel. */
import { rest, wallClock } from "../../../src/platform/timers.ts";
import { nextSlots } from "../../../src/schedules/calendar.ts";
import { createRuns } from "../../../src/runs/create_runs.ts";
import { isUnreachable, type Sql } from "../../../src/postgres/connection.ts";
import type { ScheduleSpec } from "../../../src/definitions/definition_rows.ts";
import { emitEvent } from "../../../src/events/events.ts";
import { reprioritizeWhere, requestCancel } from "../../../src/runs/requests.ts";
import { sendMessage } from "../../../src/steps/run_messages.ts";
import { aDefinition } from "../../support/factories.ts";
import type { Manner } from "./bodies.ts";
import { changeSomeBulk, giveBulk, new_runsOfBulks } from "./bulks.ts";
import { Crashed, SimProcess } from "./process.ts";
import { postgresOf } from "./wires.ts";
import { count, type World } from "./world.ts";

interface Job {
  manner: Manner;
  columns: Record<string, unknown>;
  /** A slot each so many seconds. */
  every_seconds?: number;
}

const QUICK: Manner = { least_ms: 5, most_ms: 120, fails: 0.25, fatal: 0.3 };
const LONG: Manner = { least_ms: 200, most_ms: 2_500, fails: 0.1, fatal: 0.5 };
const RETRIES = { max_retries: 2, retry_backoff_seconds: 0.05, retry_factor: 2, retry_jitter: 0.5 };
/** Interrupted more often than in any real life; a few are quarantined all the same. */
const TOUGH = { max_interruptions: 6 };

const OF_KEY = { key: "{key}" };

const JOBS: Record<string, Job> = {
  plain: { manner: QUICK, columns: { ...RETRIES } },
  long: { manner: LONG, columns: { ...TOUGH, max_retries: 1, retry_backoff_seconds: 0.2 } },
  keyed: { manner: QUICK, columns: { ...RETRIES, ...TOUGH, serial_key: "key:{key}" } },
  limited: {
    manner: { least_ms: 50, most_ms: 400, fails: 0.2, fatal: 0.3 },
    columns: { ...RETRIES, ...TOUGH, concurrency_limit: 2, concurrency_key: "{key}" },
  },
  licensed: {
    manner: { least_ms: 20, most_ms: 200, fails: 0.2, fatal: 0.3 },
    columns: { ...RETRIES, ...TOUGH, resources: { license: 2 } },
  },
  single: { manner: { ...QUICK, most_ms: 40, fails: 0.05 }, columns: { ...RETRIES, ...TOUGH } },
  stepped: {
    manner: { ...QUICK, fails: 0.15, steps: true },
    columns: { ...RETRIES, ...TOUGH, messages: { go: {} } },
  },
  rated: { manner: QUICK, columns: { ...RETRIES, ...TOUGH, rate_count: 4, rate_seconds: 1 } },
  calmed: {
    manner: QUICK,
    columns: {
      type: "event",
      event_types: ["much"],
      event_rules: { much: { ...OF_KEY, debounce_seconds: 0.3, max_wait_seconds: 1.5 } },
    },
  },
  throttled: {
    manner: QUICK,
    columns: { type: "event", event_types: ["much"], event_rules: { much: { ...OF_KEY, throttle_seconds: 0.5 } } },
  },
  heard: { manner: QUICK, columns: { ...RETRIES, event_types: ["something"], type: "event" } },
  overheard: { manner: QUICK, columns: { event_types: ["something"], type: "event", serial_key: "key:{key}" } },
  ticking: { manner: QUICK, columns: { ...RETRIES, type: "time" }, every_seconds: 1 },
  guarded: {
    manner: LONG,
    columns: { type: "time", concurrency_policy: "forbid", max_retries: 1, retry_backoff_seconds: 0.1 },
    every_seconds: 1,
  },
  replacing: { manner: LONG, columns: { ...TOUGH, type: "time", concurrency_policy: "replace" }, every_seconds: 2 },
};

export const MANNERS = new Map(Object.entries(JOBS).map(([name, job]) => [name, job.manner]));

export function digestOf(command_name: string): string {
  return `digest of ${command_name}`;
}

interface Schedule extends ScheduleSpec {
  id: number;
  from: Temporal.Instant;
}

export interface Load {
  /** Keys of what was made so far, and will have a run. */
  readonly new_runs: string[];
  /** Makes work until stopped; resolves when all that was begun has been heard of. */
  run(stop: AbortSignal): Promise<void>;
  /** No slot comes any more. Adds those that came to the new runs. */
  end(sql: Sql): Promise<void>;
}

/** Definitions and schedules as rows; nothing happens yet. */
export async function prepareLoad(world: World): Promise<Load> {
  await world.sql`insert into resource (name, capacity) values ('license', 5)`;
  await world.sql`insert into node (node_id, max_concurrent) values ('north', 6)`;
  const ids = new Map<string, number>();
  const schedules: Schedule[] = [];
  for (const [name, job] of Object.entries(JOBS)) {
    const digest = digestOf(`${name}.ts`);
    const { id } = await aDefinition(world.sql, { name, digest, command_name: `${name}.ts`, ...job.columns });
    ids.set(name, id);
    if (job.every_seconds && !world.quiet) schedules.push(await aSchedule(world.sql, id, job.every_seconds));
  }
  const new_runs: string[] = [];
  return {
    new_runs,
    run: (stop) => makeWork(world, { ids, new_runs }, stop),
    async end(sql) {
      await untilHeard(async () => await sql`update job_schedule set enabled = false`);
      new_runs.push(...await untilHeard(() => new_runsOfBulks(sql)));
      const rows = await untilHeard(async () =>
        await sql<{ id: number; last_slot: Date }[]>`select id, last_slot from job_schedule`
      );
      for (const schedule of schedules) {
        const last_ms = rows.find((row) => row.id === schedule.id)?.last_slot.getTime() ?? 0;
        for (const slot of nextSlots(schedule, { after: schedule.from, count: 1_000 })) {
          if (slot.epochMilliseconds > last_ms) break;
          new_runs.push(`time:${schedule.id}:${slot}`);
        }
      }
    },
  };
}

async function aSchedule(sql: Sql, job_definition_id: number, seconds: number): Promise<Schedule> {
  const spec: ScheduleSpec = {
    schedule_type: "cron",
    schedule_value: `*/${seconds} * * * * *`,
    timezone: "UTC",
    misfire: { policy: "all", within_seconds: null, max: 1_000 },
    dst_gap: "after",
    dst_overlap: "first",
    exclude: [],
    jitter_seconds: 0,
  };
  const [clock] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
  const from = Temporal.Instant.fromEpochMilliseconds((clock as { now: Date }).now.getTime());
  const [next] = nextSlots(spec, { after: from, count: 1 });
  const [row] = await sql<{ id: number }[]>`
    insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, misfire, last_slot, next_slot)
    values (${job_definition_id}, 'always', 'cron', ${spec.schedule_value}, ${sql.json(spec.misfire)}, ${
    String(from)
  }, ${String(next)})
    returning id`;
  return { ...spec, id: (row as { id: number }).id, from };
}

interface Made {
  ids: Map<string, number>;
  new_runs: string[];
}

async function makeWork(world: World, made: Made, stop: AbortSignal): Promise<void> {
  const people = new SimProcess("people");
  const sql = postgresOf(world, people);
  const chance = world.chance.fork("load");
  const under_way = new Set<Promise<unknown>>();
  const failed: unknown[] = [];
  for (let turn = 0; !stop.aborted; turn++) {
    const act = somethingDone(sql, made, { world, chance, turn });
    const done = act.catch((error) => {
      if (world.mistake) count(world, "asked in vain"); // where the tables are wrong, some of it must be refused
      else if (!(error instanceof Crashed)) failed.push(error);
    }).finally(() => under_way.delete(done));
    under_way.add(done);
    await rest((world.quiet ? chance.between(60, 200) : chance.between(2, 24)) * world.scale, stop);
  }
  await Promise.all(under_way);
  if (failed.length > 0) throw failed[0];
}

async function somethingDone(
  sql: Sql,
  made: Made,
  { world, chance, turn }: { world: World; chance: World["chance"]; turn: number },
): Promise<unknown> {
  if (chance.happens(0.15)) return await cancelSomething(sql, world);
  if (world.quiet) return await giveRun(sql, made, { world, chance, turn, job_name: "single" });
  if (world.mistake || !chance.happens(0.2)) return await giveWork(sql, made, { world, chance, turn });
  const acts: (() => Promise<unknown>)[] = [
    () => chance.happens(0.5) ? giveBulk(world, { chance, turn }) : changeSomeBulk(world, chance),
    () => moveSome(sql, world, chance),
    () => giveRun(sql, made, { world, chance, turn, job_name: "rated" }),
    () => giveRun(sql, made, { world, chance, turn, job_name: "stepped" }),
    () => giveRun(sql, made, { world, chance, turn, job_name: "stepped" }),
    () => sendSome(sql, { world, chance, turn }),
    () => sendSome(sql, { world, chance, turn }),
    () => emitMuch(sql, { world, chance, turn }),
  ];
  return await chance.pick(acts)();
}

/** An enqueue, or an event with one run for each job that waits for it. Asked again until there is an answer. */
async function giveWork(
  sql: Sql,
  made: Made,
  { world, chance, turn }: { world: World; chance: World["chance"]; turn: number },
): Promise<void> {
  if (!world.mistake?.job && chance.happens(0.2)) {
    const event = { event_type: "something", payload: { key: chance.whole(1, 8) }, dedupe_key: `event ${turn}` };
    const id = await untilHeard(() => emitEvent(sql, event));
    for (const name of ["heard", "overheard"]) made.new_runs.push(`event:${id}:${made.ids.get(name)}`);
    return count(world, "events");
  }
  const job_name = world.mistake?.job ??
    chance.pick(["plain", "plain", "plain", "plain", "keyed", "keyed", "long", "limited", "limited", "licensed"]);
  await giveRun(sql, made, { world, chance, turn, job_name });
}

async function giveRun(
  sql: Sql,
  made: Made,
  { world, chance, turn, job_name }: { world: World; chance: World["chance"]; turn: number; job_name: string },
): Promise<void> {
  const new_run = {
    job_name,
    args: { key: chance.whole(1, 8) },
    idempotency_key: `${turn}`,
    priority: world.mistake?.newest_first || chance.happens(0.3) ? 999 - turn % 1_000 : chance.whole(0, 999), // some newest first
    ...(!world.quiet && chance.happens(0.15) ? { run_at: inMs(chance.between(0, 2_000) * world.scale) } : {}),
    ...(!world.quiet && chance.happens(0.1) ? { node: chance.pick(["north", "south"]) } : {}),
  };
  await untilHeard(() => createRuns(sql, [new_run]));
  made.new_runs.push(`enqueue:${made.ids.get(job_name)}:${turn}`);
  count(world, "enqueues");
}

/** Of the type of which rules make fewer runs than events. What came of each is judged by what is told of it. */
async function emitMuch(
  sql: Sql,
  { world, chance, turn }: { world: World; chance: World["chance"]; turn: number },
): Promise<void> {
  const payload = { key: chance.whole(1, 3), turn };
  for (let n = chance.whole(1, 4); n > 0; n--) {
    await untilHeard(() => emitEvent(sql, { event_type: "much", payload, dedupe_key: `event ${turn}.${n}` }));
    count(world, "events of much");
  }
}

/** To one that waits for it, or will. */
async function sendSome(
  sql: Sql,
  { world, chance, turn }: { world: World; chance: World["chance"]; turn: number },
): Promise<void> {
  const luck = chance.next();
  const rows = await untilHeard(async () =>
    await sql<{ id: number }[]>`
      select r.id from job_run r join job_definition d on d.id = r.job_definition_id
       where d.name = 'stepped' and r.finished_at is null order by r.id limit 50`
  );
  const run = rows[Math.floor(luck * rows.length)];
  if (!run) return;
  const message = {
    job_run_id: run.id,
    name: "go",
    payload: `message ${turn}`,
    dedupe_key: `${turn}`,
    sent_by: "somebody",
  };
  await untilHeard(() => sendMessage(sql, message));
  count(world, "messages sent");
}

/** Others come first from now on. */
async function moveSome(sql: Sql, world: World, chance: World["chance"]): Promise<void> {
  const by = { actor: "somebody", reason: "chance", priority: chance.whole(0, 999), most: chance.whole(1, 5) };
  const job_name = chance.pick(["plain", "keyed", "limited", "rated"]);
  count(world, "priorities moved", (await untilHeard(() => reprioritizeWhere(sql, { job_name }, by))).length);
}

/** All of it runs on one machine, and so by one clock. */
function inMs(ms: number): Date {
  return new Date(wallClock().getTime() + ms);
}

async function cancelSomething(sql: Sql, world: World): Promise<void> {
  const [run] = await untilHeard(async () =>
    await sql<
      { id: number }[]
    >`select id from job_run where finished_at is null and cancel_requested_at is null order by random() limit 1`
  );
  if (!run) return;
  await untilHeard(() => requestCancel(sql, run.id, { actor: "somebody", reason: "chance" }));
  count(world, "cancels");
}

/** Only for what may be asked twice. */
export async function untilHeard<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      await rest(30);
    }
  }
}
