/** The calendar on known nights: what each policy does when a clock jumps, what is a misfire, and what is refused. */
import assert from "node:assert/strict";
import { parseSchedule } from "../../src/job_options/schedule_options.ts";
import { nextSlots, planSlots, previewWarnings } from "../../src/schedules/calendar.ts";
import { at, shown, spec } from "../support/wall_slots.ts";

const NIGHTS: { night: string; input: Record<string, unknown>; after: string; slots: string[] }[] = [
  {
    night: "New York, 02:30 does not exist: after the gap",
    input: { dailyAt: "02:30", timezone: "America/New_York" },
    after: "2027-03-13T12:00Z",
    slots: ["2027-03-14T03:30-04:00", "2027-03-15T02:30-04:00"],
  },
  {
    night: "New York, 02:30 does not exist: before the gap",
    input: { dailyAt: "02:30", timezone: "America/New_York", dst: { gap: "before" } },
    after: "2027-03-13T12:00Z",
    slots: ["2027-03-14T01:30-05:00", "2027-03-15T02:30-04:00"],
  },
  {
    night: "New York, 02:30 does not exist: skipped",
    input: { dailyAt: "02:30", timezone: "America/New_York", dst: { gap: "skip" } },
    after: "2027-03-13T12:00Z",
    slots: ["2027-03-15T02:30-04:00"],
  },
  {
    night: "New York, a time after the gap that another is moved to runs once",
    input: { cron: "0,30 2,3 * * *", timezone: "America/New_York" },
    after: "2027-03-14T05:00Z",
    slots: ["2027-03-14T03:00-04:00", "2027-03-14T03:30-04:00", "2027-03-15T02:00-04:00"],
  },
  {
    night: "New York, 01:30 exists twice: first",
    input: { dailyAt: "01:30", timezone: "America/New_York" },
    after: "2026-11-01T00:00Z",
    slots: ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"],
  },
  {
    night: "New York, 01:30 exists twice: second",
    input: { dailyAt: "01:30", timezone: "America/New_York", dst: { overlap: "second" } },
    after: "2026-11-01T00:00Z",
    slots: ["2026-11-01T01:30-05:00", "2026-11-02T01:30-05:00"],
  },
  {
    night: "New York, 01:30 exists twice: both",
    input: { dailyAt: "01:30", timezone: "America/New_York", dst: { overlap: "both" } },
    after: "2026-11-01T00:00Z",
    slots: ["2026-11-01T01:30-04:00", "2026-11-01T01:30-05:00", "2026-11-02T01:30-05:00"],
  },
  {
    night: "London, hourly cron has no slot in the gap",
    input: { cron: "0 * * * *", timezone: "Europe/London" },
    after: "2026-03-29T00:00Z",
    slots: ["2026-03-29T02:00+01:00", "2026-03-29T03:00+01:00"],
  },
  {
    night: "London, cron with a * hour runs in both of the hours that exist twice",
    input: { cron: "30 */1 * * *", timezone: "Europe/London" },
    after: "2026-10-25T00:00Z",
    slots: ["2026-10-25T01:30+01:00", "2026-10-25T01:30+00:00", "2026-10-25T02:30+00:00"],
  },
  {
    night: "London, in six fields the hour is the third",
    input: { cron: "0 30 * * * *", timezone: "Europe/London" },
    after: "2026-10-25T00:00Z",
    slots: ["2026-10-25T01:30+01:00", "2026-10-25T01:30+00:00", "2026-10-25T02:30+00:00"],
  },
  {
    night: "a week begins on Sunday, at midnight",
    input: { cron: "@weekly" },
    after: "2026-05-05T00:00Z",
    slots: ["2026-05-10T00:00+00:00", "2026-05-17T00:00+00:00"],
  },
  {
    night: "Lord Howe, a gap of half an hour",
    input: { dailyAt: "02:15", timezone: "Australia/Lord_Howe" },
    after: "2026-10-03T12:00Z",
    slots: ["2026-10-04T02:45+11:00", "2026-10-05T02:15+11:00"],
  },
  {
    night: "Lord Howe, an overlap of half an hour, hourly: each time that the clock shows :45",
    input: { hourlyAtMinute: 45, timezone: "Australia/Lord_Howe" },
    after: "2026-04-04T14:00Z",
    slots: ["2026-04-05T01:45+11:00", "2026-04-05T01:45+10:30", "2026-04-05T02:45+10:30"],
  },
  {
    night: "Apia had no 30 December 2011: moved times fall on those of the next day",
    input: { dailyAt: "12:00", timezone: "Pacific/Apia" },
    after: "2011-12-29T00:00Z",
    slots: ["2011-12-29T12:00-10:00", "2011-12-31T12:00+14:00", "2012-01-01T12:00+14:00"],
  },
  {
    night: "Apia, every hour through the day that was not: 24 slots in 24 hours",
    input: { hourlyAtMinute: 0, timezone: "Pacific/Apia" },
    after: "2011-12-30T08:30Z",
    slots: ["2011-12-29T23:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T01:00+14:00"],
  },
  {
    night: "Kwajalein had no 21 August 1993",
    input: { dailyAt: "06:00", timezone: "Pacific/Kwajalein", dst: { gap: "skip" } },
    after: "1993-08-20T12:00Z",
    slots: ["1993-08-20T06:00-12:00", "1993-08-22T06:00+12:00"],
  },
  {
    night: "Sao Paulo, midnight did not exist",
    input: { dailyAt: "00:00", timezone: "America/Sao_Paulo" },
    after: "2018-11-03T12:00Z",
    slots: ["2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"],
  },
  {
    night: "Sao Paulo, before the midnight that did not exist is the day before",
    input: { dailyAt: "00:00", timezone: "America/Sao_Paulo", dst: { gap: "before" } },
    after: "2018-11-03T12:00Z",
    slots: ["2018-11-03T23:00-03:00", "2018-11-05T00:00-02:00"],
  },
  {
    night: "Cairo, midnight does not exist in April",
    input: { cron: "15 0 * * *", timezone: "Africa/Cairo" },
    after: "2026-04-23T12:00Z",
    slots: ["2026-04-24T01:15+03:00", "2026-04-25T00:15+03:00"],
  },
  {
    night: "Cairo, 23:30 exists twice in October",
    input: { dailyAt: "23:30", timezone: "Africa/Cairo", dst: { overlap: "both" } },
    after: "2026-10-29T12:00Z",
    slots: ["2026-10-29T23:30+03:00", "2026-10-29T23:30+02:00", "2026-10-30T23:30+02:00"],
  },
  {
    night: "Tokyo has no such nights",
    input: { dailyAt: "02:30", timezone: "Asia/Tokyo" },
    after: "2026-03-28T17:30Z",
    slots: ["2026-03-30T02:30+09:00", "2026-03-31T02:30+09:00"],
  },
  {
    night: "Kathmandu is 5:45 ahead, and :00 is its own",
    input: { hourlyAtMinute: 0, timezone: "Asia/Kathmandu" },
    after: "2026-01-01T00:00Z",
    slots: ["2026-01-01T06:00+05:45", "2026-01-01T07:00+05:45"],
  },
  {
    night: "every 7 minutes counts from 1970 in UTC, whatever the zone",
    input: { everyNMinutes: 7, timezone: "America/New_York" },
    after: "1970-01-01T00:00Z",
    slots: ["1969-12-31T19:07-05:00", "1969-12-31T19:14-05:00"],
  },
  {
    night: "the 29th of February is waited for",
    input: { cron: "0 12 29 2 *" },
    after: "2096-03-01T00:00Z",
    slots: ["2104-02-29T12:00+00:00"],
  },
];

