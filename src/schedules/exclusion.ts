/**
 * Days on which a schedule has no slots: "2026-12-31", "12-25" in each year, and inclusive ranges of either, such as
 * "2026-12-29/2027-01-03" or "12-29/01-03". They are days of the zone's calendar: what its clock shows at the slot. Pure.
 */
import type { Stretch } from "./civil_time.ts";

const DAY_MS = 86_400_000;
/** Who excludes every day of the year is told so by the calendar, which looks no further than this either. */
const LOOK_AHEAD_DAYS = 51 * 366;

/** What can be wrong with a text that should name days. */
export type DaysMistake = "no_day" | "no_such_day" | "mixed" | "backwards";

/** What is wrong with a text that should name a day or a range of days, and what to write; undefined: nothing. */
export function wrongWithDays(text: string): { reason: string; fix: string; mistake: DaysMistake } | undefined {
  const [from = "", until = from, more] = text.split("/");
  const fix = 'write "2026-12-31", "12-25" for every year, or an inclusive range such as "2026-12-29/2027-01-03"';
  if (more !== undefined) return { reason: "is more than a range of two days", fix, mistake: "no_day" };
  for (const day of [from, until]) {
    if (!/^(\d{4}-)?\d\d-\d\d$/.test(day)) return { reason: `is no day: "${day}"`, fix, mistake: "no_day" };
    if (!exists(day)) {
      const reason = `names a day that does not exist: "${day}"`;
      return { reason, fix: "correct the date", mistake: "no_such_day" };
    }
  }
  if (from.length !== until.length) {
    return {
      reason: "mixes a day of every year with one of a certain year",
      fix: "give both with their year, or both without",
      mistake: "mixed",
    };
  }
  if (from.length === 10 && until < from) {
    return { reason: "ends before it begins", fix: `write "${until}/${from}"`, mistake: "backwards" };
  }
}

/** A set of such days. @throws Error when one of them cannot be read. */
export class DaysOff {
  /** First and last day, counted from 1970-01-01. */
  readonly #ranges: [number, number][] = [];
  /** Days of a year, "12-25". */
  readonly #yearly = new Set<string>();

  constructor(days: readonly string[]) {
    for (const text of days) {
      const wrong = wrongWithDays(text);
      if (wrong) throw new SyntaxError(`${text} ${wrong.reason}`);
      const [from, until = from] = text.split("/") as [string, string?];
      if (from.length === 10) this.#ranges.push([dayOf(from), dayOf(until)]);
      else for (const day of yearDays(from, until)) this.#yearly.add(day);
    }
  }

  /** The first instant, no earlier than this one and within its stretch or at its end, that is not on such a day. */
  over(instant_ms: number, { offset_ms, until_ms }: Stretch): number {
    const day = Math.floor((instant_ms + offset_ms) / DAY_MS);
    const free_day = this.#freeFrom(day);
    return free_day === day ? instant_ms : Math.min(free_day * DAY_MS - offset_ms, until_ms);
  }

  /** Whether a wall time is on such a day. */
  has(wall_ms: number): boolean {
    const day = Math.floor(wall_ms / DAY_MS);
    return this.#freeFrom(day) !== day;
  }

  #freeFrom(first: number): number {
    for (let day = first; day < first + LOOK_AHEAD_DAYS;) {
      const range = this.#ranges.find(([from, until]) => from <= day && day <= until);
      if (range) day = range[1] + 1;
      else if (this.#yearly.size > 0 && this.#yearly.has(monthDay(day))) day++;
      else return day;
    }
    return first + LOOK_AHEAD_DAYS;
  }
}

function exists(day: string): boolean {
  const date = day.length === 5 ? `${LEAP_YEAR}-${day}` : day;
  return new Date(dayOf(date) * DAY_MS).toISOString().slice(0, 10) === date;
}

const LEAP_YEAR = 2024;

/** From "12-29" to "01-03": over the end of the year if that is where the range goes. */
function yearDays(from: string, until: string): string[] {
  const first = dayOf(`${LEAP_YEAR}-01-01`);
  const days = Array.from({ length: 366 }, (_, place) => monthDay(first + place));
  return days.filter((day) => until < from ? day >= from || day <= until : day >= from && day <= until);
}

/** "12-25" of a day counted from 1970-01-01. */
function monthDay(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(5, 10);
}

function dayOf(date: string): number {
  const [year, month, day] = date.split("-").map(Number) as [number, number, number];
  return Date.UTC(year, month - 1, day) / DAY_MS;
}
