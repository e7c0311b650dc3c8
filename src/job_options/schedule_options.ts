/** The schema of one schedule, as a job file or a command line gives it: columns of its row, or all that is wrong with it. */
import { z } from "zod";
import type { Misfire, ScheduleSetting, ScheduleSpec } from "../definitions/definition_rows.ts";
import type { Json, ScheduleValues } from "../job.ts";
import { isRecord, shown } from "../platform/shown.ts";
import type { ScheduleKind } from "../schedule_kinds/kind.ts";
import { KIND_OPTIONS, SCHEDULE_KINDS, type ScheduleType } from "../schedule_kinds/kinds.ts";
import { nextSlots } from "../schedules/calendar.ts";
import { zoneLike, zoneNamed } from "../schedules/civil_time.ts";
import { wrongWithDays } from "../schedules/exclusion.ts";
import { shortestDistance } from "../schedules/jitter.ts";
import { type Broken, rule, ruleOfAll, whole } from "./building.ts";
import type { Complaint } from "./complaint.ts";
import { complaintsOf } from "./issues.ts";
import { known } from "./option_node.ts";

const DEFAULT_MAX = 100;
const MOST_EXCLUDED = 366;
const DAY_SECONDS = 86_400;

type KindShape = { [Option in keyof ScheduleValues]: z.ZodOptional<z.ZodType<string, ScheduleValues[Option]>> };

const KINDS = Object.fromEntries(
  SCHEDULE_KINDS.map((kind) => [kind.option, valueOf(kind).optional()]),
) as unknown as KindShape;

function valueOf(kind: ScheduleKind) {
  const value = z.custom<ScheduleValues[keyof ScheduleValues]>().transform((given, context) => {
    const parsed = kind.parse(given);
    if ("value" in parsed) return parsed.value;
    const { reason, fix, says } = parsed;
    context.addIssue({ code: "custom", params: { reason, fix, says } });
    return z.NEVER;
  });
  return known(value, {
    about: "A kind of time; a schedule has exactly one.",
    takes: takenBy(kind),
    otherwise: "one kind",
  });
}

function takenBy({ query, typed }: ScheduleKind): string {
  return "least" in query ? `${query.least} to ${query.most}` : `such as \`${JSON.stringify(typed(query.example))}\``;
}

const id = known(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/), {
  about: "Names the schedule within its job; needed when a job has two of one kind.",
  takes: "1 to 64 letters, digits, `_`, `.` or `-`",
  otherwise: "its kind",
  wrong: (value) => ({
    reason: `must be 1 to 64 letters, digits, "_", "." or "-": current value is ${shown(value)}`,
    fix: 'name it after its purpose, such as "nightly"',
  }),
});

const timezone = known(z.string().refine((name) => zoneNamed(name) !== undefined), {
  about: "Time zone of its times of day and excluded days.",
  takes: "IANA name",
  wrong: (value) => {
    const like = typeof value === "string" ? zoneLike(value) : undefined;
    return {
      reason: `${shown(value)} is no IANA time zone`,
      fix: like ? `did you mean "${like}"?` : 'use a name such as "Asia/Tokyo" or "UTC"',
      says: { code: "zone", like },
    };
  },
});

const args = known(z.custom<Json>().check(rule((value) => isRecord(value) ? [] : [notArgs(value)])), {
  about: "Args of its runs.",
  takes: "object",
});

function notArgs(value: unknown): Broken {
  return {
    reason: `must be an object: current value is ${shown(value)}`,
    fix: "give the args of this schedule's runs as { name: value }",
  };
}

