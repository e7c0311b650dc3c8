/**
 * Judges what a drill did to its load: what was asked for, what Postgres kept, and what the bodies themselves wrote into
 * the ledger, held against each other. Pure.
 *
 *   lost              asked for, and there is no run, or it never ended
 *   failed            ended as anything but SUCCEEDED; the bodies of the load do not fail by themselves
 *   doubled           a run that nobody asked for, or one creation that made two
 *   double_running    two attempts of a run were RUNNING at once, by the database's clock
 *   overlap           two bodies of one run, or of one serial key, lived at once, by their own signs of life
 *   unexplained       a body ran again and no ended attempt says why, or it ran without a start in Postgres
 *   fence             a later body got a fence that is not higher
 *   charged           a run was interrupted or charged where the drill must not touch any
 *
 * A body gives a sign of life each SIGN_MS: an overlap that is shorter can go unseen.
 */
import type { AttemptRecord, RunRecord } from "../../runs/run_history.ts";
import { TERMINAL } from "../../runs/run_states.ts";
import { english } from "../../locale/english.ts";
import { firstLine } from "../../platform/text.ts";

/** How often a body says that it lives. */
export const SIGN_MS = 50;

/** A line of the ledger: a body of this attempt lived at this time of this machine's clock. */
export interface Sign {
  what: "start" | "alive" | "end";
  at_ms: number;
  job_run_id: number;
  attempt: number;
  fence: number;
  pid: number;
}

export interface History {
  /** Idempotency keys of all that was asked for. Slots of the schedule begin with "time:". */
  expected: string[];
  runs: RunRecord[];
  attempts: AttemptRecord[];
  signs: Sign[];
  /** This drill must not interrupt any run. */
  uncharged: boolean;
}

export type Promised =
  | "lost"
  | "failed"
  | "doubled"
  | "double_running"
  | "overlap"
  | "unexplained"
  | "fence"
  | "charged"
  | "recovery";

export interface Breach {
  promise: Promised;
  detail: string;
  job_run_ids: number[];
}

/** A body that ran though an earlier body of its run had run. */
export interface Repeat {
  job_run_id: number;
  attempt: number;
  /** What became of the earlier one. */
  outcome: string;
  cause: string;
}

export interface Judgement {
  breaches: Breach[];
  repeats: Repeat[];
  counts: { runs: number; slots: number; slots_lost: number; bodies: number };
}

/** One body: all that its process wrote. */
export interface BodyLife {
  job_run_id: number;
  attempt: number;
  fence: number;
  pid: number;
  from_ms: number;
  /** Its last sign. */
  to_ms: number;
}

export function judge(history: History): Judgement {
  const bodies = bodiesIn(history.signs);
  const by_run = Map.groupBy(bodies, (body) => body.job_run_id);
  const new_runs = judgeNewRuns(history);
  const repeats: Repeat[] = [];
  const breaches = [
    ...new_runs,
    ...judgeEnds(history),
    ...judgeRunning(history),
    ...judgeBodies(history, by_run, repeats),
    ...judgeSerial(history, by_run),
  ];
  const slots = history.expected.filter(isSlot).length;
  const found = new Set(history.runs.map((run) => run.idempotency_key));
  const slots_lost = history.expected.filter((key) => isSlot(key) && !found.has(key)).length;
  return { breaches, repeats, counts: { runs: history.runs.length, slots, slots_lost, bodies: bodies.length } };
}

/** Each process that gave a sign, from its first to its last one. */
export function bodiesIn(signs: Sign[]): BodyLife[] {
  const lives = Map.groupBy(signs, (sign) => `${sign.job_run_id}:${sign.attempt}:${sign.fence}:${sign.pid}`);
  return [...lives.values()].map((own) => {
    const { job_run_id, attempt, fence, pid } = own[0] as Sign;
    const times = own.map((sign) => sign.at_ms);
    return { job_run_id, attempt, fence, pid, from_ms: Math.min(...times), to_ms: Math.max(...times) };
  }).sort((one, other) => one.from_ms - other.from_ms);
}

function isSlot(key: string): boolean {
  return key.startsWith("time:");
}

function judgeNewRuns({ expected, runs }: History): Breach[] {
  const by_key = Map.groupBy(runs, (run) => run.idempotency_key);
  const asked = new Set(expected);
  const breaches: Breach[] = [];
  for (const key of asked) {
    if (!by_key.has(key)) breaches.push({ promise: "lost", detail: `no run was made for ${key}`, job_run_ids: [] });
  }
  for (const [key, made] of by_key) {
    const ids = made.map((run) => run.job_run_id);
    if (key === null || !asked.has(key)) {
      breaches.push({
        promise: "doubled",
        detail: `nobody asked for ${key ?? "a run without a key"}`,
        job_run_ids: ids,
      });
    } else if (made.length > 1) {
      breaches.push({ promise: "doubled", detail: `${made.length} runs were made for ${key}`, job_run_ids: ids });
    }
  }
  return breaches;
}

