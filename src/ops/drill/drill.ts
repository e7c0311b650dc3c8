/**
 * `drill`: breaks a running `dev` in one way, under a load of its own, and says what happened: how long it took to notice
 * and to go on, and whether anything was lost, ran twice or overlapped.
 *
 *   dev is whole -> load -> strike -> recovery, measured -> load ends -> judged -> all is put back
 *
 * Users' jobs are not touched; what they run on is, as the drill's name says, and they go on as after any such accident.
 * Whatever becomes of a drill, what it froze is thawed, what it cut is healed, and its job is removed (undo.ts, load.ts).
 */
import { rest } from "../../platform/timers.ts";
import { bodiesIn, type Breach, type History, judge, type Judgement } from "./judge.ts";
import { DrillLoad } from "./load.ts";
import { partition } from "./partition.ts";
import { type Measure, Scene, TooLate } from "./scene.ts";
import { mayFlush, postgresRestart, redisFlush, redisRestart } from "./servers.ts";
import { DrillError, Site } from "./site.ts";
import { freezeLeader, freezeWorker, killLeader, killWorker, needSeveral, rollingRestart } from "./workers.ts";

interface Drill {
  /** For the list. */
  about: string;
  /** Throws a DrillError where it cannot be done, before anything is touched. */
  check(site: Site, yes: string | undefined): Promise<void> | void;
  run(scene: Scene): Promise<void>;
  /** It must not interrupt any run. */
  uncharged?: true;
}

export const DRILLS = {
  "kill-leader": {
    about: "kill -9 of the worker that leads: another one takes its place",
    check: needSeveral,
    run: killLeader,
  },
  "freeze-leader": {
    about: "SIGSTOP of the worker that leads, until another one does; then it goes on, and may write nothing",
    check: needSeveral,
    run: freezeLeader,
  },
  "kill-worker": {
    about: "kill -9 of a worker with bodies: they die with it, and their runs start elsewhere",
    check: needSeveral,
    run: killWorker,
  },
  "freeze-worker": {
    about:
      "SIGSTOP of a worker with bodies, for longer than its lease: its bodies die before their runs start elsewhere",
    check: needSeveral,
    run: freezeWorker,
  },
  "partition": {
    about: "a worker of the drill's own is cut off from Postgres, Redis and its peers while it leads and has bodies",
    check: needSeveral,
    run: partition,
  },
  "redis-restart": {
    about: "kill -9 of dev's Redis: work goes on, and nothing is interrupted",
    check: (site) => void site.server("redis"),
    run: redisRestart,
    uncharged: true,
  },
  "redis-flush": {
    about: "Redis forgets everything: no epoch and no worker's id comes twice",
    check: mayFlush,
    run: redisFlush,
    uncharged: true,
  },
  "postgres-restart": {
    about: "an immediate stop of dev's Postgres: outcomes wait until it is back",
    check: (site) => void site.server("postgres"),
    run: postgresRestart,
  },
  "rolling-restart": {
    about: "SIGTERM for one worker after the other, as a deploy does: nothing is interrupted",
    check: needSeveral,
    run: rollingRestart,
    uncharged: true,
  },
} as const satisfies Record<string, Drill>;

export type DrillName = keyof typeof DRILLS;

export interface DrillParts {
  state_dir: string;
  /** Syncs the jobs folder of this dev; gives what is wrong with it, as text, or nothing. */
  sync(site: Site): Promise<string | undefined>;
  /** Program and arguments of a worker, as dev starts it. */
  worker_command: string[];
  say(text: string): void;
  stop: AbortSignal;
  yes?: string;
}

export interface DrillReport {
  drill: DrillName;
  /** Every promise was kept. */
  kept: boolean;
  /** Since the strike, unless it says otherwise. */
  measures: Measure[];
  runs: number;
  runs_lost: number;
  slots: number;
  slots_lost: number;
  double_running: number;
  bodies: number;
  bodies_overlapping: number;
  bodies_repeated: Judgement["repeats"];
  breaches: Breach[];
}

const LOCK_TRIES = 10;
const LOCK_PAUSE_MS = 50;
/** Load before the strike and after the recovery. */
const AROUND_MS = 700;
/** A schedule that is this much behind is not planned any more. */
const MOST_BEHIND_MS = 3_000;

