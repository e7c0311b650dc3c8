/** The slots of one schedule in some time, each with what came of it; and runs for those that have none. */
import { slotsIn } from "../../../schedules/calendar.ts";
import { zoneNamed } from "../../../schedules/civil_time.ts";
import { backfill } from "../../../actions/schedule_actions.ts";
import { readSchedules, type ScheduleView } from "../../../schedules/schedule_view.ts";
import { readSlotRuns } from "../../../schedules/slot_view.ts";
import { numberField, orSay } from "../../form_actions.ts";
import { unreadableText } from "../../parts/complaint_text.ts";
import { wholeSchedule } from "../../parts/schedule_text.ts";
import { Badge, toneOf } from "../../parts/badge.tsx";
import { ConfirmDialog, DialogButton } from "../../parts/dialog.tsx";
import { Live } from "../../parts/live.tsx";
import { Empty, Problem } from "../../parts/notes.tsx";
import { Table, type TableColumn } from "../../parts/table.tsx";
import { Duration, Nothing, Time, timeText } from "../../parts/time.tsx";
import {
  type ActionContext,
  type Done,
  field,
  idParam,
  link,
  may,
  type Page,
  PageError,
  type RequestContext,
} from "../../request_context.ts";
import { slotText, titleOf } from "./grid.tsx";
import { Outcomes, type Slot } from "./outcome.ts";
import { t } from "../../../locale/locale.ts";

const MOST_SHOWN = 500;
const LONGEST_HOURS = 32 * 24;
const PARALLEL = { from: 1, to: 10_000, whole: true };
/** Of runs for slots of the past: after those of today. */
const PRIORITY = 300;

interface Between {
  from: Temporal.Instant;
  until: Temporal.Instant;
}

/** As the URL or a form says. @throws Refusal 400 */
function between(from: string | null, until: string | null): Between {
  try {
    const range = { from: Temporal.Instant.from(from ?? ""), until: Temporal.Instant.from(until ?? "") };
    const hours = range.from.until(range.until).total("hours");
    if (hours > 0 && hours <= LONGEST_HOURS) return range;
  } catch {
    // below
  }
  throw new PageError(400);
}

async function scheduleOf(on: RequestContext): Promise<{ schedule: ScheduleView; now: Temporal.Instant }> {
  const id = idParam(on);
  const { now, schedules } = await readSchedules(on.sql);
  const schedule = schedules.find((one) => one.id === id);
  if (!schedule) throw new PageError(404);
  return { schedule, now };
}

export async function showSlots(on: RequestContext): Promise<Page> {
  const range = between(on.query.get("from"), on.query.get("until"));
  const { schedule, now } = await scheduleOf(on);
  const zone = zoneNamed(on.query.get("zone") ?? "") ?? zoneNamed(schedule.timezone) ?? "UTC";
  const { found, unreadable } = slotsOf(on, schedule, range);
  const [from, until] = [range.from, range.until].map((at) => new Date(at.epochMilliseconds)) as [Date, Date];
  const outcomes = new Outcomes(await readSlotRuns(on.sql, [schedule.id], { from, until }));
  const slots = found.slice(0, MOST_SHOWN).map((at) => outcomes.of(schedule, at, now));
  const gaps = slots.filter(({ state }) => state === "missed" || state === "before");
  const skipped = slots.filter(({ state }) => state === "SKIPPED");
  const name = `${schedule.job_name}/${schedule.schedule_id}`;
  const time = (at: Date) => timeText(at, zone).slice(0, 16);
  return {
    title: t(on, "calendar.slots_of", { name }),
    body: (
      <>
        <div class="heading">
          <h1>
            {t(on, "calendar.slots_of", { name })}{" "}
            <small>
              {t(on, "calendar.between", { from: time(from), until: time(until) })} {zone} ·{" "}
              {wholeSchedule(on.lang, schedule)}
            </small>
          </h1>
          <div class="buttons">
            <a
              class="button"
              href={link(on, "/calendar", { job: schedule.job_name, zone, from: time(from).slice(0, 10) })}
            >
              {t(on, "calendar.calendar")}
            </a>
            {may(on, "operator") && gaps.length + skipped.length > 0 && (
              <DialogButton opens="backfill" text={t(on, "calendar.backfill", { n: gaps.length || skipped.length })} />
            )}
          </div>
        </div>
        <Live on={on} id="slots" topics={["runs", "jobs"]}>
          {unreadable !== undefined
            ? <Problem title={t(on, "calendar.unreadable")} text={unreadable} />
            : slots.length > 0
            ? <Table columns={columnsOf(on, zone)} rows={slots} label={t(on, "calendar.slots")} />
            : <Empty text={t(on, "calendar.no_slots")} />}
          {found.length > MOST_SHOWN && <p class="nothing">{t(on, "calendar.only_first", { n: MOST_SHOWN })}</p>}
        </Live>
        {may(on, "operator") && gaps.length + skipped.length > 0 && (
          <BackfillDialog on={on} schedule={schedule} zone={zone} gaps={gaps} skipped={skipped} />
        )}
      </>
    ),
  };
}

