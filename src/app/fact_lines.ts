/**
 * Facts as lines on stdout. Those that come with every run are written together with what else the same turn of the event
 * loop says, since a write costs more than a line; any other fact is written at once, after those that came before it.
 *
 * A loop that fails in each of its rounds, as with the disk of Postgres full, would fill the log with one line many times a second: the same
 * failure is printed once in ten seconds, with how often it came. Of those that differ only in a number (of the run, of a port) the first is.
 */
import { factLine, type FactName, hear } from "../platform/facts.ts";
import { wallClock } from "../platform/timers.ts";
import { LogThrottle } from "../platform/log_throttle.ts";
import { inEnglish } from "../locale/english.ts";

const OF_EVERY_RUN = new Set<FactName>(["run.assigned", "run.started", "run.suspended", "run.finished"]);

const SAME_FAILURE_MS = 10_000;

/** From now on; the returned function ends it. `write` is given lines without their ends. */
export function printFacts(write: (lines: string[]) => void = together, same_failure_ms = SAME_FAILURE_MS): () => void {
  let waiting: string[] = [];
  const failures = new LogThrottle(same_failure_ms);
  const flush = () => {
    if (waiting.length === 0) return;
    const lines = waiting;
    waiting = [];
    write(lines);
  };
  return hear((name, fact) => {
    const times = name === "loop.failed" ? failures.times(JSON.stringify(fact).replaceAll(/\d+/g, "0")) : 1;
    if (times === undefined) return;
    waiting.push(factLine(name, inEnglish(times > 1 ? { ...fact, times } : fact) as typeof fact, wallClock()));
    if (!OF_EVERY_RUN.has(name)) flush();
    else if (waiting.length === 1) queueMicrotask(flush);
  });
}

function together(lines: string[]): void {
  console.log(lines.join("\n"));
}

/** For an exporter of logs, to which each call is a record. */
export function oneByOne(lines: string[]): void {
  for (const line of lines) console.log(line);
}