/** Runs one drill to its end. Throws a DrillError when it cannot be done or was interrupted; a broken promise is a report. */
export async function runDrill(name: DrillName, parts: DrillParts): Promise<DrillReport> {
  const drill: Drill = DRILLS[name];
  using _lock = await takeLock(parts.state_dir);
  const site = await Site.open(parts.state_dir);
  try {
    await drill.check(site, parts.yes);
    const load = new DrillLoad({
      sql: site.sql,
      jobs_dir: site.note.jobs_dir,
      state_dir: parts.state_dir,
      sync: () => parts.sync(site),
    });
    const scene = new Scene({ ...parts, site, load });
    try {
      const { breaches, history } = await play(drill, scene);
      return reportOn(name, { scene, history, breaches });
    } finally {
      await load.remove();
    }
  } finally {
    await site.close();
  }
}

async function play(drill: Drill, scene: Scene): Promise<{ breaches: Breach[]; history: History }> {
  const { load } = scene;
  const breaches: Breach[] = [];
  const leader = await scene.begin();
  scene.say(`${leader.node_id} leads ${scene.site.note.node_ids.length} workers; the load begins`);
  await load.begin();
  await scene.until("the first bodies of the load", () => {
    return Promise.resolve(load.signs().some((sign) => sign.what === "end") || undefined);
  });
  await rest(AROUND_MS);
  try {
    await drill.run(scene);
    await rest(AROUND_MS);
    await scene.steady();
  } catch (error) {
    if (!(error instanceof TooLate)) throw error;
    scene.say(error.message);
    breaches.push({ promise: "recovery", detail: error.message, job_run_ids: [] });
  }
  breaches.push(...await settle(scene));
  return { breaches, history: await load.history(drill.uncharged ?? false) };
}

/** No more new runs; whatever was asked for comes to its end, or is late. */
async function settle(scene: Scene): Promise<Breach[]> {
  const { load } = scene;
  const breaches: Breach[] = [];
  const inTime = (what: string, ask: () => Promise<true | undefined>) =>
    scene.until(what, ask, 100).catch((error) => {
      if (!(error instanceof TooLate)) throw error;
      breaches.push({ promise: "recovery", detail: error.message, job_run_ids: [] });
    });
  await load.stop();
  await inTime("the schedule to be planned up to now", async () => {
    return (await load.behind_ms()) < MOST_BEHIND_MS ? true : undefined;
  });
  await load.stopSchedule();
  await inTime("all runs of the load to end", async () => (await load.open()).length === 0 ? true : undefined);
  return breaches;
}

function reportOn(
  drill: DrillName,
  of: { scene: Scene; history: History; breaches: Breach[] },
): DrillReport {
  const { breaches: found, repeats, counts } = judge(of.history);
  const breaches = [...of.breaches, ...found];
  const countOf = (promise: Breach["promise"]) => breaches.filter((breach) => breach.promise === promise).length;
  const pause_ms = longestPause(of.history, { from_ms: of.scene.struck_ms, until_ms: of.scene.load.stopped_ms });
  return {
    drill,
    kept: breaches.length === 0,
    measures: [...of.scene.measures, { what: "the longest time in which no body began", ms: pause_ms }],
    runs: counts.runs,
    runs_lost: countOf("lost"),
    slots: counts.slots,
    slots_lost: counts.slots_lost,
    double_running: countOf("double_running"),
    bodies: counts.bodies,
    bodies_overlapping: countOf("overlap"),
    bodies_repeated: repeats,
    breaches,
  };
}

/** Between two bodies that began, from just before the strike until no more was asked for. */
function longestPause(history: History, load: { from_ms: number; until_ms: number }): number {
  const starts = bodiesIn(history.signs).map((body) => body.from_ms).filter((at) => at <= load.until_ms);
  const first = Math.max(0, starts.findLastIndex((at) => at < load.from_ms));
  const gaps = starts.slice(first).map((at, place, all) => (all[place + 1] ?? load.until_ms) - at);
  return Math.max(0, ...gaps);
}

/**
 * One drill at a time in a checkout. Held by the open file, so that it is free again however the holder ends; and for a moment longer where that was
 * just starting a process, which has its parent's open files until it becomes itself.
 */
async function takeLock(state_dir: string): Promise<Disposable> {
  Deno.mkdirSync(state_dir, { recursive: true });
  const file = Deno.openSync(`${state_dir}/drill.lock`, { create: true, write: true });
  for (let tries = 0; tries < LOCK_TRIES; tries++) {
    if (await file.tryLock(true)) return file;
    await rest(LOCK_PAUSE_MS);
  }
  file.close();
  throw new DrillError("Cannot drill: another drill is under way in this checkout; wait for its end");
}
