/**
 * How soon a body starts after the instant at which its run is due, for runs known long before, one at a time on an idle
 * system: the first line of the body by the wall clock, against `due_at`.
 */
import { rest } from "../../src/platform/timers.ts";
import { withProject } from "../project.ts";
import { type Bench, type Figure, figures, ofEachIsolation, percentiles } from "../workload.ts";
import { TIMED, WARM_RUNS } from "./pickup.ts";

/** Known at least this long before. */
const AHEAD_MS = 15_000;
const APART_MS = 150;

export const due = ofEachIsolation({
  name: "due",
  about: "due time to body start, for runs known long before",
  measure,
});

async function measure(bench: Bench, isolation: "reuse" | "process"): Promise<Figure[]> {
  const runs = bench.runs ?? (bench.quick ? 30 : 200);
  bench.say(`due, ${isolation}: ${runs} runs`);
  return await withProject(bench, { jobs: { timed: TIMED[isolation] } }, async (project) => {
    await project.warm("timed", WARM_RUNS[isolation]);
    const first_ms = Date.now() + AHEAD_MS;
    const items = Array.from({ length: runs }, (_, place) => ({ args: {}, runAt: dueAt(first_ms, place) }));
    await project.client.enqueueMany("timed", items);
    await rest(AHEAD_MS + runs * APART_MS);
    await project.ended();
    const rows = await project.sql<{ late_ms: number }[]>`
      select result::float8 - extract(epoch from due_at)::float8 * 1000 as late_ms from job_run
       where due_at >= ${new Date(first_ms)} and state = 'SUCCEEDED'`;
    if (rows.length !== runs) throw new Error(`${rows.length} of ${runs} runs have succeeded`);
    return figures(
      { workload: "due", who: "dandori", how: isolation, n: runs },
      percentiles(rows.map(({ late_ms }) => late_ms)),
    );
  });
}

/** Out of step with whatever repeats. */
export function dueAt(first_ms: number, place: number): Date {
  return new Date(first_ms + place * APART_MS + Math.floor(Math.random() * APART_MS / 3));
}
