/** `schedule preview`: when something fires next. A schedule given by options needs no database. */
import { wallClock } from "../../platform/timers.ts";
import { problemText } from "../../sync/problem.ts";
import { previewOf, wallTextOf } from "../../schedules/preview.ts";
import { scheduleText } from "../../sync/plan.ts";
import type { ScheduleTimes } from "../../schedules/calendar.ts";
import type { ScheduleValues } from "../../job.ts";
import { kindStored, SCHEDULE_KINDS, typedTime } from "../../schedule_kinds/kinds.ts";
import { flagOf } from "../commands/schedule_flags.ts";
import { parseSchedule } from "../../job_options/schedule_options.ts";
import { schedulesNamed } from "../../actions/schedule_actions.ts";
import type { ScheduleView } from "../../schedules/schedule_view.ts";
import { withDb } from "../operator.ts";
import { instantFrom } from "../inputs.ts";
import { CommandError, EXIT, printJson, say } from "../../app/output.ts";
import { stoppedText, whichOf } from "./schedules.ts";

interface PreviewOptions extends Partial<Record<keyof ScheduleValues, string>> {
  timezone: string;
  gap: string;
  overlap: string;
  exclude?: string[];
  from?: string;
  count: number;
  json?: boolean;
}

interface Previewed {
  times: ScheduleTimes;
  /** Of a synced schedule; one that is given by options has neither a name nor jitter. */
  stored?: ScheduleView;
}

export async function previewCommand(job: string | undefined, options: PreviewOptions): Promise<void> {
  const given = givenSchedule(options);
  if ((job === undefined) === (given === undefined)) {
    const kinds = SCHEDULE_KINDS.map(flagOf).join(", ");
    throw new CommandError(
      `Cannot preview: no schedule is given; give either a job's name or one of ${kinds}`,
      EXIT.usage,
    );
  }
  const schedules: Previewed[] = given ? [{ times: given }] : await schedulesOf(job as string);
  const after = (options.from === undefined ? wallClock() : instantFrom(options.from, "ahead")).toTemporalInstant();
  const fires = schedules.map((one) => ({
    ...one,
    ...previewOf(one.stored ?? one.times, { after, count: options.count }),
  }));
  for (const { times, warnings } of fires) {
    const caution = kindStored(times.schedule_type).caution?.(times.schedule_value);
    if (caution) console.error(`warning: ${caution}`);
    for (const warning of warnings) console.error(`warning: ${warning.message}`);
  }
  if (options.json) {
    const all = fires.flatMap((one) => one.fires.map(({ slot }) => slot)).sort(Temporal.Instant.compare).slice(
      0,
      options.count,
    );
    return printJson(all.map(String));
  }
  for (const { times, stored, fires: next } of fires) {
    if (stored) {
      say(`${stored.job_name}/${stored.schedule_id} (${scheduleText(stored)})${stopped(stored)}`);
    }
    if (next.length === 0) say("never");
    for (const { slot, starts } of next) {
      const jitter = stored && stored.jitter_seconds > 0 ? `  starts ${starts}` : "";
      say(`${slot}  ${wallTextOf(slot, times.timezone)}${jitter}`);
    }
  }
}

function givenSchedule(options: PreviewOptions): ScheduleTimes | undefined {
  const given = SCHEDULE_KINDS.filter(({ option }) => options[option] !== undefined);
  if (given.length === 0) return undefined;
  const time = Object.assign({}, ...given.map(({ option }) => typedTime(option, options[option] as string)));
  const dst = { gap: options.gap, overlap: options.overlap };
  const parsed = parseSchedule({
    ...time,
    timezone: options.timezone,
    exclude: options.exclude,
    dst,
  });
  if (parsed.ok) return parsed.schedule;
  const text = parsed.complaints.map((one) => problemText({ file: "", reason: one.reason, fix: one.fix })).join("\n");
  throw new CommandError(`Cannot preview: ${text}`, EXIT.usage);
}

async function schedulesOf(name: string): Promise<Previewed[]> {
  const { schedules } = await withDb((sql) => schedulesNamed(sql, whichOf(name)));
  return schedules.map((stored) => ({ times: stored, stored }));
}

function stopped(schedule: ScheduleView): string {
  const text = stoppedText(schedule);
  return text === null ? "" : `, ${text}: no slot starts a run until then`;
}
