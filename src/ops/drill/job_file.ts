/**
 * The job that a drill runs. It is a file in the jobs folder like any other, in a folder of its own, so that what is
 * drilled is the whole way of a run, by the same code as users' jobs go; nothing in a worker knows of drills. It is there
 * only during a drill, and its schedule names only the minutes of that drill: one that is left behind does nothing.
 *
 * Its bodies sign a ledger at their start and end and in between, so that it can be seen when a body lived, also of one
 * that was killed. A body that finds the ledger gone ends: the drill is over.
 */
import { SIGN_MS } from "./judge.ts";

export const DRILL_JOB = "dandori_drill";
/** Below the jobs folder. */
export const DRILL_FOLDER = "dandori_drill";
export const DRILL_EVENT = "dandori.drill";

/** `hold_ms`: how long the body lives. `until_released`: its first attempt lives until the drill says so. */
export interface DrillArgs {
  hold_ms?: number;
  until_released?: boolean;
}

/** Cron patterns, one for each hour, that name each second of so many minutes, and no other. */
export function secondsOf(from: Temporal.Instant, minutes: number): string[] {
  const times = Array.from({ length: minutes + 1 }, (_, place) => {
    return from.add({ minutes: place }).toZonedDateTimeISO("UTC");
  });
  return [...Map.groupBy(times, ({ hour, day, month, year }) => `${hour} ${day} ${month} * ${year}`)]
    .map(([hour, inside]) => `* ${inside.map((time) => time.minute).join(",")} ${hour}`);
}

/** The source of the job file. */
export function jobSource(on: { folder: string; crons: string[] }): string {
  const schedule = on.crons.map((cron, place) => ({
    id: `part_${place + 1}`,
    cron,
    misfire: { all: true, max: 1000 },
    args: { hold_ms: 200 },
  }));
  return `// Made by \`deno task drill\`, which removes it again. If no drill is running, remove this folder.
import { defineJob } from "dandori";

const FOLDER = ${JSON.stringify(on.folder)};
const pause = () => new Promise((resolve) => setTimeout(resolve, ${SIGN_MS}));

export default defineJob<${"{ hold_ms?: number; until_released?: boolean }"}>({
  description: "The load of deno task drill",
  schedule: ${JSON.stringify(schedule)},
  on: ${JSON.stringify(DRILL_EVENT)},
  timeoutSeconds: 900,
  permissions: { read: [FOLDER], write: [FOLDER] },
  async run({ args, attempt, fence, jobRunId, log, signal }) {
    const sign = (what: string) => {
      const line = { what, at_ms: Date.now(), job_run_id: jobRunId, attempt, fence, pid: Deno.pid };
      Deno.writeTextFileSync(FOLDER + "/ledger", JSON.stringify(line) + "\\n", { append: true, create: false });
    };
    const released = () => {
      try {
        return Deno.statSync(FOLDER + "/released").isFile;
      } catch {
        return false;
      }
    };
    sign("start");
    log.info(\`attempt \${attempt} began, process \${Deno.pid}, fence \${fence}\`);
    const until_ms = performance.now() + (args.hold_ms ?? 200);
    const held = args.until_released === true && attempt === 1;
    while (!signal.aborted && (held ? !released() : performance.now() < until_ms)) {
      await pause();
      sign("alive");
    }
    sign("end");
  },
});
`;
}
