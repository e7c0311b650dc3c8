/** Durations and instants as a job's author writes them. */

const UNITS: Record<string, number> = { s: 1, min: 60, h: 3_600, day: 86_400, week: 7 * 86_400 };
const MOST_SECONDS = 3_650 * UNITS.day!;
const HINT = 'give seconds, or a text such as "90 s", "3 days" or "2 h 30 min"';

/** Milliseconds of a duration. `what`: whose it is, for the error. @throws TypeError */
export function durationMs(duration: unknown, what: string): number {
  const seconds = typeof duration === "number" ? duration : secondsIn(duration);
  const given = typeof duration === "string" ? JSON.stringify(duration.slice(0, 80)) : String(duration);
  if (Number.isNaN(seconds)) throw new TypeError(`Cannot ${what} ${given}: ${HINT}`);
  if (seconds < 0) throw new TypeError(`Cannot ${what} ${given}: it is less than 0`);
  if (seconds > MOST_SECONDS) throw new TypeError(`Cannot ${what} ${given}: at most ${MOST_SECONDS / UNITS.day!} days`);
  return seconds * 1000;
}

/** Milliseconds since 1970. @throws TypeError */
export function instantMs(when: unknown, what: string): number {
  const unix_ms = unixMsOf(when);
  if (Number.isFinite(unix_ms) && unix_ms < 253_402_300_800_000) return Math.max(0, unix_ms);
  const given = typeof when === "string" ? JSON.stringify(when.slice(0, 80)) : String(when);
  throw new TypeError(
    `Cannot ${what} ${given}: give a Date, a Temporal.Instant or Temporal.ZonedDateTime, or a text with its zone such as "2026-12-24T18:00:00Z"`,
  );
}

function secondsIn(text: unknown): number {
  if (typeof text !== "string") return NaN;
  const parts = [...text.matchAll(/\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*/gy)];
  if (parts.length === 0 || parts.reduce((sum, [part]) => sum + part.length, 0) !== text.length) return NaN;
  return parts.reduce(
    (sum, [, count, unit = ""]) => sum + Number(count) * (UNITS[unit.replace(/(day|week)s$/, "$1")] ?? NaN),
    0,
  );
}

function unixMsOf(when: unknown): number {
  if (when instanceof Date) return when.getTime();
  const { epochMilliseconds } = Object(when) as { epochMilliseconds?: unknown };
  if (typeof epochMilliseconds === "number") return epochMilliseconds;
  // Without a zone it would be that of the worker, which differs from node to node.
  const has_zone = typeof when === "string" && /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}.*(?:Z|[+-]\d{2}:?\d{2})$/i.test(when);
  return has_zone ? Date.parse(when) : NaN;
}
