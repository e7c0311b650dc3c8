/**
 * A ledger of effects, and the judgement of it. Every body appends to one file what it does, and the order of the lines
 * is the kernel's: no clock is compared. What a body did must be what Postgres says of its run, attempt by attempt.
 */
import assert from "node:assert/strict";
import type { Cluster } from "./cluster.ts";

export interface Note {
  job_run_id: number;
  attempt: number;
  fence: number;
  what: "begin" | "alive" | "end";
}

/**
 * A job that writes down when it begins, every 20 ms while it is held, and when it ends. `hold_ms` may be
 * one number for each attempt. `options`: more of defineJob's.
 */
export function ledgerJob(effects_dir: string, options = ""): string {
  return `
    import { defineJob } from "dandori";
    const folder = ${JSON.stringify(effects_dir)};
    export default defineJob<{ hold_ms?: number | number[] }>({
      permissions: { write: [folder] }, ${options}
      async run({ args, attempt, fence, jobRunId }) {
        const note = (what) => Deno.writeTextFileSync(folder + "/ledger",
          JSON.stringify({ job_run_id: jobRunId, attempt, fence, what }) + "\\n", { append: true });
        note("begin");
        const holds = [args.hold_ms ?? 0].flat();
        for (let left = holds[Math.min(attempt, holds.length) - 1]; left > 0; left -= 20) {
          await new Promise((resolve) => setTimeout(resolve, 20));
          note("alive");
        }
        note("end");
        return { attempt };
      },
    });`;
}

/** All that bodies have noted so far, in its order. */
export function readLedger(cluster: Cluster): Note[] {
  try {
    const lines = Deno.readTextFileSync(`${cluster.effects_dir}/ledger`).split("\n");
    return lines.filter(Boolean).map((line) => JSON.parse(line) as Note);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

interface JudgedRun {
  id: number;
  job_name: string;
  state: string;
  attempt: number;
  fence: number | null;
  failures: number;
  interruptions: number;
  kept: { attempt: number; outcome: string; fence: number | null; started: boolean }[];
}

/**
 * Throws when something was promised and is not so. To be asked when all runs of interest have ended. `new runs`: how many
 * runs there must be. Rows that a test made itself are judged as well, but for those of `apart`.
 */
export async function judge(cluster: Cluster, on: { new_runs?: number; apart?: number[] } = {}): Promise<void> {
  const runs = await cluster.sql<JudgedRun[]>`
    select r.id, d.name as job_name, r.state, r.attempt, r.fence, r.failures, r.interruptions,
           coalesce((select json_agg(json_build_object('attempt', a.attempt, 'outcome', a.outcome, 'fence', a.fence,
                            'started', a.started_at is not null) order by a.attempt)
                       from job_run_attempt a where a.job_run_id = r.id), '[]') as kept
      from job_run r join job_definition d on d.id = r.job_definition_id order by r.id`;
  const ledger = readLedger(cluster);
  const problems = runs.filter(({ id }) => !on.apart?.includes(id)).flatMap((run) => {
    const notes = ledger.filter((note) => note.job_run_id === run.id);
    return [...problemsOfRow(run), ...problemsOfNotes(run, notes)].map((problem) =>
      `run ${run.id} (${run.job_name}): ${problem}\n    ${JSON.stringify(run)}\n    ${inShort(notes)}`
    );
  });
  if (runs.length !== (on.new_runs ?? runs.length)) {
    problems.push(`${on.new_runs} runs were to be born, there are ${runs.length}`);
  }
  assert.equal(problems.length, 0, `\n${problems.join("\n")}\n`);
}

function problemsOfRow(run: JudgedRun): string[] {
  const kept_attempts = run.kept.map(({ attempt }) => attempt);
  const earlier = Array.from({ length: run.attempt - 1 }, (_, place) => place + 1);
  const charged = run.kept.filter(({ outcome, started }) => outcome === "LOST" && started).length;
  const failed = run.kept.filter(({ outcome }) => outcome === "FAILED" || outcome === "TIMED_OUT").length;
  const last_failed = run.state === "FAILED" || run.state === "TIMED_OUT" ? 1 : 0;
  const fences = run.kept.flatMap(({ fence, started }) => started && fence !== null ? [fence] : []);
  if (run.fence !== null) fences.push(run.fence);
  const lost_last = run.kept.some(({ attempt }) => attempt === run.attempt);
  return [
    ["SUCCEEDED", "FAILED", "CANCELED", "TIMED_OUT", "SKIPPED"].includes(run.state) || `it has not ended: ${run.state}`,
    earlier.every((attempt) => kept_attempts.includes(attempt)) || "an attempt is missing in its history",
    charged === run.interruptions || `${run.interruptions} interruptions are charged, ${charged} attempts were lost`,
    [failed, failed + last_failed].includes(run.failures) || `${run.failures} failures are charged, not ${failed}`,
    fences.every((fence, place) => place === 0 || fence > (fences[place - 1] as number)) || lost_last ||
    `its fences do not rise: ${fences}`,
  ].filter((problem) => typeof problem === "string");
}

function problemsOfNotes(run: JudgedRun, notes: Note[]): string[] {
  const problems: string[] = [];
  const begins = notes.filter(({ what }) => what === "begin");
  for (const [place, note] of notes.entries()) {
    const before = notes[place - 1];
    if (before && note.attempt < before.attempt) {
      problems.push(`a body of attempt ${note.attempt} worked while attempt ${before.attempt} did`);
    }
  }
  if (new Set(begins.map(({ attempt }) => attempt)).size !== begins.length) problems.push("an attempt had two bodies");
  for (const begin of begins) {
    const kept = run.kept.find(({ attempt }) => attempt === begin.attempt);
    const explained = kept ? kept.started && kept.fence === begin.fence : begin.fence === run.fence;
    if (!explained) problems.push(`the body of attempt ${begin.attempt} (fence ${begin.fence}) is in no history`);
  }
  const ended = notes.some(({ attempt, what }) => attempt === run.attempt && what === "end");
  if (run.state === "SUCCEEDED" && !ended) problems.push("it SUCCEEDED, and its body did not");
  return problems;
}

function inShort(notes: Note[]): string {
  return notes.filter(({ what }) => what !== "alive").map((note) => `${note.attempt}:${note.what}`).join(" ");
}
