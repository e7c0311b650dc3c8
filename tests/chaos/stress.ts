/**
 * The protocol under stress: several workers, one of which leads, in one process against a real Postgres and Redis. They
 * are the production roles; between them and everything else stand the wires of stress/, on which a seeded chance loses,
 * delays and doubles what passes, while processes are frozen, killed and cut off. In the end everything is healed, comes
 * to rest, and is judged by the checker.
 *
 *   deno run -A tests/chaos/stress.ts --seed 7 --seconds 10
 */
import { type FactName, hear } from "../../src/platform/facts.ts";
import { after, monotonicMs, rest } from "../../src/platform/timers.ts";
import { connectRedis } from "../../src/redis/connection.ts";
import { connectDb, type Sql } from "../../src/postgres/connection.ts";
import { type Stores, withStores } from "../support/stores.ts";
import { check, explain, type Violation } from "./checker.ts";
import { installHistory } from "./history.ts";
import { Actor } from "./stress/actor.ts";
import { Chance } from "./stress/chance.ts";
import { type Load, prepareLoad, untilHeard } from "./stress/load.ts";
import type { Mistake } from "./stress/mistakes.ts";
import { strikeUntil } from "./stress/nemesis.ts";
import { Network } from "./stress/network.ts";
import { count, FAIR, FOUL, settingsAt, type World } from "./stress/world.ts";

export interface StressOptions {
  seed: number;
  /** Of foul weather; healing and judging come after. */
  seconds: number;
  /** Little to do at a time, so that most runs go the short way of a lone one. */
  quiet?: boolean;
  /** With one, nothing is waited for: what it breaks is broken by then. */
  mistake?: Mistake;
  /** How many times slower than on an idle machine all goes; measured unless said. */
  scale?: number;
}

export interface StressReport {
  seed: number;
  violations: Violation[];
  /** How often each thing happened. */
  counts: Record<string, number>;
  /** The violations and the histories of their runs, and how to run this again; empty when all is well. */
  story: string;
}

/** What a statement and a rest of a millisecond take on an idle machine. */
const IDLE_MS = 4;
const SLOWEST = 4;
const REST_WITHIN_MS = 30_000;
const SHOWN = 3;

export function stress(options: StressOptions): Promise<StressReport> {
  return withStores((stores) => stressIn(stores, options));
}

async function stressIn(stores: Stores, options: StressOptions): Promise<StressReport> {
  const world = makeWorld(stores, options);
  const { mistake } = options;
  const clocks = await compareClocks(world.sql);
  world.clock = clocks.clock;
  world.scale = options.scale ?? Math.min(Math.max(1, clocks.usual_ms / IDLE_MS), SLOWEST);
  world.settings = settingsAt(world.scale);
  count(world, "time scale in percent", Math.round(100 * world.scale));
  await installHistory(world.sql);
  await mistake?.schema?.(world.sql);
  const mend = mistake?.code?.();
  const errors: Errors = new Map();
  const silence = hear((name, fact) => note(world, errors, { name, fact }));
  const load = await prepareLoad(world);
  const actors = PLACES.slice(0, mistake?.workers ?? PLACES.length).map((place) => new Actor(world, place));
  const stop = new AbortController();
  const living = Promise.all(actors.map((actor) => actor.live(stop.signal)));
  try {
    await weather(world, { actors, load, ms: options.seconds * 1_000 * world.scale });
    await load.end(world.sql);
    if (!mistake) count(world, "rest after ms", await untilAtRest(world));
    await leave();
    return await judge(world, { options, new_runs: load.new_runs, errors });
  } finally {
    await leave().catch(() => undefined);
    silence();
    mend?.();
    await Promise.all([world.redis.close(), world.sql.end({ timeout: 2 })]);
  }

  async function leave(): Promise<void> {
    heal(world, actors);
    stop.abort();
    await living;
    while (world.later.size > 0) await Promise.all(world.later);
  }
}

/** Foul for a while, then fair. */
async function weather(world: World, on: { actors: Actor[]; load: Load; ms: number }): Promise<void> {
  const over = new AbortController();
  const cancel = after(on.ms, () => over.abort());
  try {
    await Promise.all([on.load.run(over.signal), strikeUntil(world, on.actors, over.signal)]);
  } finally {
    cancel();
    heal(world, on.actors);
  }
}

const PLACES = [
  { node_id: "north", port: 1 },
  { node_id: "north", port: 2 },
  { node_id: "south", port: 3 },
  { node_id: "south", port: 4 },
  { node_id: "south", port: 5 },
];

function makeWorld(stores: Stores, { seed, mistake, quiet = false }: StressOptions): World {
  const world: Omit<World, "network"> = {
    sql: connectDb(stores.database_url, { name: "stress", max: 16 }),
    redis: connectRedis(stores.redis_url, { prefix: stores.prefix }),
    chance: new Chance(seed),
    settings: settingsAt(1),
    scale: 1,
    weather: { ...FOUL, ...mistake?.weather },
    ledger: [],
    steps: { bodies: [], deliveries: [] },
    clock: undefined,
    mistake,
    quiet,
    statements: new Map(),
    without_postgres: new Set(),
    without_redis: new Set(),
    later: new Set(),
    healed: new AbortController(),
    counts: new Map(),
  };
  return Object.assign(world, { network: new Network(world as World) });
}