for (const { night, input, after, slots } of NIGHTS) {
  Deno.test(`${night}`, () => {
    assert.deepEqual(shown(input, after, slots.length), slots);
  });
}

Deno.test("asking from a slot gives the one after it, and from a millisecond before, the slot itself", () => {
  const daily = spec({ dailyAt: "02:30", timezone: "Asia/Tokyo" });
  const slot = at("2026-03-28T17:30Z");
  assert.equal(String(nextSlots(daily, { after: slot, count: 1 })), "2026-03-29T17:30:00Z");
  assert.equal(String(nextSlots(daily, { after: slot.subtract({ milliseconds: 1 }), count: 1 })), String(slot));
});

const MISFIRES: { misfire: unknown; cron: string; last: string; now: string; slots: string[] }[] = [
  { misfire: "last", cron: "0 * * * *", last: "08:00", now: "08:30", slots: [] },
  { misfire: "last", cron: "0 * * * *", last: "08:00", now: "12:30", slots: ["12:00"] },
  { misfire: "last", cron: "0 * * * *", last: "08:00", now: "12:00:05", slots: ["12:00"] },
  { misfire: "skip", cron: "0 * * * *", last: "08:00", now: "12:30", slots: [] },
  { misfire: "skip", cron: "0 * * * *", last: "08:00", now: "12:00:05", slots: ["12:00"] },
  { misfire: "skip", cron: "0 * * * *", last: "08:00", now: "09:00", slots: ["09:00"] },
  {
    misfire: { all: true },
    cron: "0 * * * *",
    last: "08:00",
    now: "12:00:05",
    slots: ["09:00", "10:00", "11:00", "12:00"],
  },
  {
    misfire: { all: true, max: 2 },
    cron: "0 * * * *",
    last: "08:00",
    now: "12:30",
    slots: ["11:00", "12:00"],
  },
  {
    misfire: { all: true, within: 5400 },
    cron: "0 * * * *",
    last: "08:00",
    now: "12:30",
    slots: ["11:00", "12:00"],
  },
  { misfire: { all: true, within: 60 }, cron: "0 * * * *", last: "08:00", now: "12:30", slots: [] },
  { misfire: "last", cron: "0 * * * *", last: "08:00", now: "07:00", slots: [] },
];

