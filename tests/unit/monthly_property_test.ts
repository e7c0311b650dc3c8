/**
 * `monthlyOn` against another way to reckon: every local day of some years, asked whether it is the day, its time turned into
 * an instant by Temporal's own rules.
 */
import assert from "node:assert/strict";
import type { MonthlyTime } from "../../src/job.ts";
import { slotsIn } from "../../src/schedules/calendar.ts";
import { spec } from "../support/wall_slots.ts";

const WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
const ZONES = [
  "UTC",
  "Asia/Tokyo",
  "Europe/Berlin",
  "America/New_York",
  "America/Sao_Paulo",
  "Australia/Lord_Howe",
  "Africa/Cairo",
  "Asia/Kathmandu",
  "Pacific/Apia", // left out 2011-12-30
];
const FIRST = Temporal.PlainDate.from("2010-12-01");
const DAYS = 4 * 366;
/** A zone's day begins at most 14 hours before UTC's and ends at most 12 after it; a gap moves a time by a day at most. */
const EDGE = { hours: 48 };

type Dst = { gap: "after" | "before" | "skip"; overlap: "first" | "second" | "both" };

/** By looking at the neighbours of a day only. */
function isTheDay(date: Temporal.PlainDate, { day, ifMissing = "skip" }: MonthlyTime): boolean {
  const is_last = date.add({ days: 1 }).month !== date.month;
  if (day === "last") return is_last;
  if (typeof day === "number") return date.day === day || (ifMissing === "last" && is_last && date.day < day);
  if (WEEKDAYS[date.dayOfWeek - 1] !== day.weekday) return false;
  if (day.nth === "last") return date.add({ days: 7 }).month !== date.month;
  let weeks = 0;
  for (let other = date; other.month === date.month; other = other.subtract({ days: 7 })) weeks++;
  return weeks === day.nth;
}

function instantsOf(local: Temporal.PlainDateTime, zone: string, { gap, overlap }: Dst): number[] {
  const read = (disambiguation: "earlier" | "later") => local.toZonedDateTime(zone, { disambiguation });
  const [earlier, later] = [read("earlier"), read("later")];
  const at = [earlier.epochMilliseconds, later.epochMilliseconds] as const;
  if (at[0] === at[1]) return [at[0]];
  if (earlier.toPlainDateTime().equals(local)) return { first: [at[0]], second: [at[1]], both: [...at] }[overlap];
  return { after: [at[1]], before: [at[0]], skip: [] }[gap];
}

const RULES: MonthlyTime["day"][] = [
  1,
  15,
  28,
  29,
  30,
  31,
  "last",
  ...([1, 2, 3, 4, 5, "last"] as const).flatMap((nth) => WEEKDAYS.map((weekday) => ({ nth, weekday }))),
];

function datesOf(rule: MonthlyTime): Temporal.PlainDate[] {
  return Array.from({ length: DAYS }, (_, days) => FIRST.add({ days })).filter((date) => isTheDay(date, rule));
}

function reckoned(dates: Temporal.PlainDate[], at: string, on: { zone: string; dst: Dst }): number[] {
  const slots = dates.flatMap((date) => instantsOf(date.toPlainDateTime(at), on.zone, on.dst));
  return [...new Set(slots)].sort((a, b) => a - b);
}

Deno.test("each rule in each zone over four years is what a walk over the days finds, by each policy", () => {
  const from = FIRST.toZonedDateTime("UTC").toInstant().add(EDGE);
  const until = FIRST.add({ days: DAYS }).toZonedDateTime("UTC").toInstant().subtract(EDGE);
  const inside = (slot: number) => slot >= from.epochMilliseconds && slot < until.epochMilliseconds;
  const rules = RULES.flatMap((day) =>
    (typeof day === "number" ? ["skip", "last"] as const : ["skip"] as const).map((ifMissing) => ({ day, ifMissing }))
  );
  let [compared, place] = [0, 0];
  for (const part of rules) {
    const dates = datesOf({ ...part, at: "00:00" });
    for (const zone of ZONES) {
      const at = ["02:30", "00:15", "01:45", "23:59"][place % 4] as string;
      const gap = (["after", "before", "skip"] as const)[place % 3] as Dst["gap"];
      const overlap = (["first", "second", "both"] as const)[Math.floor(place / 3) % 3] as Dst["overlap"];
      place++;
      const [rule, dst] = [{ ...part, at }, { gap, overlap }];
      const found = slotsIn(spec({ monthlyOn: rule, timezone: zone, dst }), { from, until, most: Infinity });
      const expected = reckoned(dates, at, { zone, dst }).filter(inside);
      const found_ms = found.map(({ epochMilliseconds }) => epochMilliseconds);
      assert.deepEqual(found_ms, expected, JSON.stringify({ rule, zone, dst }));
      compared += expected.length;
    }
  }
  assert(compared > 15_000, `only ${compared}`);
});

Deno.test("each rule on the nights when a clock changes, by each policy", () => {
  const nights: [zone: string, date: string, at: string][] = [
    ["America/New_York", "2027-03-14", "02:30"],
    ["America/New_York", "2027-11-07", "01:30"],
    ["Europe/Berlin", "2026-03-29", "02:30"],
    ["Europe/Berlin", "2026-10-25", "02:30"],
    ["Australia/Lord_Howe", "2026-04-05", "01:45"],
    ["Pacific/Apia", "2011-12-30", "12:00"],
  ];
  for (const [timezone, date, at] of nights) {
    const local = Temporal.PlainDate.from(date);
    const weekday = WEEKDAYS[local.dayOfWeek - 1] as typeof WEEKDAYS[number];
    const nth = Math.ceil(local.day / 7) as 1;
    for (const day of [local.day, { nth, weekday }]) {
      for (const gap of ["after", "before", "skip"] as const) {
        for (const overlap of ["first", "second", "both"] as const) {
          const noon = local.toZonedDateTime({ timeZone: timezone, plainTime: "12:00" }).toInstant();
          const range = { from: noon.subtract({ hours: 60 }), until: noon.add({ hours: 60 }), most: 10 };
          const found = slotsIn(spec({ monthlyOn: { day, at }, timezone, dst: { gap, overlap } }), range);
          assert.deepEqual(
            found.map(({ epochMilliseconds }) => epochMilliseconds),
            instantsOf(local.toPlainDateTime(at), timezone, { gap, overlap }),
            JSON.stringify({ timezone, date, day, gap, overlap }),
          );
        }
      }
    }
  }
});
