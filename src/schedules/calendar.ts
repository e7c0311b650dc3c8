/**
 * The calendar: which instants a schedule names. Pure; it reads no clock, and what it is told is the database's.
 *
 * - `every_n_minutes` counts from midnight UTC 1970-01-01 and does not know of zones.
 * - `hourly_at_minute`, and cron patterns whose hour begins with `*`, name readings of the zone's clock: each instant at
 *   which the clock shows one is a slot, once. A reading that is skipped by a change of the clock is none, and one that
 *   is shown twice is two.
 * - `daily_at`, `monthly_on`, and cron patterns with a fixed hour, name times of day. On a night when the clock jumps over such a time,
 *   `dst_gap` says whether it runs after the gap by as much as the clock had shown (02:30 becomes 03:30), before it
 *   (01:30), or not; when the time exists twice, `dst_overlap` says which one counts. Two that fall on one instant are
 *   one slot.
 *
 * Slots on excluded days, as the zone's calendar shows them, are none; jitter (jitter.ts) moves no slot, only its run's start.
 *
 * Promised: slots are strictly increasing, and what comes next does not depend on where one asks from. A schedule that
 * has no slot within 50 years never comes; nothing here searches further, so every call ends.
 */
import type { ScheduleSpec } from "../definitions/definition_rows.ts";
import { type Stretch, wallText, Zone } from "./civil_time.ts";
import { DaysOff } from "./exclusion.ts";
import { kindStored } from "../schedule_kinds/kinds.ts";
import { nextInGrid, type WallPattern } from "../schedule_kinds/wall_pattern.ts";

const HORIZON_MS = 50 * 366 * 86_400_000;
/** The end of year 9999, far enough from where Temporal and Postgres end. */
const LAST_MS = 253_402_300_799_999;
/** A slot younger than this is planned late, not missed: a tick, a change of leader or a restart may take as long. */
const ON_TIME_MS = 15_000;

/** A zone that moves over the date line jumps by a day. */
const LONGEST_JUMP_MS = 86_400_000;

/** The part of a schedule that says when. */
export type ScheduleTimes = Pick<
  ScheduleSpec,
  "schedule_type" | "schedule_value" | "timezone" | "dst_gap" | "dst_overlap" | "exclude"
>;

/** The next slots strictly after an instant, `count` or fewer when there are no more. */
export function nextSlots(spec: ScheduleTimes, ask: { after: Temporal.Instant; count: number }): Temporal.Instant[] {
  return take(calendarOf(spec), { after: ask.after.epochMilliseconds, until: Infinity, most: ask.count }).map(instant);
}

/** The same one after another, as far as a schedule is searched: for whoever must be able to stop. */
export function* eachSlot(spec: ScheduleTimes, after: Temporal.Instant): Generator<Temporal.Instant> {
  const calendar = calendarOf(spec);
  const last_ms = after.epochMilliseconds + HORIZON_MS;
  for (let cursor = after.epochMilliseconds;;) {
    const slot = calendar.next(cursor);
    if (slot === null || slot > last_ms) return;
    yield instant(slot);
    cursor = slot;
  }
}

/** The slots from one instant on and before another, oldest first; `most` of them at most. */
export function slotsIn(
  spec: ScheduleTimes,
  range: { from: Temporal.Instant; until: Temporal.Instant; most: number },
): Temporal.Instant[] {
  const [after, until] = [range.from, range.until].map((at) => at.subtract({ nanoseconds: 1 }).epochMilliseconds);
  return take(calendarOf(spec), { after: after as number, until: until as number, most: range.most }).map(instant);
}

export interface PlannedSlots {
  /** To be made into runs, oldest first. */
  slots: Temporal.Instant[];
  /** So many of them, the first ones, were missed and are made up for by the misfire rule. */
  made_up: number;
  /** All slots up to here are dealt with. */
  last_slot: Temporal.Instant;
  /** Null: it never comes again. */
  next_slot: Temporal.Instant | null;
}

/**
 * What to do about the slots from the last one that was dealt with to now. Slots of the last 15 seconds run in any case;
 * those before were missed, and the schedule's `misfire` decides: `skip` none of them runs; `last` one run makes up for all,
 * and is not needed when a slot is on time; `all` those younger than `within_seconds`, the youngest `max` of them.
 */