const misfire = known(
  z.union([
    z.enum(["skip", "last"]),
    z.strictObject({
      all: z.literal(true),
      within: z.number().positive().max(3e9).optional(),
      max: z.int().min(1).max(1000).optional(),
    }),
  ]),
  {
    about:
      "Slots that passed while all workers were down: skip them, run the last one, or run all younger than `within` seconds, " +
      `at most \`max\` (${DEFAULT_MAX}).`,
    takes: '`"skip"`, `"last"` or `{ all: true, within, max }`',
    whole: true,
    wrong: (value) => ({
      reason: `must be "skip", "last" or { all: true, within, max }: current value is ${shown(value)}`,
      fix: "use one of them; within is in seconds, above 0, and max a whole number from 1 to 1000",
    }),
  },
);

const dst = z.strictObject({
  gap: known(z.enum(["after", "before", "skip"]), {
    about: "A time that a changing clock leaves out runs after the gap, before it, or not.",
  }).default("after"),
  overlap: known(z.enum(["first", "second", "both"]), {
    about: "A time that comes twice counts the first time, the second, or both.",
  }).default("first"),
});

const days = z.custom<string>().check(rule((day) => {
  const wrong = typeof day === "string"
    ? wrongWithDays(day)
    : { reason: "is no text", fix: 'write days as "2026-12-31" or "12-25"', mistake: "no_day" as const };
  if (!wrong) return [];
  const { reason, fix, mistake } = wrong;
  return [{ punctuation: ": ", reason: `${shown(day)} ${reason}`, fix, says: { code: "days", wrong: mistake } }];
}));

const exclude = known(
  z.union([
    days,
    z.array(days).check(rule((list) =>
      list.length <= MOST_EXCLUDED ? [] : [{
        reason: `must be at most ${MOST_EXCLUDED} days or ranges: there are ${list.length}`,
        fix: "use ranges, and leave out days that are over; days of the week are a matter for cron",
      }]
    )),
  ]),
  {
    about: "Days on which it does not run, in its zone: a date, a day of every year, or a range of either.",
    takes: '`"2026-12-31"`, `"12-25"`, `"12-29/01-03"`, or a list',
    otherwise: "none",
  },
);

const SCHEDULE_SHAPE = {
  ...KINDS,
  id: id.optional(),
  timezone: timezone.default("UTC"),
  args: args.default({}),
  misfire: misfire.default("last"),
  dst: dst.prefault({}),
  exclude: exclude.optional(),
  jitterSeconds: known(whole(0, DAY_SECONDS), {
    about: "Each run starts up to so many seconds after its slot, always the same for one slot.",
  }).default(0),
};

/** One schedule -> its columns. */
const scheduleSchema = known(
  z.strictObject(SCHEDULE_SHAPE).check(ruleOfAll(oneKind)).transform((given): ScheduleSetting => {
    const [kind] = SCHEDULE_KINDS.filter(({ option }) => given[option] !== undefined);
    return {
      schedule_id: given.id ?? kind?.option ?? "",
      schedule_type: kind?.type as ScheduleType,
      schedule_value: given[kind?.option as keyof ScheduleValues] as string,
      timezone: zoneNamed(given.timezone) as string,
      misfire: misfireColumn(given.misfire),
      dst_gap: given.dst.gap,
      dst_overlap: given.dst.overlap,
      exclude: [given.exclude ?? []].flat(),
      jitter_seconds: given.jitterSeconds,
      args_json: given.args as ScheduleSetting["args_json"],
    };
  }),
  { meant: timesMeant },
);

function misfireColumn(given: z.output<typeof misfire>): Misfire {
  if (!isRecord(given)) return { policy: given };
  return { policy: "all", within_seconds: given.within ?? null, max: given.max ?? DEFAULT_MAX };
}

function oneKind(given: Record<string, unknown>): Broken[] {
  const kinds = KIND_OPTIONS.filter((option) => given[option] !== undefined);
  if (kinds.length === 1) return [];
  const more = kinds.length > 1 ? ", and the others as schedules of their own" : "";
  return [{
    reason: kinds.length === 0 ? "has no time" : `has ${kinds.length} times: ${kinds.join(" and ")}`,
    fix: `give exactly one of ${KIND_OPTIONS.join(", ")}${more}`,
    says: { code: "one_kind", words: KIND_OPTIONS },
  }];
}

