/**
 * Patterns of wall times: which readings of a clock on the wall a schedule names. No zones here; calendar.ts turns wall
 * times into instants. Cron patterns are read by croner, which is given the wall clock as if it were UTC's, so that it
 * never sees a change of the clock.
 */
import { Cron } from "croner";

export interface WallPattern {
  /** The first wall time after this one that the pattern names, in milliseconds; null: there is none. */
  next(wall_ms: number): number | null;
  /**
   * Whether it names times of day ("at 02:30"), which a person expects once a day, also on the night when the clock
   * changes. Otherwise it names readings of the clock ("every hour at :15"), and runs whenever the clock shows one.
   */
  time_of_day: boolean;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** Once an hour, at a minute. */
export function hourlyPattern(minute: number): WallPattern {
  return { next: (wall_ms) => nextInGrid(wall_ms, HOUR_MS, minute * MINUTE_MS), time_of_day: false };
}

/** Once a day, at "HH:MM". */
export function dailyPattern(hh_mm: string): WallPattern {
  const [hours, minutes] = hh_mm.split(":").map(Number) as [number, number];
  return {
    next: (wall_ms) => nextInGrid(wall_ms, DAY_MS, hours * HOUR_MS + minutes * MINUTE_MS),
    time_of_day: true,
  };
}

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

/** The first instant or wall time after `ms` that is a whole number of periods, plus a phase, from 1970. */
export function nextInGrid(ms: number, period_ms: number, phase_ms = 0): number {
  return (Math.floor((ms - phase_ms) / period_ms) + 1) * period_ms + phase_ms;
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
