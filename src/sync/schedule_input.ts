/** What a job file (or a command line) says of a schedule -> the columns of its row, or everything that is wrong with it. */
import type { Misfire, ScheduleSetting, ScheduleSpec } from "../definitions/definition_rows.ts";
import { zoneLike, zoneNamed } from "../schedules/civil_time.ts";
import { KIND_OPTIONS, SCHEDULE_KINDS } from "../schedule_kinds/kinds.ts";
import { wrongWithDays } from "../schedules/exclusion.ts";
import { shortestDistance } from "../schedules/jitter.ts";
import { isPlainObject, Options } from "./option_reader.ts";
import { shown } from "../platform/shown.ts";
import type { Complaint } from "./problem.ts";
import { nextSlots } from "../schedules/calendar.ts";

const KEYS = [...KIND_OPTIONS, "id", "timezone", "args", "misfire", "dst", "exclude", "jitterSeconds"];
const DEFAULT_MAX = 100;
/** A day. */
const LONGEST_JITTER = 86_400;

export type ParsedSchedule = { ok: true; schedule: ScheduleSetting } | { ok: false; complaints: Complaint[] };

/**
 * Checks one schedule; `at` goes before its keys in complaints, e.g. "schedule[0].".
 * With `now`, a schedule that never comes after it is refused as well.
 */
export function parseSchedule(input: unknown, on: { at?: string; now?: Temporal.Instant } = {}): ParsedSchedule {
  const complaints: Complaint[] = [];
  const options = new Options(input, complaints, on.at ?? "", timesMeant(input));
  if (complaints.length > 0) return { ok: false, complaints };
  options.onlyKnows(KEYS);
  const times = timesOf(options);
  const schedule: ScheduleSetting = {
    schedule_id: idOf(options) ?? times?.option ?? "",
    schedule_type: times?.schedule_type ?? "every_n_minutes",
    schedule_value: times?.schedule_value ?? "1",
    timezone: timezoneOf(options),
    misfire: misfireOf(options),
    ...dstOf(options, complaints, on.at ?? ""),
    exclude: excludeOf(options, complaints, on.at ?? ""),
    jitter_seconds: options.number("jitterSeconds", { least: 0, most: LONGEST_JITTER, default: 0, whole: true }),
    args_json: argsOf(options),
  };
  if (complaints.length === 0 && on.now) {
    refuseNever(schedule, { options, kind: times?.option ?? "", now: on.now });
    refuseLongJitter(schedule, options, on.now);
  }
  return complaints.length === 0 ? { ok: true, schedule } : { ok: false, complaints };
}

/** Of a text that stands where a schedule belongs. */
function timesMeant(input: unknown): Record<string, unknown> | undefined {
  if (typeof input !== "string") return undefined;
  const kind = SCHEDULE_KINDS.find(({ parse, typed }) => "value" in parse(typed(input)) && Number.isNaN(Number(input)));
  return kind && { [kind.option]: kind.typed(input) };
}

function refuseNever(
  schedule: ScheduleSetting,
  on: { options: Options; kind: string; now: Temporal.Instant },
): void {
  const comes = (times: ScheduleSpec) => nextSlots(times, { after: on.now, count: 1 }).length > 0;
  if (comes(schedule)) return;
  if (schedule.exclude.length > 0 && comes({ ...schedule, exclude: [] })) {
    const reason = "never comes: every day on which it would, within 50 years, is excluded";
    return on.options.complain("exclude", reason, "exclude fewer days, or remove the schedule", { code: "never" });
  }
  const skips = schedule.dst_gap === "skip" ? ", nor at a time that the clock does not jump over" : "";
  on.options.complain(
    on.kind,
    `never comes: ${shown(schedule.schedule_value)} names no time within 50 years${skips}`,
    "name a date that exists, or remove the schedule",
    { code: "never" },
  );
}

/** Runs must come due in the order of their slots. */
function refuseLongJitter(schedule: ScheduleSetting, options: Options, now: Temporal.Instant): void {
  if (schedule.jitter_seconds === 0) return;
  const shortest_s = shortestDistance(schedule, now) / 1000;
  if (schedule.jitter_seconds < shortest_s) return;
  options.complain(
    "jitterSeconds",
    `must be less than the shortest time between two fires, ${shortest_s} s: current value is ${schedule.jitter_seconds}`,
    shortest_s > 1 ? `give at most ${Math.ceil(shortest_s) - 1}` : "leave it out",
    { code: "jitter", most: Math.max(0, Math.ceil(shortest_s) - 1) },
  );
}

interface Times extends Pick<ScheduleSpec, "schedule_type" | "schedule_value"> {
  option: string;
}

