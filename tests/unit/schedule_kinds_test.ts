/** What each kind of schedule makes of what people write, and how it is kept, typed and shown. */
import assert from "node:assert/strict";
import { kindNamed, SCHEDULE_KINDS } from "../../src/schedule_kinds/kinds.ts";
import { nextSlots, planSlots, previewWarnings } from "../../src/schedules/calendar.ts";
import { parseSchedule } from "../../src/job_options/schedule_options.ts";
import { at, shown, spec } from "../support/wall_slots.ts";

const GOOD: Record<string, unknown[]> = {
  everyNMinutes: [1, 15, 1440],
  hourlyAtMinute: [0, 59],
  dailyAt: ["00:00", "23:59"],
  monthlyOn: [
    { day: 1, at: "00:00" },
    { day: 31, at: "02:30" },
    { day: 31, at: "02:30", ifMissing: "last" },
    { day: "last", at: "23:59" },
    { day: { nth: 2, weekday: "tue" }, at: "09:00" },
    { day: { nth: "last", weekday: "fri" }, at: "18:00" },
  ],
  cron: ["30 2 * * 1-5", "@daily"],
};

Deno.test("what a job file gives of each kind comes back from what is stored, and from what is typed", () => {
  for (const { option, parse, written, typed, text } of SCHEDULE_KINDS) {
    for (const value of GOOD[option] as unknown[]) {
      const parsed = parse(value);
      assert("value" in parsed, JSON.stringify({ option, value, parsed }));
      assert.deepEqual(written(parsed.value), value);
      assert.deepEqual(typed(parsed.value), value);
      assert.deepEqual(typed(typeof value === "string" ? value : JSON.stringify(value)), value);
      assert(text.en(parsed.value).length > 0 && /[毎分]|cron/.test(text.ja(parsed.value)));
    }
  }
});

Deno.test("a monthly schedule that is wrong is refused with what is meant", () => {
  const cases: [unknown, RegExp, RegExp][] = [
    ["last 02:30", /must be an object/, /write it as \{ day: 15/],
    [{ day: 32, at: "02:30" }, /wrong day, which must be 1 to 31/, /write it as/],
    [{ day: 0, at: "02:30" }, /wrong day/, /write it as/],
    [{ day: 1.5, at: "02:30" }, /wrong day/, /write it as/],
    [{ day: "lst", at: "02:30" }, /wrong day/, /did you mean "last"\?/],
    [{ at: "02:30" }, /wrong day.*: current value is undefined/, /write it as/],
    [{ dya: 3, at: "02:30" }, /option "dya" that is not known/, /did you mean day\?/],
    [{ day: 3, at: "2:30" }, /wrong time.*"HH:MM"/, /write "02:30"/],
    [{ day: 3 }, /wrong time/, /four digits/],
    [{ day: { nth: 6, weekday: "tue" }, at: "02:30" }, /wrong nth.*1 to 5 or "last"/, /nth: 2/],
    [{ day: { nth: 2, weekday: "tuesday" }, at: "02:30" }, /wrong weekday/, /did you mean "tue"\?/],
    [{ day: { nth: 2, weekday: "tue", of: 1 }, at: "02:30" }, /option "of"/, /remove it/],
    [{ day: { nth: 5, weekday: "tue" }, at: "02:30", ifMissing: "last" }, /for days that are numbers/, /leave it out/],
    [{ day: 31, at: "02:30", ifMissing: "first" }, /wrong ifMissing/, /leave it out for "skip"/],
  ];
  for (const [monthlyOn, reason, fix] of cases) {
    const parsed = parseSchedule({ monthlyOn }, { at: "schedule[0]." });
    assert(!parsed.ok, JSON.stringify(monthlyOn));
    const [complaint, more] = parsed.complaints;
    assert.equal(more, undefined);
    assert.equal(complaint?.key, "schedule[0].monthlyOn");
    assert.match(complaint?.reason ?? "", reason);
    assert.match(complaint?.fix ?? "", fix);
    assert.equal(complaint?.says?.code, /wrong time/.test(complaint?.reason ?? "") ? "time_of_day" : "day_of_month");
  }
});

Deno.test("a month without the day has no slot, or has it on its last day", () => {
  const after = "2027-01-01T00:00:00Z";
  const dates = (monthlyOn: unknown, count: number, more = {}) =>
    shown({ monthlyOn, ...more }, after, count).map((text) => text.slice(5, 10));
  assert.deepEqual(dates({ day: 31, at: "02:30" }, 4), ["01-31", "03-31", "05-31", "07-31"]);
  assert.deepEqual(dates({ day: 31, at: "02:30", ifMissing: "last" }, 4), ["01-31", "02-28", "03-31", "04-30"]);
  assert.deepEqual(dates({ day: 29, at: "02:30" }, 3), ["01-29", "03-29", "04-29"]);
  assert.deepEqual(dates({ day: { nth: 5, weekday: "mon" }, at: "02:30" }, 3), ["03-29", "05-31", "08-30"]);
  assert.deepEqual(dates({ day: "last", at: "02:30" }, 3, { exclude: ["2027-02-28"] }), ["01-31", "03-31", "04-30"]);
});

Deno.test("a sync warns of months without the day, and of no others", () => {
  const caution = (value: unknown) => {
    const parsed = kindNamed("monthlyOn")?.parse(value);
    assert(parsed && "value" in parsed);
    return kindNamed("monthlyOn")?.caution?.(parsed.value);
  };
  assert.match(caution({ day: 31, at: "02:30" }) ?? "", /in months of less than 31 days it does not run/);
  assert.match(caution({ day: 29, at: "02:30" }) ?? "", /in February, but for leap years, it does not run/);
  assert.match(caution({ day: { nth: 5, weekday: "mon" }, at: "02:30" }) ?? "", /four of that weekday/);
  for (const day of [28, "last", { nth: 4, weekday: "mon" }, { nth: "last", weekday: "mon" }]) {
    assert.equal(caution({ day, at: "02:30" }), undefined);
  }
  assert.equal(caution({ day: 31, at: "02:30", ifMissing: "last" }), undefined);
});

Deno.test("a monthly time that does not exist is warned of, and missed months are made up for", () => {
  const monthly = spec({ monthlyOn: { day: 14, at: "02:30" }, timezone: "America/New_York" });
  const [warning, more] = previewWarnings(monthly, { after: at("2027-01-01T00:00Z"), until: at("2027-12-01T00:00Z") });
  assert.match(warning?.message ?? "", /2027-03-14 02:30 does not exist in America\/New_York/);
  assert.equal(more, undefined);
  const all = spec({ monthlyOn: { day: "last", at: "02:30" }, misfire: { all: true } });
  const now = at("2027-04-30T02:30:05Z");
  const planned = planSlots(all, { last_slot: at("2027-01-31T02:30Z"), now });
  assert.deepEqual(planned.slots.map(String), ["2027-02-28T02:30:00Z", "2027-03-31T02:30:00Z", "2027-04-30T02:30:00Z"]);
  assert.equal(planned.made_up, 2);
  assert.equal(String(planned.next_slot), "2027-05-31T02:30:00Z");
});

Deno.test("a type that another version has stored is named, and reads as nothing else", () => {
  const stored = { ...spec({ dailyAt: "02:30" }), schedule_type: "by_the_moon" as "daily_at" };
  assert.throws(
    () => nextSlots(stored, { after: at("2027-01-01T00:00Z"), count: 1 }),
    /knows no schedule of type by_the_moon/,
  );
});