/** `unreadable`: why none can be told, such as a zone that this machine does not know. */
function slotsOf(
  on: RequestContext,
  schedule: ScheduleView,
  range: Between,
): { found: Temporal.Instant[]; unreadable?: string } {
  try {
    return { found: slotsIn(schedule, { ...range, most: MOST_SHOWN + 1 }) };
  } catch (error) {
    return { found: [], unreadable: unreadableText(on.lang, schedule, error) };
  }
}

function columnsOf(on: RequestContext, zone: string): TableColumn<Slot>[] {
  return [
    {
      head: t(on, "calendar.at"),
      cell: ({ at }) => <time datetime={String(at)}>{timeText(new Date(at.epochMilliseconds), zone)}</time>,
    },
    {
      head: t(on, "calendar.what"),
      cell: (slot) => {
        const { tone, sign } = toneOf(slot.state);
        const more = titleOf(on, slot).slice(slotText(on, slot.state).length);
        return (
          <>
            <Badge tone={tone} sign={sign} text={slotText(on, slot.state)} />
            {more}
          </>
        );
      },
    },
    {
      head: t(on, "calendar.run"),
      kind: "number",
      cell: ({ run }) => run ? <a href={link(on, `/runs/${run.id}`)}>{run.id}</a> : <Nothing />,
    },
    { head: t(on, "calendar.started"), kind: "wide", cell: ({ run }) => <Time on={on} at={run?.started_at ?? null} /> },
    {
      head: t(on, "calendar.took"),
      kind: "number",
      cell: ({ run }) => <Duration on={on} from={run?.started_at ?? null} to={run?.finished_at ?? null} />,
    },
  ];
}

function BackfillDialog(
  { on, schedule, zone, gaps, skipped }: {
    on: RequestContext;
    schedule: ScheduleView;
    zone: string;
    gaps: Slot[];
    skipped: Slot[];
  },
) {
  const all = [...gaps, ...skipped].sort((a, b) => Temporal.Instant.compare(a.at, b.at));
  const [first, last] = [all[0] as Slot, all.at(-1) as Slot];
  const time = ({ at }: Slot) => `${timeText(new Date(at.epochMilliseconds), zone)} ${zone}`;
  const name = `${schedule.job_name}/${schedule.schedule_id}`;
  return (
    <ConfirmDialog
      on={on}
      id="backfill"
      title={t(on, "calendar.backfill_title", { n: gaps.length || skipped.length, name })}
      action={`/calendar/${schedule.id}/backfill`}
      verb={t(on, "calendar.backfill", { n: gaps.length || skipped.length })}
    >
      <p>{t(on, "calendar.backfill_text", { first: time(first), last: time(last) })}</p>
      <label>
        {t(on, "calendar.parallel")}
        <input type="number" name="parallel" value="1" min={PARALLEL.from} max={PARALLEL.to} required />
      </label>
      {skipped.length > 0 && (
        <label class="check">
          <input type="checkbox" name="skipped" value="yes" checked={gaps.length === 0} />
          {t(on, "calendar.backfill_skipped")} ({skipped.length})
        </label>
      )}
      <input type="hidden" name="from" value={String(first.at)} />
      <input type="hidden" name="until" value={String(last.at.add({ seconds: 1 }))} />
    </ConfirmDialog>
  );
}

/** Slots that get their run meanwhile are left out, so sending it twice makes nothing more. */
export function backfillSlots(on: ActionContext): Promise<Done> {
  const range = between(field(on.form, "from"), field(on.form, "until"));
  const again = field(on.form, "skipped") === "yes";
  const to = `/calendar/${idParam(on)}?${new URLSearchParams({
    from: String(range.from),
    until: String(range.until),
  })}`;
  return orSay(on, to, async () => {
    const { schedule, now } = await scheduleOf(on);
    if (Temporal.Instant.compare(range.until, now) > 0) throw new PageError(400);
    const parallel = numberField(on, "parallel", { ...PARALLEL, label: t(on, "calendar.parallel") }) ?? 1;
    const { job_name, schedule_id } = schedule;
    const given = { job_name, schedule_id, ...range, skipped: again, parallel, priority: PRIORITY };
    const made = await on.perform(backfill, given);
    if (!made) return { to, text: t(on, "calendar.backfill_nothing") };
    return { to: `/bulks/${made.bulk_id}`, text: t(on, "calendar.backfill_done", { runs: made.runs }) };
  });
}