/** Both clocks run on this machine, so the quickest of a few answers is the most exact. And how long one usually takes, with a rest. */
async function compareClocks(sql: Sql): Promise<{ clock: World["clock"]; usual_ms: number }> {
  const answers: { took_ms: number; zero_ms: number; turn_ms: number }[] = [];
  for (let tries = 0; tries < 21; tries++) {
    const asked_ms = monotonicMs();
    const [row] = await sql<
      { now_ms: number }[]
    >`select extract(epoch from clock_timestamp())::float8 * 1000 as now_ms`;
    const took_ms = monotonicMs() - asked_ms;
    await rest(1);
    const { now_ms } = row as { now_ms: number };
    answers.push({ took_ms, zero_ms: now_ms - asked_ms - took_ms / 2, turn_ms: monotonicMs() - asked_ms });
  }
  const quickest = answers.reduce((best, answer) => answer.took_ms < best.took_ms ? answer : best);
  const usual_ms = answers.map((answer) => answer.turn_ms).sort((a, b) =>
    a - b
  )[Math.floor(answers.length * 0.8)] as number;
  return { clock: { zero: new Date(quickest.zero_ms), tolerance_ms: quickest.took_ms + 1 }, usual_ms };
}

function heal(world: World, actors: Actor[]): void {
  world.weather = FAIR;
  world.healed.abort();
  for (const actor of actors) actor.process.thaw();
}

/** Until every event has its runs, and every run and every bulk its end; not for ever, since the checker says what did not. */
async function untilAtRest({ sql, scale }: World): Promise<number> {
  const step_ms = 50;
  for (let waited_ms = 0;; waited_ms += step_ms) {
    const [open] = await untilHeard(async () =>
      await sql`
      select 1 from job_run where finished_at is null union all select 1 from event where processed_at is null
      union all select 1 from bulk where finished_at is null limit 1`
    );
    if (!open || waited_ms >= REST_WITHIN_MS * scale) return waited_ms;
    await rest(step_ms);
  }
}

/** What production code complains of under these faults; anything else is a mistake in it. */
const EXPECTED =
  /the connection broke|was killed|gave no answer within|Cannot reach Redis|deadlock detected|statement timeout|lock timeout/;

/** How often each was heard. */
type Errors = Map<string, number>;

function note(world: World, errors: Errors, { name, fact }: { name: FactName; fact: object }): void {
  count(world, name);
  if (name !== "loop.failed") return;
  const { loop, error } = fact as { loop: string; error: string };
  const alike = `${loop}: ${error}`.replaceAll(/\d+/g, "N");
  errors.set(alike, (errors.get(alike) ?? 0) + 1);
}

async function judge(
  world: World,
  of: { options: StressOptions; new_runs: string[]; errors: Errors },
): Promise<StressReport> {
  const { options, new_runs, errors } = of;
  // A judge that is starved by a busy machine for two seconds loses its session, as anybody does who leaves a transaction idle.
  const violations = await untilHeard(() =>
    check(world.sql, {
      effects: world.ledger,
      new_runs,
      only_these_new_runs: true,
      clock: world.clock,
      steps: world.steps,
      leader_lease_ms: world.settings.leader_lease_seconds * 1000,
      worker_lease_ms: world.settings.worker_lease_seconds * 1000,
    })
  );
  for (const [error, times] of errors) {
    if (!EXPECTED.test(error)) violations.push({ invariant: "errors", detail: `${times} times: ${error}` });
  }
  return {
    seed: options.seed,
    violations,
    counts: Object.fromEntries([...world.counts].sort()),
    story: violations.length === 0 ? "" : await tell(world, { options, errors }, violations),
  };
}

async function tell(
  world: World,
  { options, errors }: { options: StressOptions; errors: Errors },
  violations: Violation[],
): Promise<string> {
  const lines = [
    `Seed ${options.seed}: ${violations.length} violations`,
    ...violations.slice(0, 20).map(({ invariant, job_run_id, detail }) =>
      `  ${invariant} run ${job_run_id ?? "-"}: ${detail}`
    ),
  ];
  const runs = [...new Set(violations.map((one) => one.job_run_id).filter((id) => id !== undefined))].slice(0, SHOWN);
  for (const id of runs) lines.push("", await explain(world.sql, id, world.ledger));
  lines.push("", "What was complained of:");
  for (const [error, times] of [...errors].sort(([, a], [, b]) => b - a).slice(0, 20)) {
    lines.push(`  ${times} times ${error}`);
  }
  const planted = options.mistake ? ` --mistake "${options.mistake.name}"` : options.quiet ? " --quiet" : "";
  lines.push(
    "",
    `Again: deno run -A tests/chaos/stress.ts --seed ${options.seed} --seconds ${options.seconds}${planted}`,
  );
  return lines.join("\n");
}

if (import.meta.main) {
  const { MISTAKES } = await import("./stress/mistakes.ts");
  const given = (name: string) => Deno.args[Deno.args.indexOf(`--${name}`) + 1];
  const wanted = Deno.args.includes("--mistake") ? given("mistake") : undefined;
  const report = await stress({
    seed: Number(Deno.args.includes("--seed") ? given("seed") : 1),
    seconds: Number(Deno.args.includes("--seconds") ? given("seconds") : 10),
    quiet: Deno.args.includes("--quiet"),
    scale: Deno.args.includes("--scale") ? Number(given("scale")) : undefined,
    mistake: MISTAKES.find((mistake) => mistake.name === wanted),
  });
  console.log(report.counts);
  console.log(report.story || "No violation");
  Deno.exit(report.violations.length === 0 ? 0 : 1);
}