export function planSlots(
  spec: ScheduleSpec,
  at: { last_slot: Temporal.Instant; now: Temporal.Instant },
): PlannedSlots {
  const calendar = calendarOf(spec);
  const last = at.last_slot.epochMilliseconds;
  const now = at.now.epochMilliseconds;
  const missed_until = Math.max(last, now - ON_TIME_MS);
  const on_time = take(calendar, { after: missed_until, until: now, most: Infinity });
  const missed = { after: last, until: missed_until };
  const chosen = chosenOfMissed(spec, { calendar, missed, now, made_up_for: on_time.length > 0 });
  const slots = [...chosen, ...on_time];
  const newest = slots.at(-1) ?? latest(calendar, { ...missed, most: 1 }).at(-1);
  const next = calendar.next(Math.max(last, now));
  return {
    slots: slots.map(instant),
    made_up: chosen.length,
    last_slot: newest === undefined ? at.last_slot : instant(newest),
    next_slot: next === null ? null : instant(next),
  };
}

/** A night when a clock changes and this schedule is touched by it. */
export interface ClockWarning {
  kind: "gap" | "overlap";
  timezone: string;
  /** The instant of the change. */
  at: Temporal.Instant;
  /** The first instant that it touches: of a time that exists twice, the first; of one that is moved before a gap, where it runs. */
  from: Temporal.Instant;
  /** The times of day in question, as the wall shows them, three at most. */
  local_times: string[];
  /** How many more there are, or "more" where that is not counted. */
  others: number | "more";
  /** What the wall shows just before the change and just after it. */
  wall: { before: string; after: string };
  /** When the first of them runs: not at all, once, or twice. */
  runs: { at: Temporal.Instant; local_time: string }[];
  message: string;
}

/** Warns of the times of day that do not exist, or exist twice, between two instants; one warning for each change of the clock. */
export function previewWarnings(
  spec: ScheduleTimes,
  range: { after: Temporal.Instant; until: Temporal.Instant; most?: number },
): ClockWarning[] {
  const pattern = timesOf(spec);
  if (!("next" in pattern) || !pattern.time_of_day) return [];
  const zone = new Zone(spec.timezone);
  const warnings: ClockWarning[] = [];
  const end = Math.min(range.until.epochMilliseconds, range.after.epochMilliseconds + HORIZON_MS);
  let stretch = zone.at(range.after.epochMilliseconds);
  while (stretch.until_ms <= end + LONGEST_JUMP_MS && warnings.length < (range.most ?? 10)) {
    const warning = warningAt(spec, pattern, stretch);
    if (warning && warning.from.epochMilliseconds <= end) warnings.push(warning);
    stretch = zone.at(stretch.until_ms);
  }
  return warnings;
}

interface Calendar {
  /** The first slot after an instant, or null. */
  next(after_ms: number): number | null;
}

function calendarOf(spec: ScheduleTimes): Calendar {
  const every_day = unbrokenCalendarOf(spec);
  if (spec.exclude.length === 0) return every_day;
  const [zone, days_off] = [new Zone(spec.timezone), new DaysOff(spec.exclude)];
  return {
    next(after_ms) {
      const horizon = Math.min(after_ms + HORIZON_MS, LAST_MS);
      for (let cursor = after_ms;;) {
        const slot = every_day.next(cursor);
        if (slot === null || slot > horizon) return null;
        const free_ms = days_off.over(slot, zone.at(slot));
        if (free_ms <= slot) return slot;
        cursor = free_ms - 1;
      }
    },
  };
}

function unbrokenCalendarOf(spec: ScheduleTimes): Calendar {
  const pattern = timesOf(spec);
  if (!("next" in pattern)) return { next: (after_ms) => nextInGrid(after_ms, pattern.every_ms) };
  const zone = new Zone(spec.timezone);
  const slotIn = pattern.time_of_day
    ? (stretch: Stretch, after_ms: number) => timeOfDayIn(spec, { pattern, stretch, after_ms })
    : (stretch: Stretch, after_ms: number) => between(pattern, after_ms, stretchSpan(stretch));
  return {
    next(after_ms) {
      const horizon = Math.min(after_ms + HORIZON_MS, LAST_MS);
      for (let cursor = after_ms; cursor < horizon;) {
        const stretch = zone.at(cursor + 1);
        const slot = slotIn(stretch, cursor);
        if (slot !== undefined) return slot <= horizon ? slot : null;
        if (stretch.until_ms === Infinity || pattern.next(cursor + stretch.offset_ms) === null) return null;
        cursor = stretch.until_ms - 1;
      }
      return null;
    },
  };
}