/** Of a text that stands where a schedule belongs. */
function timesMeant(input: unknown): Record<string, unknown> | undefined {
  if (typeof input !== "string") return undefined;
  const kind = SCHEDULE_KINDS.find(({ parse, typed }) => "value" in parse(typed(input)) && Number.isNaN(Number(input)));
  return kind && { [kind.option]: kind.typed(input) };
}

/** One or more schedules, as a job file gives them. */
export const schedulesSchema = known(
  z.union([scheduleSchema, z.array(scheduleSchema)]).transform((given) => [given].flat()).check(rule(ownIds)),
  { about: "When it runs; one schedule or a list.", takes: "object or list", otherwise: "never by itself" },
);

function ownIds(schedules: ScheduleSetting[]): Broken[] {
  return schedules.flatMap(({ schedule_id }, place) =>
    schedules.findIndex((one) => one.schedule_id === schedule_id) === place ? [] : [{
      path: [place],
      reason: `has the id ${shown(schedule_id)} of another schedule`,
      fix: 'give each schedule of a job an id of its own, such as id: "nightly"',
    }]
  );
}

/** What is wrong with a schedule by the clock: it never comes, or its runs would start out of the order of their slots. */
export function wrongByClock(schedule: ScheduleSetting, on: { at: string; now: Temporal.Instant }): Complaint[] {
  const comes = (times: ScheduleSpec) => nextSlots(times, { after: on.now, count: 1 }).length > 0;
  if (!comes(schedule)) {
    const key = `${on.at}${SCHEDULE_KINDS.find(({ type }) => type === schedule.schedule_type)?.option}`;
    if (schedule.exclude.length > 0 && comes({ ...schedule, exclude: [] })) {
      return [{
        key: `${on.at}exclude`,
        reason: `${on.at}exclude never comes: every day on which it would, within 50 years, is excluded`,
        fix: "exclude fewer days, or remove the schedule",
        says: { code: "never" },
      }];
    }
    const skips = schedule.dst_gap === "skip" ? ", nor at a time that the clock does not jump over" : "";
    return [{
      key,
      reason: `${key} never comes: ${shown(schedule.schedule_value)} names no time within 50 years${skips}`,
      fix: "name a date that exists, or remove the schedule",
      says: { code: "never" },
    }];
  }
  if (schedule.jitter_seconds === 0) return [];
  const shortest_s = shortestDistance(schedule, on.now) / 1000;
  if (schedule.jitter_seconds < shortest_s) return [];
  const most = Math.max(0, Math.ceil(shortest_s) - 1);
  return [{
    key: `${on.at}jitterSeconds`,
    value: schedule.jitter_seconds,
    reason: `${on.at}jitterSeconds must be less than the shortest time between two fires, ${shortest_s} s: ` +
      `current value is ${schedule.jitter_seconds}`,
    fix: most > 0 ? `give at most ${most}` : "leave it out",
    says: { code: "jitter", most },
  }];
}

export type ParsedSchedule = { ok: true; schedule: ScheduleSetting } | { ok: false; complaints: Complaint[] };

/**
 * Checks one schedule; `at` goes before its options in complaints, e.g. "schedule[0].".
 * With `now`, a schedule that never comes after it is refused as well.
 */
export function parseSchedule(input: unknown, on: { at?: string; now?: Temporal.Instant } = {}): ParsedSchedule {
  const { at = "", now } = on;
  const parsed = scheduleSchema.safeParse(input);
  const complaints = !parsed.success
    ? complaintsOf(scheduleSchema, input, parsed.error.issues, at)
    : now
    ? wrongByClock(parsed.data, { at, now })
    : [];
  return parsed.success && complaints.length === 0 ? { ok: true, schedule: parsed.data } : { ok: false, complaints };
}
