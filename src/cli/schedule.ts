/** `schedule preview`: when something fires next. A schedule given by options needs no database. */
import { wallClock } from "../base/loop.ts";
import { problemText } from "../catalog/problem.ts";
import { nextSlots, previewWarnings, type ScheduleTimes } from "../catalog/schedule.ts";
import { parseSchedule } from "../catalog/schedule_input.ts";
import { readDefinition } from "../store/definitions.ts";
import { CommandError, EXIT, printJson } from "./output.ts";
import { withDb } from "./runs.ts";

interface PreviewOptions {
  everyNMinutes?: string;
  hourlyAtMinute?: string;
  dailyAt?: string;
  cron?: string;
  timezone: string;
  gap: string;
  overlap: string;
  from?: string;
  count: number;
  json?: boolean;
}

interface Named {
  name: string;
  times: ScheduleTimes;
}

export async function previewCommand(job: string | undefined, options: PreviewOptions): Promise<void> {
  const given = givenSchedule(options);
  if ((job === undefined) === (given === undefined)) {
    const kinds = "--every-n-minutes, --hourly-at-minute, --daily-at or --cron";
    throw new CommandError(`Cannot preview: give either a job's name or one of ${kinds}`, EXIT.usage);
  }
  const schedules = given ? [{ name: "", times: given }] : await schedulesOf(job as string);
  const after = options.from === undefined
    ? Temporal.Instant.fromEpochMilliseconds(wallClock().getTime())
    : instantFrom(options.from);
  const fires = schedules.map(({ name, times }) => ({
    name,
    times,
    slots: nextSlots(times, { after, count: options.count }),
  }));
  for (const { times, slots } of fires) {
    const until = slots.at(-1);
    const warnings = until ? previewWarnings(times, { after, until }) : [];
    for (const warning of warnings) console.error(`warning: ${warning.message}`);
  }
  if (options.json) {
    const all = fires.flatMap((one) => one.slots).sort(Temporal.Instant.compare).slice(0, options.count);
    return printJson(all.map(String));
  }
  for (const { name, times, slots } of fires) {
    if (name) console.log(`${name} (${times.schedule_type} ${times.schedule_value}, ${times.timezone})`);
    if (slots.length === 0) console.log("never");
    for (const slot of slots) console.log(`${slot}  ${localText(slot, times.timezone)}`);
  }
}

function givenSchedule(options: PreviewOptions): ScheduleTimes | undefined {
  const { dailyAt, cron } = options;
  const everyNMinutes = numberOrText(options.everyNMinutes);
  const hourlyAtMinute = numberOrText(options.hourlyAtMinute);
  const time = Object.fromEntries(
    Object.entries({ everyNMinutes, hourlyAtMinute, dailyAt, cron }).filter(([, value]) => value !== undefined),
  );
  if (Object.keys(time).length === 0) return undefined;
  const dst = { gap: options.gap, overlap: options.overlap };
  const parsed = parseSchedule({
    ...time,
    timezone: options.timezone,
    ...(everyNMinutes === undefined ? { dst } : {}),
  });
  if (parsed.ok) return parsed.schedule;
  const text = parsed.complaints.map((one) => problemText({ file: "", reason: one.reason, fix: one.fix })).join("\n");
  throw new CommandError(`Cannot preview: ${text}`, EXIT.usage);
}

/** What is no number stays as it is, for the complaint to quote. */
function numberOrText(text: string | undefined): number | string | undefined {
  return text === undefined || text === "" || Number.isNaN(Number(text)) ? text : Number(text);
}

async function schedulesOf(job: string): Promise<Named[]> {
  const definition = await withDb((sql) => readDefinition(sql, job));
  if (!definition) {
    throw new CommandError(
      `Cannot preview "${job}": no such job; a new one is added by a file in jobs/ and \`deno task sync\``,
    );
  }
  if (definition.schedules.length === 0) throw new CommandError(`Cannot preview "${job}": it has no schedule`);
  return definition.schedules.map((times) => ({ name: times.schedule_id, times }));
}

function instantFrom(text: string): Temporal.Instant {
  try {
    return Temporal.Instant.from(text);
  } catch {
    throw new CommandError(`Cannot read --from "${text}": give an instant such as 2026-03-28T00:00:00Z`, EXIT.usage);
  }
}

/** The same instant on the wall of its zone. */
function localText(slot: Temporal.Instant, timezone: string): string {
  const local = slot.toZonedDateTimeISO(timezone);
  return `${local.toPlainDate()} ${
    local.toPlainTime().toString({ smallestUnit: "minute" })
  }${local.offset} ${timezone}`;
}
