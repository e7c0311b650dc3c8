/** Days without slots, starts that are spread by jitter, and slots of a range. */
import assert from "node:assert/strict";
import { shortestDistance, startOf } from "../../src/schedules/jitter.ts";
import { nextSlots, planSlots, slotsIn } from "../../src/schedules/calendar.ts";
import { parseSchedule } from "../../src/job_options/schedule_options.ts";
import { at, shown, spec } from "../support/wall_slots.ts";

const WITHOUT: { days: string; input: Record<string, unknown>; after: string; slots: string[] }[] = [
  {
    days: "a date, in the zone's own calendar and not in UTC's",
    input: { dailyAt: "02:30", timezone: "Asia/Tokyo", exclude: "2026-12-31" },
    after: "2026-12-29T17:00Z",
    slots: ["2026-12-30T02:30+09:00", "2027-01-01T02:30+09:00"],
  },
  {
    days: "a range, its last day too",
    input: { cron: "0 9 * * 1-5", timezone: "Asia/Tokyo", exclude: ["2026-12-29/2027-01-03", "2027-01-05"] },
    after: "2026-12-28T00:00Z",
    slots: ["2027-01-04T09:00+09:00", "2027-01-06T09:00+09:00"],
  },
  {
    days: "a day of every year",
    input: { cron: "0 9 24-26 12 *", exclude: "12-25" },
    after: "2026-12-24T10:00Z",
    slots: ["2026-12-26T09:00+00:00", "2027-12-24T09:00+00:00", "2027-12-26T09:00+00:00"],
  },
  {
    days: "a range of every year, over its end, and the 29th of February",
    input: { cron: "0 0 1,29 * *", exclude: ["12-29/01-03", "02-29"] },
    after: "2027-12-01T00:00Z",
    slots: ["2028-01-29T00:00+00:00", "2028-02-01T00:00+00:00", "2028-03-01T00:00+00:00"],
  },
  {
    days: "two Mondays on end",
    input: { cron: "0 9 * * 1", exclude: ["2026-05-11", "2026-05-18"] },
    after: "2026-05-04T10:00Z",
    slots: ["2026-05-25T09:00+00:00", "2026-06-01T09:00+00:00"],
  },
  {
    days: "every n minutes knows no zones, but days off are those of its zone",
    input: { everyNMinutes: 720, timezone: "America/New_York", exclude: "2026-07-04" },
    after: "2026-07-03T13:00Z",
    slots: ["2026-07-03T20:00-04:00", "2026-07-05T08:00-04:00"],
  },
  {
    days: "23:30 twice at the end of a day in Cairo, and the day after is off",
    input: { dailyAt: "23:30", timezone: "Africa/Cairo", dst: { overlap: "both" }, exclude: "2026-10-30" },
    after: "2026-10-29T12:00Z",
    slots: ["2026-10-29T23:30+03:00", "2026-10-29T23:30+02:00", "2026-10-31T23:30+02:00"],
  },
  {
    days: "a time that is moved to the day before runs though its own day is off",
    input: { dailyAt: "00:00", timezone: "America/Sao_Paulo", dst: { gap: "before" }, exclude: "2018-11-04" },
    after: "2018-11-03T12:00Z",
    slots: ["2018-11-03T23:00-03:00", "2018-11-05T00:00-02:00"],
  },
];

for (const { days, input, after, slots } of WITHOUT) {
  Deno.test(`without ${days}`, () => {
    assert.deepEqual(shown(input, after, slots.length), slots);
  });
}

Deno.test("a schedule whose every day is excluded never comes, and says that this is why", () => {
  for (const exclude of ["01-01/12-31", "2020-01-01/9999-12-31"]) {
    const parsed = parseSchedule({ cron: "* * * * * *", timezone: "Asia/Tokyo", exclude }, {
      now: at("2026-01-01T00:00Z"),
    });
    assert(!parsed.ok);
    assert.match(
      parsed.complaints[0]?.reason ?? "",
      /^exclude never comes: every day on which it would.* is excluded$/,
    );
  }
});

Deno.test("excluded slots are not missed ones, and a plan goes on after them", () => {
  const hourly = spec({ cron: "0 * * * *", misfire: { all: true }, exclude: "2026-05-05" });
  const planned = planSlots(hourly, { last_slot: at("2026-05-04T22:00Z"), now: at("2026-05-06T01:30Z") });
  assert.deepEqual(planned.slots.map(String), ["2026-05-04T23:00:00Z", "2026-05-06T00:00:00Z", "2026-05-06T01:00:00Z"]);
  assert.equal(planned.made_up, 3);
});

Deno.test("the slots of a range: from its first instant on, before its last", () => {
  const hourly = spec({ cron: "0 * * * *" });
  const range = { from: at("2026-05-05T01:00Z"), until: at("2026-05-05T04:00Z"), most: 10 };
  assert.deepEqual(slotsIn(hourly, range).map((slot) => String(slot).slice(11, 16)), ["01:00", "02:00", "03:00"]);
  assert.equal(slotsIn(hourly, { ...range, most: 2 }).length, 2);
});

Deno.test("jitter spreads the starts, the same for the same slot, and keeps their order", () => {
  const every_minute = spec({ cron: "* * * * *", jitterSeconds: 59 });
  const named = { ...every_minute, job_name: "a", schedule_id: "b" };
  const slots = nextSlots(every_minute, { after: at("2026-05-05T00:00Z"), count: 1000 });
  const delays = slots.map((slot) => startOf(named, slot).since(slot).total("milliseconds"));
  assert.deepEqual(delays, slots.map((slot) => startOf(named, slot).since(slot).total("milliseconds")));
  assert(delays.every((delay) => delay >= 0 && delay <= 59_000));
  const tenths = delays.map((delay) => Math.floor(delay / 5_901));
  for (let tenth = 0; tenth < 10; tenth++) {
    const share = tenths.filter((one) => one === tenth).length;
    assert(share > 60 && share < 140, `${share} of 1000 in tenth ${tenth}`);
  }
  slots.forEach((slot, place) => {
    const before = slots[place - 1];
    assert(!before || Temporal.Instant.compare(startOf(named, before), startOf(named, slot)) < 0);
  });
  const other = slots.map((slot) => startOf({ ...named, schedule_id: "c" }, slot).since(slot).total("milliseconds"));
  assert.notDeepEqual(other, delays);
});

const DISTANCES: [Record<string, unknown>, number][] = [
  [{ everyNMinutes: 7 }, 420],
  [{ cron: "*/7 * * * *" }, 240],
  [{ dailyAt: "02:30", timezone: "Asia/Tokyo" }, 86_400],
  [{ dailyAt: "12:00", timezone: "America/New_York" }, 82_800],
  [{ dailyAt: "01:30", timezone: "America/New_York", dst: { overlap: "both" } }, 3_600],
  [{ hourlyAtMinute: 45, timezone: "Australia/Lord_Howe" }, 1_800],
  [{ cron: "0 0 0 1 1 * 2027" }, Infinity],
];

for (const [input, seconds] of DISTANCES) {
  Deno.test(`jitter must be less than ${seconds} s for ${JSON.stringify(input)}`, () => {
    const now = at("2026-01-01T00:00Z");
    assert.equal(shortestDistance(spec(input), now), seconds * 1000);
    const most = Math.min(seconds - 1, 86_400);
    assert(parseSchedule({ ...input, jitterSeconds: most }, { now }).ok);
    const parsed = parseSchedule({ ...input, jitterSeconds: most + 1 }, { now });
    assert(!parsed.ok && parsed.complaints.length === 1 && parsed.complaints[0]?.key === "jitterSeconds");
  });
}