for (const { misfire, cron, last, now, slots } of MISFIRES) {
  Deno.test(`misfire ${JSON.stringify(misfire)}: from ${last} to ${now} gives ${slots.join(" ") || "nothing"}`, () => {
    const day = (time: string) => at(`2026-05-05T${time}Z`);
    const planned = planSlots(spec({ cron, misfire }), { last_slot: day(last), now: day(now) });
    assert.deepEqual(planned.slots.map(String), slots.map((slot) => String(day(slot))));
    const newest = Temporal.Instant.compare(day(now), day(last)) > 0 ? now : last;
    assert(Temporal.Instant.compare(planned.last_slot, day(newest)) <= 0);
    assert.equal(String(planned.next_slot), String(nextSlots(spec({ cron }), { after: day(newest), count: 1 })));
    // Planning again from there has nothing left to do.
    const again = planSlots(spec({ cron, misfire }), { last_slot: planned.last_slot, now: day(now) });
    assert.deepEqual([again.slots, String(again.last_slot)], [[], String(planned.last_slot)]);
  });
}

Deno.test("twenty years of outage of a per-second schedule are planned without walking through them", () => {
  for (const misfire of ["skip", "last", { all: true, max: 100 }]) {
    const every_second = spec({ cron: "* * * * * *", timezone: "America/New_York", misfire });
    const planned = planSlots(every_second, { last_slot: at("2006-01-01T00:00Z"), now: at("2026-01-01T00:00:00.5Z") });
    assert.equal(planned.slots.length, typeof misfire === "string" ? 15 : 115);
    assert.equal(String(planned.last_slot), "2026-01-01T00:00:00Z");
    assert.equal(String(planned.next_slot), "2026-01-01T00:00:01Z");
  }
});

