/**
 * Facts as lines on stdout. Those that come with every run are written together with what else the same turn of the event
 * loop says, since a write costs more than a line; any other fact is written at once, after those that came before it.
 */
import { factLine, type FactName, hear } from "../base/facts.ts";
import { wallClock } from "../base/loop.ts";

const OF_EVERY_RUN = new Set<FactName>(["run.assigned", "run.started", "run.finished"]);

/** From now on; the returned function ends it. `write` is given lines without their ends. */
export function printFacts(write: (lines: string[]) => void = together): () => void {
  let waiting: string[] = [];
  const flush = () => {
    if (waiting.length === 0) return;
    const lines = waiting;
    waiting = [];
    write(lines);
  };
  return hear((name, fact) => {
    waiting.push(factLine(name, fact, wallClock()));
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
