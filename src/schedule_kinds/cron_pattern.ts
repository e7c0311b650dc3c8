/**
 * Cron patterns, as croner reads them. It is given the wall clock as if it were UTC's, so that it never sees a change of the
 * clock.
 */
import { Cron } from "croner";
import type { WallPattern } from "./wall_pattern.ts";

/**
 * A cron pattern of five fields, or six with seconds first, or seven with the year last, or a nickname such as "@daily".
 * @throws Error when croner cannot read it.
 */
export function cronPattern(pattern: string): WallPattern {
  const fields = fieldsOf(pattern);
  if (fields.length < 5) {
    throw new SyntaxError(`expected five fields (minute hour day month weekday), found ${fields.length}`);
  }
  const cron = new Cron(fields.join(" "), { timezone: "UTC", paused: true });
  const hour = fields.length === 5 ? fields[1] : fields[2];
  return {
    next: (wall_ms) => cron.nextRun(new Date(wall_ms))?.getTime() ?? null,
    time_of_day: !/^[*?]/.test(hour as string),
  };
}

/** Fields in the order in which seven of them stand. */
const FIELDS = ["second", "minute", "hour", "day", "month", "weekday", "year"] as const;
export type CronField = typeof FIELDS[number];

/** `text`: it is none, or too long; `count`: so many fields are none; `pattern`: each field by itself could be read. */
export type CronMistake =
  | { what: "text" }
  | { what: "count"; count: number }
  | { what: "field"; field: CronField; text: string }
  | { what: "pattern" };

/** What is wrong with a pattern that cannot be read: the first field that cannot be read by itself either. */
export function mistakeIn(pattern: string): CronMistake {
  const fields = fieldsOf(pattern);
  if (fields.length < 5 || fields.length > FIELDS.length) return { what: "count", count: fields.length };
  const first = fields.length === 5 ? 1 : 0;
  for (const [place, text] of fields.entries()) {
    try {
      cronPattern(fields.map((_, other) => other === place ? text : "*").join(" "));
    } catch {
      return { what: "field", field: FIELDS[first + place] as CronField, text };
    }
  }
  return { what: "pattern" };
}

const NICKNAMES: ReadonlyMap<string, string> = new Map([
  ["@yearly", "0 0 1 1 *"],
  ["@annually", "0 0 1 1 *"],
  ["@monthly", "0 0 1 * *"],
  ["@weekly", "0 0 * * 0"],
  ["@daily", "0 0 * * *"],
  ["@midnight", "0 0 * * *"],
  ["@hourly", "0 * * * *"],
]);

function fieldsOf(pattern: string): string[] {
  const text = pattern.trim();
  return (NICKNAMES.get(text.toLowerCase()) ?? text).split(/\s+/).filter((field) => field !== "");
}