Deno.test("a schedule that never comes has no next slot, and says so at once", () => {
  const never = ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 0 1 1 * 2020"];
  for (const cron of never) {
    assert.deepEqual(
      nextSlots(spec({ cron, timezone: "America/New_York" }), { after: at("2026-01-01T00:00Z"), count: 1 }),
      [],
    );
    const parsed = parseSchedule({ cron }, { now: at("2026-01-01T00:00Z") });
    assert(!parsed.ok && /never comes/.test(parsed.complaints[0]?.reason ?? ""));
  }
  // Only on the night when that time is jumped over, and then skipped.
  const jumped = { cron: "30 2 8-14 3 +0", timezone: "America/New_York", dst: { gap: "skip" } };
  assert(!parseSchedule(jumped, { now: at("2026-01-01T00:00Z") }).ok);
  const once = planSlots(spec({ cron: "0 0 0 1 1 * 2026" }), {
    last_slot: at("2025-12-31T00:00Z"),
    now: at("2026-01-01T00:00:01Z"),
  });
  assert.deepEqual([once.slots.length, once.next_slot], [1, null]);
});

Deno.test("a preview warns of the nights that touch a schedule, and of no others", () => {
  const year = { after: at("2027-01-01T00:00Z"), until: at("2028-01-01T00:00Z") };
  const warnings = (input: Record<string, unknown>) => previewWarnings(spec(input), year).map((one) => one.message);
  assert.deepEqual(warnings({ dailyAt: "02:30", timezone: "America/New_York" }), [
    "2027-03-14 02:30 does not exist in America/New_York, the clock goes from 2027-03-14 02:00 to 03:00: " +
    "it runs at 2027-03-14 03:30 instead (2027-03-14T07:30:00Z)",
  ]);
  assert.deepEqual(warnings({ dailyAt: "01:30", timezone: "America/New_York", dst: { overlap: "both" } }), [
    "2027-11-07 01:30 exists twice in America/New_York, the clock goes from 2027-11-07 02:00 to 01:00: " +
    "it runs at both (2027-11-07T05:30:00Z and 2027-11-07T06:30:00Z)",
  ]);
  assert.deepEqual(warnings({ dailyAt: "02:30", timezone: "America/New_York", exclude: "2027-03-14" }), []);
  assert.deepEqual(warnings({ dailyAt: "04:00", timezone: "America/New_York" }), []);
  assert.deepEqual(warnings({ dailyAt: "02:30", timezone: "Asia/Tokyo" }), []);
  assert.deepEqual(warnings({ cron: "30 * * * *", timezone: "America/New_York" }), []);
});

