/**
 * The whole thing under chaos: real workers under load, while processes are killed and frozen, links fail, servers crash
 * and clocks jump, by a schedule that the seed decides. Then all is healed, comes to rest, and is judged (checker.ts).
 *
 * The same seed gives the same faults at the same times with the same throws; what they meet is never quite the same.
 */
import { monotonicMs, rest } from "../../src/platform/timers.ts";
import { processesWith } from "../support/processes.ts";
import { check, type Effect, type Violation } from "./checker.ts";
import { Load } from "./live/load.ts";
import { Nemesis, plan, possible } from "./live/nemesis.ts";
import { figuresOf, type Report, storyOf } from "./live/report.ts";
import { insist } from "./live/servers.ts";
import { readTraces } from "./live/traces.ts";
import { Watchman } from "./live/watchman.ts";
import { Witness } from "./live/witness.ts";
import { CHAOS_SETTINGS, World } from "./live/world.ts";
import { Chance } from "./stress/chance.ts";

export interface ChaosOptions {
  seed: number;
  minutes: number;
  /** At most 5. */
  workers: number;
  /** Faults whose name holds this text; all by default. */
  only?: string;
  dir: string;
  /** Ends the faults early; what happened until then is judged. */
  stop: AbortSignal;
  /** Progress, in a line. */
  say(text: string): void;
}

const REST_WITHIN_MS = 120_000;
/** Bodies and Postgres read the clock of the same machine. */
const SAME_CLOCK_MS = 5;
const GONE_WITHIN_MS = 10_000;
const LEASES_MS = 1000 * (CHAOS_SETTINGS.leader_lease_seconds + CHAOS_SETTINGS.worker_lease_seconds);
/** After all is healed the next run must start within both leases and this. */
const HEALED_MARGIN_MS = 2_000;

export async function chaos(options: ChaosOptions): Promise<{ report: Report; story: string }> {
  const { dir, say } = options;
  const chance = new Chance(options.seed);
  const witness = new Witness();
  const world = await World.make({
    dir,
    workers: options.workers,
    chance: chance.fork("world"),
    heard: (fact, at_ms) => witness.hear(fact, at_ms),
  });
  const watchman = new Watchman(world.marks_file);
  const load = await Load.start(world, chance.fork("load"));
  try {
    const nemesis = new Nemesis({ world, load });
    const { faults, left_out } = possible(world, options.only);
    const planned = plan(chance.fork("nemesis"), options.minutes * 60_000, faults);
    say(`${planned.length} faults are planned; all is written down in ${dir}`);
    await nemesis.follow(planned, options.stop);
    await nemesis.heal();
    world.note("all is healed");
    const healed_ms = Date.now();
    const first_start_after_healing_ms = await probe(world, load);
    say(`${nemesis.happened.length} faults have happened and are healed; waiting until all is at rest`);
    await load.stop();
    await untilAtRest(world);
    await world.stopWorkers();
    const left_behind = await leftBehind(world);
    const { effects, overlaps, steps } = await seenOf(world, { witness, watchman });
    say(`Judging ${effects.length} bodies`);
    const new_runs = await load.new_runs();
    const found = await check(world.sql, {
      effects,
      new_runs,
      only_these_new_runs: true,
      left_behind,
      steps: { ...steps, healed_ms, wake_within_ms: LEASES_MS + HEALED_MARGIN_MS },
      clock: { zero: new Date(0), tolerance_ms: SAME_CLOCK_MS },
      leader_lease_ms: CHAOS_SETTINGS.leader_lease_seconds * 1000,
      worker_lease_ms: CHAOS_SETTINGS.worker_lease_seconds * 1000,
    });
    const violations: Violation[] = [
      ...overlaps,
      ...found,
      ...[...world.mishaps, ...load.mishaps].map((detail) => ({ invariant: "harness", detail })),
      ...healing(first_start_after_healing_ms),
    ];
    const figures = await figuresOf(world.sql, { effects, happened: nemesis.happened, witness });
    const report: Report = {
      seed: options.seed,
      minutes: options.minutes,
      workers: options.workers,
      ...figures,
      faults_with_nothing_to_strike: nemesis.passed,
      faults_left_out: left_out,
      asked_again: load.repeated,
      first_start_after_healing_ms,
      violations,
    };
    const story = violations.length === 0
      ? ""
      : await storyOf(world.sql, violations, { effects, moments: world.moments });
    if (violations.length > 0) await writeDown(world, { report, story });
    return { report, story };
  } finally {
    await watchman.stop();
    await load.close().catch(() => {}); // the servers may be what failed
    await world.close();
  }
}