function timesOf(options: Options): Times | undefined {
  const given = SCHEDULE_KINDS.filter(({ option }) => options.has(option));
  const [kind] = given;
  if (kind === undefined || given.length > 1) {
    options.complain(
      "",
      given.length === 0
        ? "has no time"
        : `has ${given.length} times: ${given.map(({ option }) => option).join(" and ")}`,
      `give exactly one of ${KIND_OPTIONS.join(", ")}${
        given.length > 1 ? ", and the others as schedules of their own" : ""
      }`,
      { code: "one_kind", words: KIND_OPTIONS },
    );
    return undefined;
  }
  const parsed = kind.parse(options.raw(kind.option));
  if ("value" in parsed) return { option: kind.option, schedule_type: kind.type, schedule_value: parsed.value };
  options.complain(kind.option, parsed.reason, parsed.fix, parsed.says);
}

function idOf(options: Options): string | undefined {
  const id = options.raw("id");
  if (id === undefined) return undefined;
  if (typeof id === "string" && /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(id)) return id;
  options.complain(
    "id",
    `must be 1 to 64 letters, digits, "_", "." or "-": current value is ${shown(id)}`,
    'name it after its purpose, such as "nightly"',
  );
}

function timezoneOf(options: Options): string {
  const value = options.raw("timezone");
  if (value === undefined) return "UTC";
  const zone = typeof value === "string" ? zoneNamed(value) : undefined;
  if (zone !== undefined) return zone;
  const like = typeof value === "string" ? zoneLike(value) : undefined;
  options.complain(
    "timezone",
    `${shown(value)} is no IANA time zone`,
    like ? `did you mean "${like}"?` : 'use a name such as "Asia/Tokyo" or "UTC"',
    { code: "zone", like },
  );
  return "UTC";
}

function misfireOf(options: Options): Misfire {
  const value = options.raw("misfire");
  if (value === undefined || value === "last") return { policy: "last" };
  if (value === "skip") return { policy: "skip" };
  if (isPlainObject(value) && value.all === true && Object.keys(value).every((key) => MISFIRE_KEYS.includes(key))) {
    const within = value.within ?? null;
    const max = value.max ?? DEFAULT_MAX;
    const fits = (within === null || (typeof within === "number" && within > 0 && within <= 3e9)) &&
      Number.isInteger(max) && (max as number) >= 1 && (max as number) <= 1000;
    if (fits) return { policy: "all", within_seconds: within as number | null, max: max as number };
  }
  options.complain(
    "misfire",
    `must be "skip", "last" or { all: true, within, max }: current value is ${shown(value)}`,
    "use one of them; within is in seconds, above 0, and max a whole number from 1 to 1000",
  );
  return { policy: "last" };
}

const MISFIRE_KEYS = ["all", "within", "max"];

function dstOf(options: Options, complaints: Complaint[], at: string): Pick<ScheduleSpec, "dst_gap" | "dst_overlap"> {
  const dst = new Options(options.raw("dst") ?? {}, complaints, `${at}dst.`);
  dst.onlyKnows(["gap", "overlap"]);
  return {
    dst_gap: dst.oneOf("gap", ["after", "before", "skip"], "after"),
    dst_overlap: dst.oneOf("overlap", ["first", "second", "both"], "first"),
  };
}

function excludeOf(options: Options, complaints: Complaint[], at: string): string[] {
  const value = options.raw("exclude");
  const days = value === undefined ? [] : Array.isArray(value) ? value : [value];
  if (days.length > MOST_EXCLUDED) {
    const fix = "use ranges, and leave out days that are over; days of the week are a matter for cron";
    options.complain("exclude", `must be at most ${MOST_EXCLUDED} days or ranges: there are ${days.length}`, fix);
    return [];
  }
  for (const day of days) {
    const wrong = typeof day === "string"
      ? wrongWithDays(day)
      : { reason: "is no text", fix: 'write days as "2026-12-31" or "12-25"', mistake: "no_day" as const };
    if (wrong) {
      complaints.push({
        key: `${at}exclude`,
        value: day,
        reason: `${at}exclude: ${shown(day)} ${wrong.reason}`,
        fix: wrong.fix,
        says: { code: "days", wrong: wrong.mistake },
      });
    }
  }
  return days as string[];
}

const MOST_EXCLUDED = 366;

function argsOf(options: Options): ScheduleSetting["args_json"] {
  const args = options.raw("args");
  if (args === undefined) return {};
  if (isPlainObject(args)) return args as ScheduleSetting["args_json"];
  options.complain(
    "args",
    `must be an object: current value is ${shown(args)}`,
    "give the args of this schedule's runs as { name: value }",
  );
  return {};
}
