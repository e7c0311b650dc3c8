/**
 * The calendar against another way to reckon: every zone, every local day of some years, each time of day turned into
 * an instant by Temporal's own rules. The calendar walks from one change of the clock to the next instead.
 */
import assert from "node:assert/strict";
import { nextSlots, type ScheduleTimes } from "../src/catalog/schedule.ts";

const ZONES = Intl.supportedValuesOf("timeZone");
const DAY_MS = 86_400_000;
const GAPS = ["after", "before", "skip"] as const;
const OVERLAPS = ["first", "second", "both"] as const;

/** The instants of one time of day on one local day, by Temporal's disambiguation. */
function instantsOf(local: Temporal.PlainDateTime, times: ScheduleTimes): number[] {
  const read = (disambiguation: "earlier" | "later") =>
    local.toZonedDateTime(times.timezone, { disambiguation }).epochMilliseconds;
  const [earlier, later] = [read("earlier"), read("later")];
  if (earlier === later) return [earlier];
  const shown = Temporal.Instant.fromEpochMilliseconds(earlier).toZonedDateTimeISO(times.timezone).toPlainDateTime();
  if (shown.equals(local)) {
    return { first: [earlier], second: [later], both: [earlier, later] }[times.dst_overlap];
  }
  return { after: [later], before: [earlier], skip: [] }[times.dst_gap];
}

/** All slots of a daily schedule in a range, day by day. */
function reckoned(times: ScheduleTimes, from: Temporal.PlainDate, days: number): number[] {
  const time = Temporal.PlainTime.from(times.schedule_value);
  const slots = new Set<number>();
  for (let day = 0; day < days; day++) {
    for (const slot of instantsOf(from.add({ days: day }).toPlainDateTime(time), times)) slots.add(slot);
  }
  return [...slots].sort((a, b) => a - b);
}

function slotsBetween(times: ScheduleTimes, after: number, count: number): number[] {
  const slots = nextSlots(times, { after: Temporal.Instant.fromEpochMilliseconds(after), count });
  return slots.map((slot) => slot.epochMilliseconds);
}

function assertIncreasing(slots: number[], zone: string): void {
  slots.forEach((slot, place) => assert(place === 0 || slot > (slots[place - 1] as number), zone));
}

/** The changes of a zone's clock within a year. */
function changesIn(zone: string, year: number): number[] {
  const changes: number[] = [];
  let at: Temporal.ZonedDateTime | null = Temporal.Instant.from(`${year}-01-01T00:00Z`).toZonedDateTimeISO(zone);
  while ((at = at.getTimeZoneTransition("next")) && at.year <= year) changes.push(at.epochMilliseconds);
  return changes;
}

Deno.test("every zone, around every change of the clock in 1993, 2011, 2018 and 2026: each policy, each half hour of the day", () => {
  let compared = 0;
  for (const zone of ZONES) {
    for (const change of [1993, 2011, 2018, 2026].flatMap((year) => changesIn(zone, year))) {
      const from = Temporal.Instant.fromEpochMilliseconds(change - 3 * DAY_MS).toZonedDateTimeISO(zone).toPlainDate();
      for (let half_hour = 0; half_hour < 48; half_hour += 1) {
        const times: ScheduleTimes = {
          schedule_type: "daily_at",
          schedule_value: Temporal.PlainTime.from("00:00").add({ minutes: 30 * half_hour }).toString({
            smallestUnit: "minute",
          }),
          timezone: zone,
          dst_gap: GAPS[half_hour % 3] as typeof GAPS[number],
          dst_overlap: OVERLAPS[(half_hour + compared) % 3] as typeof OVERLAPS[number],
          exclude: [],
        };
        const expected = reckoned(times, from, 7);
        const found = slotsBetween(times, (expected[0] as number) - 1, expected.length);
        assert.deepEqual(found, expected, JSON.stringify(times));
        compared++;
      }
    }
  }
  assert(compared > 10_000, `only ${compared}`);
});

Deno.test("every zone, ten years of a day's schedule: strictly increasing, one a local day", () => {
  for (const zone of ZONES) {
    const times: ScheduleTimes = {
      schedule_type: "daily_at",
      schedule_value: "02:30",
      timezone: zone,
      dst_gap: "after",
      dst_overlap: "first",
      exclude: [],
    };
    const first = Temporal.PlainDate.from("2018-01-01");
    const days = first.until("2028-01-01", { largestUnit: "days" }).days;
    const slots = slotsBetween(times, reckoned(times, first, 1)[0] as number - 1, days);
    assert.equal(slots.length, days);
    assertIncreasing(slots, zone);
    const last = Temporal.Instant.fromEpochMilliseconds(slots.at(-1) as number).toZonedDateTimeISO(zone).toPlainDate();
    assert.equal(String(last), "2027-12-31", zone);
  }
});

Deno.test("every zone, hourly around every change of the clock in 2011 and 2026: each instant that shows the minute, once", () => {
  for (const zone of ZONES) {
    for (const change of [2011, 2026].flatMap((year) => changesIn(zone, year))) {
      for (const minute of [0, 45]) {
        const hourly: ScheduleTimes = {
          schedule_type: "hourly_at_minute",
          schedule_value: String(minute),
          timezone: zone,
          dst_gap: "after",
          dst_overlap: "first",
          exclude: [],
        };
        const expected: number[] = [];
        for (let at = change - DAY_MS / 2; at <= change + DAY_MS / 2; at += 5 * 60_000) {
          if (Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(zone).minute === minute) expected.push(at);
        }
        const after = change - DAY_MS / 2 - 1;
        assert.deepEqual(slotsBetween(hourly, after, expected.length), expected, `${zone} :${minute}`);
        const cron: ScheduleTimes = { ...hourly, schedule_type: "cron", schedule_value: `${minute} * * * *` };
        assert.deepEqual(slotsBetween(cron, after, expected.length), expected, `${zone} cron ${minute}`);
      }
    }
  }
});

Deno.test("where one asks from does not matter: each slot follows from any instant between it and the one before", () => {
  const crons = ["*/20 1-3 * * *", "0 */3 * * *", "30 2 * * *", "15,45 0-1,23 * * 6,0"];
  for (const zone of ["America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia", "America/Sao_Paulo"]) {
    for (const change of [2011, 2018, 2026].flatMap((year) => changesIn(zone, year))) {
      for (const schedule_value of crons) {
        for (const [place, dst_gap] of GAPS.entries()) {
          const dst_overlap = OVERLAPS[place] as typeof OVERLAPS[number];
          const times: ScheduleTimes = {
            schedule_type: "cron",
            schedule_value,
            timezone: zone,
            dst_gap,
            dst_overlap,
            exclude: [],
          };
          const slots = slotsBetween(times, change - 2 * DAY_MS, 40);
          assertIncreasing(slots, zone);
          for (let at = change - 6 * 3_600_000; at < change + 6 * 3_600_000; at += 13 * 60_000) {
            const next = slots.find((slot) => slot > at);
            if (next !== undefined) assert.deepEqual(slotsBetween(times, at, 1), [next], JSON.stringify({ times, at }));
          }
        }
      }
    }
  }
});