/** What bodies did. The attempts of workflows count executions, and only the rows say of which start each was. */
async function seenOf(world: World, { witness, watchman }: { witness: Witness; watchman: Watchman }) {
  const marked = witness.bodies(world.marks_file, watchman.seen);
  const { executions, overlaps, steps } = readTraces(`${world.dir}/marks/steps.jsonl`);
  const starts = await world.sql<{ fence: number; attempt: number }[]>`
    select fence, attempt from job_run_event where to_state = 'RUNNING' and from_state <> 'RUNNING'`;
  const attempts = new Map(starts.map(({ fence, attempt }) => [fence, attempt]));
  const effects = executions.map((one): Effect => {
    const effect = { ...one, attempt: attempts.get(one.fence) ?? 0 };
    return { ...effect, ...witness.outcomeOf(effect) };
  });
  return {
    effects: [...marked.effects, ...effects].sort((a, b) => a.started_ms - b.started_ms),
    steps,
    overlaps: [
      ...marked.overlaps.map((one) => ({ invariant: one.detail.includes('"run ') ? "I1" : "I8", ...one })),
      ...overlaps.map((one) => ({ invariant: "W2", ...one })),
    ],
  };
}

/** Milliseconds until a new run has started; null: it did not in time. */
async function probe(world: World, load: Load): Promise<number | null> {
  const began_ms = monotonicMs();
  const id = await load.ask("quick", { hold_ms: 0 });
  while (monotonicMs() - began_ms < REST_WITHIN_MS) {
    const [run] = await insist(world.sql, (sql) => sql`select from job_run where id = ${id} and fence is not null`);
    if (run) return Math.round(monotonicMs() - began_ms);
    await rest(20);
  }
  return null;
}

function healing(ms: number | null): Violation[] {
  const limit_ms = LEASES_MS + HEALED_MARGIN_MS;
  if (ms !== null && ms <= limit_ms) return [];
  return [{
    invariant: "I17",
    detail: `after all was healed the next run started after ${ms ?? "?"} ms, not ${limit_ms}`,
  }];
}

/** No run is open; what still is after the limit, the checker tells. */
async function untilAtRest(world: World): Promise<void> {
  const late = AbortSignal.timeout(REST_WITHIN_MS);
  while (!late.aborted) {
    const open = await insist(world.sql, (sql) => sql`select from job_run where finished_at is null limit 1`);
    if (open.length === 0) return;
    await rest(200);
  }
}

/** Processes of bodies, which have the folders of their worker on their command line. */
async function leftBehind({ dir }: World): Promise<string[]> {
  const late = AbortSignal.timeout(GONE_WITHIN_MS);
  for (;;) {
    const left = processesWith(`${dir}/state`).filter(({ command }) => command.includes(`${dir}/state`));
    if (left.length === 0 || late.aborted) return left.map(({ pid, command }) => `process ${pid} is left: ${command}`);
    await rest(50);
  }
}

const TABLES = [
  "job_run",
  "job_run_event",
  "job_run_attempt",
  "job_run_refusal",
  "job_run_log",
  "worker",
  "worker_event",
  "leader_term_event",
  "event",
  "job_schedule",
  "admin_action_log",
  "run_step",
  "run_message",
  "wake_check",
  "bulk",
];

async function writeDown(world: World, told: { report: Report; story: string }): Promise<void> {
  const { dir, sql } = world;
  Deno.mkdirSync(`${dir}/tables`, { recursive: true });
  for (const table of TABLES) {
    const rows = await sql<{ line: string }[]>`select row_to_json(t)::text as line from ${sql(table)} t`;
    Deno.writeTextFileSync(`${dir}/tables/${table}.jsonl`, rows.map(({ line }) => line + "\n").join(""));
  }
  Deno.writeTextFileSync(`${dir}/report.json`, JSON.stringify(told.report, null, 2) + "\n");
  Deno.writeTextFileSync(`${dir}/story.txt`, told.story + "\n");
  const moments = world.moments.map(({ at, text }) => `${at.toISOString()} ${text}\n`);
  Deno.writeTextFileSync(`${dir}/moments.txt`, moments.join(""));
}