const REFUSED: { input: unknown; says: RegExp; fix?: RegExp }[] = [
  { input: "daily", says: /must be an object/, fix: /write it as \{ \.\.\. \}/ },
  { input: "0 2 * * *", says: /must be an object/, fix: /write it as \{ cron: "0 2 \* \* \*" \}/ },
  { input: "02:30", says: /must be an object/, fix: /write it as \{ dailyAt: "02:30" \}/ },
  { input: {}, says: /has no time/ },
  { input: { dailyAt: "02:30", cron: "0 0 * * *" }, says: /has 2 times: dailyAt and cron/ },
  { input: { everyNMinutes: 0 }, says: /from 1 to 1440: current value is 0/ },
  { input: { everyNMinutes: 1.5 }, says: /current value is 1.5/ },
  { input: { everyNMinutes: "5" }, says: /current value is "5"/ },
  { input: { hourlyAtMinute: 60 }, says: /from 0 to 59/ },
  { input: { dailyAt: "24:00" }, says: /"00:00" to "23:59"/ },
  { input: { dailyAt: "2:30" }, says: /HH:MM/, fix: /write "02:30"/ },
  { input: { cron: "* * * *" }, says: /found 4/ },
  { input: { cron: "61 * * * *" }, says: /no cron pattern/ },
  { input: { cron: "2027-01-01T00:00:00" }, says: /found 1/ },
  { input: { cron: "@fortnightly" }, says: /no cron pattern/ },
  { input: { cron: 5 }, says: /must be a text/ },
  { input: { dailyAt: "02:30", timezone: "Mars/Phobos" }, says: /no IANA time zone/ },
  { input: { dailyAt: "02:30", timezone: "+09:00" }, says: /no IANA time zone/ },
  { input: { dailyAt: "02:30", timezone: "Tokyo" }, says: /no IANA time zone/, fix: /Asia\/Tokyo/ },
  { input: { dailyAt: "02:30", timezon: "Asia/Tokyo" }, says: /no option/, fix: /did you mean timezone/ },
  { input: { dailyAt: "02:30", misfire: "never" }, says: /"skip", "last" or/ },
  { input: { dailyAt: "02:30", misfire: { all: true, max: 0 } }, says: /"skip", "last" or/ },
  { input: { dailyAt: "02:30", dst: { gap: "later" } }, says: /dst.gap must be one of/ },
  { input: { dailyAt: "02:30", id: "" }, says: /1 to 64/ },
  { input: { dailyAt: "02:30", args: [1] }, says: /must be an object/ },
  { input: { dailyAt: "02:30", exclude: "2026-02-30" }, says: /exclude: "2026-02-30" names a day that does not exist/ },
  { input: { dailyAt: "02:30", exclude: ["02-29", "02-30"] }, says: /exclude\[1\]: "02-30" names a day/ },
  { input: { dailyAt: "02:30", exclude: "31.12.2026" }, says: /is no day/, fix: /2026-12-31/ },
  { input: { dailyAt: "02:30", exclude: "0026-01-01" }, says: /does not exist/ },
  { input: { dailyAt: "02:30", exclude: "2027-01-03/2026-12-29" }, says: /ends before/, fix: /2026-12-29\/2027-01-03/ },
  { input: { dailyAt: "02:30", exclude: "12-29/2027-01-03" }, says: /mixes/ },
  { input: { dailyAt: "02:30", exclude: "a/b/c" }, says: /more than a range/ },
  { input: { dailyAt: "02:30", exclude: [7] }, says: /is no text/ },
  { input: { dailyAt: "02:30", exclude: Array(367).fill("12-25") }, says: /at most 366/ },
  { input: { dailyAt: "02:30", jitterSeconds: -1 }, says: /from 0 to 86400/ },
  { input: { dailyAt: "02:30", jitterSeconds: 1.5 }, says: /whole number/ },
  { input: { dailyAt: "02:30", jitterSeconds: "60" }, says: /whole number/ },
];

for (const { input, says, fix } of REFUSED) {
  Deno.test(`refused: ${JSON.stringify(input)}`, () => {
    const parsed = parseSchedule(input);
    assert(!parsed.ok);
    assert.equal(parsed.complaints.length, 1, JSON.stringify(parsed.complaints));
    assert.match(parsed.complaints[0]?.reason ?? "", says);
    if (fix) assert.match(parsed.complaints[0]?.fix ?? "", fix);
  });
}

Deno.test("a range of misfires that is no whole number of milliseconds is planned over a change of the clock", () => {
  const hourly = spec({
    cron: "0 * * * *",
    timezone: "America/New_York",
    misfire: { all: true, within: 86_400 * 30 / 7 },
  });
  const planned = planSlots(hourly, { last_slot: at("2026-10-20T00:00Z"), now: at("2026-11-03T00:30Z") });
  assert.equal(planned.slots.length, 100);
  assert.deepEqual([planned.slots[0], planned.slots.at(-1)].map(String), [
    "2026-10-29T21:00:00Z",
    "2026-11-03T00:00:00Z",
  ]);
});