function timesOf({ schedule_type, schedule_value }: ScheduleTimes): WallPattern | { every_ms: number } {
  return kindStored(schedule_type).times(schedule_value);
}

/** Wall times from `from_ms` up to, not including, `until_ms`, read as instants with one offset. */
interface Span {
  from_ms: number;
  until_ms: number;
  offset_ms: number;
}

function stretchSpan(stretch: Stretch): Span {
  const { offset_ms } = stretch;
  return { from_ms: stretch.from_ms + offset_ms, until_ms: stretch.until_ms + offset_ms, offset_ms };
}

/** The first instant after `after_ms` at which the pattern names a wall time of the span. */
function between(pattern: WallPattern, after_ms: number, span: Span): number | undefined {
  const after_wall_ms = Math.max(after_ms + span.offset_ms, span.from_ms - 1);
  if (after_wall_ms >= span.until_ms) return undefined;
  const wall_ms = pattern.next(after_wall_ms);
  return wall_ms !== null && wall_ms < span.until_ms ? wall_ms - span.offset_ms : undefined;
}

/** The first slot of a time of day within one stretch, with the policies applied at both of its ends. */
function timeOfDayIn(
  spec: ScheduleTimes,
  ask: { pattern: WallPattern; stretch: Stretch; after_ms: number },
): number | undefined {
  const { offset_ms, before_ms, after_ms, from_ms, until_ms } = ask.stretch;
  const shown = stretchSpan(ask.stretch);
  // Times shown here that the stretch before has shown already, and those that the stretch after will show again.
  if (spec.dst_overlap === "first") shown.from_ms = from_ms + Math.max(before_ms, offset_ms);
  if (spec.dst_overlap === "second") shown.until_ms = until_ms + Math.min(after_ms, offset_ms);
  const spans = [shown];
  // Times that the clock jumped over: at the start of this stretch read as before the jump, at its end as after it.
  if (spec.dst_gap === "after" && before_ms < offset_ms) {
    spans.push({ from_ms: from_ms + before_ms, until_ms: from_ms + offset_ms, offset_ms: before_ms });
  }
  if (spec.dst_gap === "before" && offset_ms < after_ms) {
    spans.push({ from_ms: until_ms + offset_ms, until_ms: until_ms + after_ms, offset_ms: after_ms });
  }
  const slots = spans.map((span) => between(ask.pattern, ask.after_ms, span)).filter((slot) => slot !== undefined);
  return slots.length === 0 ? undefined : Math.min(...slots);
}

/** The slots after one instant and up to another, both in milliseconds, oldest first, `most` of them at most. */
function take(calendar: Calendar, ask: { after: number; until: number; most: number }): number[] {
  const slots: number[] = [];
  let cursor = ask.after;
  while (slots.length < ask.most && cursor < ask.until) {
    const slot = calendar.next(cursor);
    if (slot === null || slot > ask.until) break;
    slots.push(slot);
    cursor = slot;
  }
  return slots;
}

/**
 * The youngest `most` slots of a range, oldest first. Looks first where they would be if slots came as often as at the
 * range's beginning, and at half of the range if that is nearer: the cost grows with `most` and, at worst, with the
 * logarithm of the range, never with the number of slots in it.
 */
function latest(calendar: Calendar, ask: { after: number; until: number; most: number }): number[] {
  if (ask.most <= 0) return [];
  const slots = take(calendar, { ...ask, most: ask.most + 1 });
  if (slots.length <= ask.most) return slots;
  const taken_ms = (slots.at(-1) as number) - ask.after;
  const pivot = Math.max(Math.floor((ask.after + ask.until) / 2), ask.until - taken_ms);
  const later = latest(calendar, { ...ask, after: pivot });
  const earlier = { after: ask.after, until: pivot, most: ask.most - later.length };
  return [...latest(calendar, earlier), ...later];
}

