/**
 * How soon one run starts on an idle system: from before the enqueue to the first line of its body, both by the wall clock
 * of this machine; and from the moment Postgres stamped it RUNNING, its worker having accepted it, to that line.
 */
import { rest } from "../../src/platform/timers.ts";
import { withProject } from "../project.ts";
import { type Bench, type Figure, figures, ofEachIsolation, percentiles } from "../workload.ts";

const TELLS_WHEN = `run: () => performance.timeOrigin + performance.now()`;
/** Their result is the instant of their first line, in ms of the Unix epoch. */
export const TIMED = {
  reuse:
    `import { defineJob } from "dandori";\nexport default defineJob({ isolation: { reuse: 10000 }, ${TELLS_WHEN} });\n`,
  process: `import { defineJob } from "dandori";\nexport default defineJob({ isolation: "process", ${TELLS_WHEN} });\n`,
};

/** Runs before, so that code is compiled; peers have done as many when their times are taken. */
export const WARM_RUNS = { reuse: 5_000, process: 100 };
/** Idle again: the next spare is loaded, the last end recorded. */
export const QUIET_MS = 100;
const WARM = 5;

export const pickup = ofEachIsolation({
  name: "pickup",
  about: "enqueue to body start, one run at a time on an idle system, and from the accepted start to the body",
  measure,
});

async function measure(bench: Bench, isolation: "reuse" | "process"): Promise<Figure[]> {
  const runs = bench.runs ?? (bench.quick ? 30 : 200);
  bench.say(`pickup, ${isolation}: ${runs} runs`);
  return await withProject(bench, { jobs: { timed: TIMED[isolation] } }, async (project) => {
    await project.warm("timed", WARM_RUNS[isolation]);
    const asked = new Map<number, number>();
    for (let run = 0; run < runs + WARM; run++) {
      const began_ms = performance.timeOrigin + performance.now();
      const { id } = await project.client.enqueue("timed", {});
      await rest(QUIET_MS); // nothing is asked meanwhile, as of peers
      await project.ended();
      if (run >= WARM) asked.set(id, began_ms);
      await rest(QUIET_MS + QUIET_MS * Math.random()); // out of step with whatever repeats
    }
    const rows = await project.sql<{ id: number; body_ms: number; running_ms: number }[]>`
      select id, result::float8 as body_ms, extract(epoch from started_at)::float8 * 1000 as running_ms
        from job_run where id = any(${[...asked.keys()].map(Number)}::bigint[])`;
    const on = { who: "dandori", how: isolation, n: runs };
    return [
      ...figures(
        { workload: "pickup", ...on },
        percentiles(rows.map(({ id, body_ms }) => body_ms - (asked.get(id) as number))),
      ),
      ...figures(
        { workload: "body start", ...on },
        percentiles(rows.map(({ body_ms, running_ms }) => body_ms - running_ms)),
      ),
    ];
  });
}