function judgeEnds({ runs, uncharged }: History): Breach[] {
  return runs.flatMap((run): Breach[] => {
    const { job_run_id, state, interruptions, failures } = run;
    const breach = (promise: Promised, detail: string) => ({ promise, detail, job_run_ids: [job_run_id] });
    if (!TERMINAL.includes(state)) return [breach("lost", `run ${job_run_id} never ended: it is ${state}`)];
    if (state !== "SUCCEEDED") {
      return [
        breach(
          "failed",
          `run ${job_run_id} ended as ${state}: ${english(run.error_summary ?? "no error is recorded")}`,
        ),
      ];
    }
    if (uncharged && interruptions + failures > 0) {
      return [breach("charged", `run ${job_run_id} has ${interruptions} interruptions and ${failures} failures`)];
    }
    return [];
  });
}

function judgeRunning({ runs, attempts }: History): Breach[] {
  const earlier = Map.groupBy(attempts, (attempt) => attempt.job_run_id);
  return runs.flatMap((run) => {
    const spans = (earlier.get(run.job_run_id) ?? []).filter((one) => one.started_at !== null)
      .map((one) => ({ attempt: one.attempt, from: one.started_at as Date, to: one.ended_at as Date | undefined }));
    if (run.started_at && !spans.some((span) => span.attempt === run.attempt)) {
      spans.push({ attempt: run.attempt, from: run.started_at, to: undefined });
    }
    spans.sort((one, other) => one.attempt - other.attempt);
    return spans.flatMap((span, place): Breach[] => {
      const next = spans[place + 1];
      if (!next || (span.to && span.to <= next.from)) return [];
      const detail =
        `run ${run.job_run_id} was RUNNING as attempt ${next.attempt} before attempt ${span.attempt} had ended`;
      return [{ promise: "double_running", detail, job_run_ids: [run.job_run_id] }];
    });
  });
}

function judgeBodies({ runs, attempts }: History, by_run: Map<number, BodyLife[]>, repeats: Repeat[]): Breach[] {
  const started = new Set([...runs, ...attempts].map((one) => `${one.job_run_id}:${one.attempt}:${one.fence}`));
  const ended = new Map(attempts.map((one) => [`${one.job_run_id}:${one.attempt}`, one]));
  const breaches: Breach[] = [];
  for (const [job_run_id, bodies] of by_run) {
    const breach = (promise: Promised, detail: string) =>
      breaches.push({ promise, detail: `run ${job_run_id}: ${detail}`, job_run_ids: [job_run_id] });
    for (const [place, body] of bodies.entries()) {
      if (!started.has(`${job_run_id}:${body.attempt}:${body.fence}`)) {
        breach(
          "unexplained",
          `a body of attempt ${body.attempt} ran with fence ${body.fence}, which no start gave out`,
        );
      }
      const next = bodies[place + 1];
      if (!next) continue;
      if (next.from_ms < body.to_ms) breach("overlap", overlapText(body, next));
      if (next.fence <= body.fence) {
        breach(
          "fence",
          `attempt ${next.attempt} got fence ${next.fence}, after attempt ${body.attempt} with ${body.fence}`,
        );
      }
      const why = ended.get(`${job_run_id}:${body.attempt}`);
      if (next.attempt <= body.attempt) {
        breach("unexplained", `attempt ${body.attempt} was followed by ${next.attempt}`);
      } else if (!why) {
        breach("unexplained", `attempt ${body.attempt} ran a body, and nothing says why another one ran`);
      } else {
        const cause = firstLine(english(why.error_summary ?? ""));
        repeats.push({ job_run_id, attempt: next.attempt, outcome: why.outcome, cause });
      }
    }
  }
  return breaches;
}

/** Runs that share a key go one at a time, whichever attempts they are. */
function judgeSerial({ runs }: History, by_run: Map<number, BodyLife[]>): Breach[] {
  const keys = Map.groupBy(runs.filter((run) => run.serial_key !== null), (run) => run.serial_key);
  return [...keys].flatMap(([key, sharing]) => {
    const bodies = sharing.flatMap((run) => by_run.get(run.job_run_id) ?? [])
      .sort((one, other) => one.from_ms - other.from_ms);
    return bodies.flatMap((body, place): Breach[] => {
      const next = bodies[place + 1];
      if (!next || next.job_run_id === body.job_run_id || next.from_ms >= body.to_ms) return [];
      const detail = `serial key ${key}: ${overlapText(body, next)}`;
      return [{ promise: "overlap", detail, job_run_ids: [body.job_run_id, next.job_run_id] }];
    });
  });
}

function overlapText(body: BodyLife, next: BodyLife): string {
  const overlap_ms = Math.min(body.to_ms, next.to_ms) - next.from_ms;
  return `the bodies of run ${body.job_run_id} attempt ${body.attempt} and run ${next.job_run_id} attempt ` +
    `${next.attempt} both lived for ${overlap_ms} ms`;
}