function chosenOfMissed(
  spec: ScheduleSpec,
  on: { calendar: Calendar; missed: { after: number; until: number }; now: number; made_up_for: boolean },
): number[] {
  switch (spec.misfire.policy) {
    case "skip":
      return [];
    case "last":
      return on.made_up_for ? [] : latest(on.calendar, { ...on.missed, most: 1 });
    case "all": {
      const { within_seconds, max } = spec.misfire;
      // Whole milliseconds: a third of a day has none, and Temporal, which is asked where the clock changes, takes no others.
      const oldest = within_seconds === null ? -Infinity : Math.ceil(on.now - within_seconds * 1000);
      return latest(on.calendar, { ...on.missed, after: Math.max(on.missed.after, oldest - 1), most: max });
    }
  }
}

function warningAt(spec: ScheduleTimes, pattern: WallPattern, stretch: Stretch): ClockWarning | undefined {
  const { offset_ms, after_ms, until_ms } = stretch;
  const kind = after_ms > offset_ms ? "gap" : "overlap";
  const low = until_ms + Math.min(offset_ms, after_ms);
  const days_off = new DaysOff(spec.exclude);
  const walls = take(pattern, { after: low - 1, until: until_ms + Math.max(offset_ms, after_ms) - 1, most: 100 })
    .filter((wall_ms) => !days_off.has(shownInstead(spec, wall_ms, stretch))).slice(0, 4);
  const first = walls[0];
  if (first === undefined) return undefined;
  const others = walls.length === 1 ? "" : walls.length < 4 ? ` (and ${walls.length - 1} more)` : " (and more)";
  const clock = `the clock goes from ${jumpText(until_ms + offset_ms, until_ms + after_ms)}`;
  return {
    kind,
    timezone: spec.timezone,
    at: instant(until_ms),
    from: instant(
      kind === "overlap" ? first - offset_ms : spec.dst_gap === "before" ? first - after_ms : until_ms,
    ),
    local_times: walls.slice(0, 3).map(wallText),
    others: walls.length < 4 ? walls.length - 1 : "more",
    wall: { before: wallText(until_ms + offset_ms), after: wallText(until_ms + after_ms) },
    runs: runsOf(spec, first, stretch),
    message: kind === "gap"
      ? `${wallText(first)}${others} does not exist in ${spec.timezone}, ${clock}: ${gapText(spec, first, stretch)}`
      : `${wallText(first)}${others} exists twice in ${spec.timezone}, ${clock}: ${overlapText(spec, first, stretch)}`,
  };
}

/** When a time of day that a change of the clock touches runs. */
function runsOf(spec: ScheduleTimes, wall_ms: number, stretch: Stretch): ClockWarning["runs"] {
  const { offset_ms, after_ms } = stretch;
  const run = (slot_ms: number, shown_ms: number) => ({ at: instant(slot_ms), local_time: wallText(shown_ms) });
  if (after_ms > offset_ms) {
    if (spec.dst_gap === "skip") return [];
    return [run(wall_ms - (spec.dst_gap === "after" ? offset_ms : after_ms), shownInstead(spec, wall_ms, stretch))];
  }
  const [first, second] = [run(wall_ms - offset_ms, wall_ms), run(wall_ms - after_ms, wall_ms)];
  return spec.dst_overlap === "both" ? [first, second] : [spec.dst_overlap === "first" ? first : second];
}

/** "2027-03-14 02:00 to 03:00", with both dates when they differ. */
function jumpText(from_ms: number, to_ms: number): string {
  const [from, to] = [wallText(from_ms), wallText(to_ms)];
  return `${from} to ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to}`;
}

function gapText(spec: ScheduleTimes, wall_ms: number, stretch: Stretch): string {
  const [run] = runsOf(spec, wall_ms, stretch);
  return run ? `it runs at ${run.local_time} instead (${run.at})` : "it does not run";
}

/** What the wall shows at the slot of a time that a gap has moved; any other time is shown as it is. */
function shownInstead({ dst_gap }: ScheduleTimes, wall_ms: number, { offset_ms, after_ms }: Stretch): number {
  const jump_ms = Math.max(0, after_ms - offset_ms);
  return dst_gap === "after" ? wall_ms + jump_ms : dst_gap === "before" ? wall_ms - jump_ms : wall_ms;
}

function overlapText(spec: ScheduleTimes, wall_ms: number, stretch: Stretch): string {
  const [run, other] = runsOf(spec, wall_ms, stretch);
  return other ? `it runs at both (${run?.at} and ${other.at})` : `it runs at the ${spec.dst_overlap} (${run?.at})`;
}

function instant(ms: number): Temporal.Instant {
  return Temporal.Instant.fromEpochMilliseconds(ms);
}
