/**
 * The calendar against another way to reckon: every local day of some years, each time of day turned into an instant by
 * Temporal's own rules. The calendar walks from one change of the clock to the next instead. Of the zones whose clocks
 * showed the same in the years that a test looks at, it takes one; that a zone's name decides nothing is a test as well.
 */
import assert from "node:assert/strict";
import { nextSlots, type ScheduleTimes, slotsIn } from "../../src/schedules/calendar.ts";

const ZONES = Intl.supportedValuesOf("timeZone");
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const HALF_HOUR_MS = 1_800_000;
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

/** All slots from an instant on and before another, in milliseconds. */
function allIn(times: ScheduleTimes, from: number, until: number): number[] {
  const [first, end] = [from, until].map((ms) => Temporal.Instant.fromEpochMilliseconds(ms));
  const slots = slotsIn(times, { from: first as Temporal.Instant, until: end as Temporal.Instant, most: Infinity });
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

Deno.test("every clock, around every change of it in 1993, 2011, 2018 and 2026: each policy, each half hour of the day", () => {
  let compared = 0;
  const years = [1993, 2011, 2018, 2026];
  for (const zone of clocksIn(years.map(aroundYear))) {
    for (const change of years.flatMap((year) => changesIn(zone, year))) {
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
  assert(compared > 25_000, `only ${compared}`);
});

type Range = readonly [from: number, until: number];

/** Ten years in which zones moved over the date line (Apia in 2011, Kwajalein in 1993 is below), and of late. */
const DECADES: Range[] = [2008, 2018].map((year) => [Date.UTC(year, 0, 1), Date.UTC(year + 10, 0, 1)]);

interface Change {
  at: number;
  before: number;
  after: number;
}

/** The changes of a zone's clock between two instants, in milliseconds. */
function shiftsIn(zone: string, from: number, until: number): Change[] {
  const shifts: Change[] = [];
  let at: Temporal.ZonedDateTime | null = zoned(from, zone);
  while ((at = at.getTimeZoneTransition("next")) && at.epochMilliseconds < until) {
    const [before, after] = [zoned(at.epochMilliseconds - 1, zone), at].map((one) => one.offsetNanoseconds / 1e6);
    shifts.push({ at: at.epochMilliseconds, before: before as number, after: after as number });
  }
  return shifts;
}

/** One zone for each clock: for what all zones that show the same time all through these ranges have in common. */
function clocksIn(ranges: readonly Range[]): string[] {
  const shown = (zone: string) => ranges.map(([from, until]) => [clockAt(from, zone), shiftsIn(zone, from, until)]);
  return [...new Map(ZONES.map((zone) => [JSON.stringify(shown(zone)), zone])).values()];
}

function aroundYear(year: number): Range {
  return [Date.UTC(year, 0, 1) - 10 * DAY_MS, Date.UTC(year + 1, 0, 1) + 10 * DAY_MS];
}

/** Of a clock that is never changed one year is as good as ten. */
function enoughOf(zone: string, [from, until]: Range): number {
  return shiftsIn(zone, from, until).length > 0 ? until : from + 365 * DAY_MS;
}

function clockAt(at: number, zone: string): number {
  return zoned(at, zone).offsetNanoseconds / 1e6;
}

function zoned(at: number, zone: string): Temporal.ZonedDateTime {
  return Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(zone);
}

/** How many wall times "HH:MM" of each day, one, lie between two readings of the clock. */
function daysBetween(from_wall: number, until_wall: number, phase: number): number {
  const upTo = (wall: number) => Math.ceil((wall - phase) / DAY_MS);
  return upTo(until_wall) - upTo(from_wall);
}

/**
 * How many slots a daily schedule has, by arithmetic alone: one for each local day between the two ends, one more for each
 * time that the clock showed twice and the policy takes twice, one less for each that it jumped over and the policy skips.
 */
function dailyCount(times: ScheduleTimes, from: number, until: number): number {
  const [hours, minutes] = times.schedule_value.split(":").map(Number) as [number, number];
  const phase = hours * 3_600_000 + minutes * 60_000;
  const wall = (at: number) => at + clockAt(at, times.timezone);
  let count = daysBetween(wall(from), wall(until), phase);
  for (const { at, before, after } of shiftsIn(times.timezone, from, until)) {
    if (after < before && times.dst_overlap === "both") count += daysBetween(at + after, at + before, phase);
    if (after > before && times.dst_gap === "skip") count -= daysBetween(at + before, at + after, phase);
  }
  return count;
}

/** Times that a gap has moved onto the slot of another: two that fall on one instant are one slot. */
function mergedIn(times: ScheduleTimes, from: number, until: number): number {
  const time = Temporal.PlainTime.from(times.schedule_value);
  let merged = 0;
  for (const { at } of shiftsIn(times.timezone, from, until).filter(({ before, after }) => after - before >= DAY_MS)) {
    const day = zoned(at, times.timezone).toPlainDate().subtract({ days: 4 });
    const instants = Array.from({ length: 8 }, (_, n) => instantsOf(day.add({ days: n }).toPlainDateTime(time), times))
      .flat();
    merged += instants.length - new Set(instants).size;
  }
  return merged;
}

Deno.test("every clock, ten years, a day's schedule by each policy: strictly increasing, and as many as the policy says", () => {
  let [walked, shifts] = [0, 0];
  for (const zone of clocksIn(DECADES)) {
    for (const [from, decades_end] of DECADES) {
      const until = enoughOf(zone, [from, decades_end]);
      shifts += shiftsIn(zone, from, until).length;
      for (const [place, dst_gap] of GAPS.entries()) {
        const times: ScheduleTimes = {
          schedule_type: "daily_at",
          schedule_value: ["02:30", "00:15", "12:00"][place] as string,
          timezone: zone,
          dst_gap,
          dst_overlap: OVERLAPS[(place + 1) % 3] as typeof OVERLAPS[number],
          exclude: [],
        };
        const slots = allIn(times, from, until);
        assertIncreasing(slots, zone);
        const merged = mergedIn(times, from, until);
        assert.equal(slots.length, dailyCount(times, from, until) - merged, JSON.stringify({ times, from, merged }));
        walked += slots.length;
      }
    }
  }
  assert(walked > 1_000_000 && shifts > 2_000, `only ${walked} slots and ${shifts} changes`);
});

Deno.test("every clock that there is, ten years of half past each hour: each reading once", () => {
  const [from, decades_end] = DECADES[1] as Range;
  const clocks = clocksIn([DECADES[1] as Range]);
  for (const zone of clocks) {
    const until = enoughOf(zone, [from, decades_end]);
    const times: ScheduleTimes = {
      schedule_type: "hourly_at_minute",
      schedule_value: "30",
      timezone: zone,
      dst_gap: "after",
      dst_overlap: "first",
      exclude: [],
    };
    const shifts = shiftsIn(zone, from, until);
    const ends = [...shifts.map(({ at }) => at), until];
    let [count, start, offset] = [0, from, clockAt(from, zone)];
    ends.forEach((end, place) => {
      const upTo = (wall: number) => Math.ceil((wall - HALF_HOUR_MS) / HOUR_MS);
      count += upTo(end + offset) - upTo(start + offset);
      [start, offset] = [end, shifts[place]?.after ?? 0];
    });
    const slots = allIn(times, from, until);
    assertIncreasing(slots, zone);
    assert.equal(slots.length, count, zone);
  }
  assert(clocks.length > 80, `only ${clocks.length} clocks`);
});

Deno.test("excluded days take their slots and no others, on every clock, over the changes of two years", () => {
  const exclude = ["2026-03-29", "2026-10-20/2026-11-05", "03-08", "12-30/01-02"];
  const is_off = (date: string) =>
    date === "2026-03-29" || (date >= "2026-10-20" && date <= "2026-11-05") || date.endsWith("-03-08") ||
    date.slice(5) >= "12-30" || date.slice(5) <= "01-02";
  const [from, until] = [Date.UTC(2026, 0, 10), Date.UTC(2027, 11, 1)];
  for (const zone of clocksIn([[from, until]])) {
    const all: ScheduleTimes = {
      schedule_type: "daily_at",
      schedule_value: "00:30",
      timezone: zone,
      dst_gap: "before",
      dst_overlap: "both",
      exclude: [],
    };
    const expected = allIn(all, from, until).filter((slot) => !is_off(String(zoned(slot, zone).toPlainDate())));
    assert.deepEqual(allIn({ ...all, exclude }, from, until), expected, zone);
  }
});

Deno.test("every clock, hourly around every change of it in 2011 and 2026: each instant that shows the minute, once", () => {
  for (const zone of clocksIn([2011, 2026].map(aroundYear))) {
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
          for (let at = change - 6 * 3_600_000; at < change + 6 * 3_600_000; at += 29 * 60_000) {
            const next = slots.find((slot) => slot > at);
            if (next !== undefined) assert.deepEqual(slotsBetween(times, at, 1), [next], JSON.stringify({ times, at }));
          }
        }
      }
    }
  }
});
