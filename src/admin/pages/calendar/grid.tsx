/** The calendar: a row for each schedule, an hour or a day in each column, and in it what was expected and what came. */
import { DaysOff } from "../../../schedules/exclusion.ts";
import { monotonicMs } from "../../../platform/timers.ts";
import { slotsIn } from "../../../schedules/calendar.ts";
import { readSchedules, type ScheduleView } from "../../../schedules/schedule_view.ts";
import { readSlotRuns } from "../../../schedules/slot_view.ts";
import { durationText } from "../../assets/ago.js";
import { unreadableText } from "../../parts/complaint_text.ts";
import { wholeSchedule } from "../../parts/schedule_text.ts";
import { toneOf } from "../../parts/badge.tsx";
import { Choice, Filters, TextField } from "../../parts/filters.tsx";
import { Live } from "../../parts/live.tsx";
import { Code, Empty } from "../../parts/notes.tsx";
import { timeText } from "../../parts/time.tsx";
import { link, type Page, type RequestContext } from "../../request_context.ts";
import { type CalendarSlotState, Outcomes, type Slot } from "./outcome.ts";
import { boundsOf, type CalendarColumn, type CalendarRange, rangeOf } from "./range.ts";
import { t } from "../../../locale/locale.ts";

/** More schedules than that, or more slots, are no page: a job is chosen then. */
const MOST_SCHEDULES = 60;
const MOST_SLOTS = 5_000;
/** As many are marks of their own within a cell. */
const MOST_MARKS = 4;

interface Row {
  schedule: ScheduleView;
  /** Undefined: too many; a text: it cannot be read. */
  slots: Slot[] | string | undefined;
  off: (column: CalendarColumn) => boolean;
}

export async function showCalendar(on: RequestContext): Promise<Page> {
  const range = rangeOf(on);
  const { now, schedules } = await readSchedules(on.sql);
  const job = on.query.get("job") || undefined;
  const meant = schedules.filter((one) => job === undefined || one.job_name === job);
  const rows = await rowsOf(on, meant.slice(0, MOST_SCHEDULES), { range, now });
  return {
    title: t(on, "calendar.calendar"),
    body: (
      <>
        <h1>
          {t(on, "calendar.calendar")} <small>{range.first.toString()} · {range.zone}</small>
        </h1>
        <CalendarFilters on={on} range={range} schedules={schedules} job={job} />
        <Moves on={on} range={range} />
        <Live on={on} id="calendar" topics={["runs", "jobs"]}>
          {rows.length > 0
            ? <Grid on={on} range={range} rows={rows} now={now} />
            : <NoSchedules on={on} filtered={job !== undefined && schedules.length > 0} />}
          {meant.length > MOST_SCHEDULES && (
            <p class="nothing">{t(on, "calendar.more_schedules", { n: meant.length - MOST_SCHEDULES })}</p>
          )}
        </Live>
        <p class="nothing">{t(on, "calendar.as_now")}</p>
      </>
    ),
  };
}

/** So long is looked for slots; schedules after that are listed without theirs, as those beyond MOST_SLOTS are. */
const LONGEST_SEARCH_MS = 1_000;

async function rowsOf(
  on: RequestContext,
  schedules: ScheduleView[],
  { range, now }: { range: CalendarRange; now: Temporal.Instant },
): Promise<Row[]> {
  const bounds = boundsOf(range);
  const [from, until] = [bounds.from, bounds.until].map((at) => new Date(at.epochMilliseconds)) as [Date, Date];
  let left = MOST_SLOTS;
  const late_ms = monotonicMs() + LONGEST_SEARCH_MS;
  const planned = schedules.map((schedule) => {
    try {
      const days_off = new DaysOff(schedule.exclude);
      const off = ({ day }: CalendarColumn) => days_off.has(day.toZonedDateTime("UTC").epochMilliseconds);
      if (monotonicMs() > late_ms) left = 0;
      const found = left > 0 ? slotsIn(schedule, { ...bounds, most: left + 1 }) : [];
      const slots = left > 0 && found.length <= left ? found : undefined;
      left -= slots?.length ?? 0;
      return { schedule, slots, off };
    } catch (error) { // a zone that this machine does not know must not hide the other schedules
      return { schedule, slots: unreadableText(on.lang, schedule, error), off: () => false };
    }
  });
  const shown = planned.filter(({ slots }) => Array.isArray(slots)).map(({ schedule }) => schedule.id);
  const outcomes = new Outcomes(await readSlotRuns(on.sql, shown, { from, until }));
  return planned.map((row) => ({
    ...row,
    slots: Array.isArray(row.slots) ? row.slots.map((at) => outcomes.of(row.schedule, at, now)) : row.slots,
  }));
}

function CalendarFilters(
  { on, range, schedules, job }: {
    on: RequestContext;
    range: CalendarRange;
    schedules: ScheduleView[];
    job: string | undefined;
  },
) {
  const jobs = [...new Set(schedules.map((one) => one.job_name))].sort();
  const zones = [...new Set([...schedules.map((one) => one.timezone), range.zone, "UTC"])].filter((zone) =>
    zone !== on.zone
  );
  return (
    <Filters on={on} any_set={on.query.size > 0}>
      <div class="fields">
        <TextField label={t(on, "calendar.job")} name="job" value={job} list={jobs} />
        <Choice
          on={on}
          label={t(on, "calendar.span")}
          name="span"
          value={range.span}
          none={t(on, "calendar.day")}
          options={[{ value: "week", text: t(on, "calendar.week") }]}
        />
        <label>
          {t(on, "calendar.date")}
          <input type="date" name="from" value={on.query.get("from") ? range.first.toString() : ""} />
        </label>
        <Choice
          on={on}
          label={t(on, "calendar.zone")}
          name="zone"
          value={range.zone}
          none={t(on, "calendar.yours", { zone: on.zone })}
          options={zones.sort().map((value) => ({ value, text: value }))}
        />
      </div>
    </Filters>
  );
}

function Moves({ on, range }: { on: RequestContext; range: CalendarRange }) {
  const to = (first: Temporal.PlainDate | undefined) => {
    const rest = [...on.query].filter(([name]) => name !== "from");
    return link(on, "/calendar", new URLSearchParams(first ? [...rest, ["from", String(first)]] : rest));
  };
  const days = range.first.until(range.end).days;
  return (
    <nav class="pager" aria-label={t(on, "calendar.moving")}>
      <a class="button" href={to(range.first.subtract({ days }))}>{t(on, "calendar.earlier")}</a>
      <a class="button" href={to(undefined)}>{t(on, "calendar.today")}</a>
      <a class="button" href={to(range.end)}>{t(on, "calendar.later")}</a>
    </nav>
  );
}

function Grid(
  { on, range, rows, now }: { on: RequestContext; range: CalendarRange; rows: Row[]; now: Temporal.Instant },
) {
  const here = ({ from, until }: CalendarColumn) =>
    Temporal.Instant.compare(from, now) <= 0 && Temporal.Instant.compare(now, until) < 0;
  return (
    <>
      <div class="scroll" role="region" aria-label={t(on, "calendar.calendar")} tabindex={0}>
        <table class="calendar">
          <thead>
            <tr>
              <th scope="col">{t(on, "calendar.schedule")}</th>
              {range.columns.map((column) => (
                <th scope="col" class={here(column) ? "here" : undefined}>{column.head}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr>
                <Name on={on} range={range} row={row} />
                {Array.isArray(row.slots)
                  ? cellsOf(range, row.slots).map((slots, place) => (
                    <Cell
                      on={on}
                      row={row}
                      slots={slots}
                      column={range.columns[place] as CalendarColumn}
                      zone={range.zone}
                    />
                  ))
                  : (
                    <td class="nothing" colspan={range.columns.length}>
                      {row.slots === undefined
                        ? t(on, "calendar.too_many")
                        : `${t(on, "calendar.unreadable")}: ${row.slots}`}
                    </td>
                  )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Legend on={on} />
    </>
  );
}

function Name({ on, range, row: { schedule } }: { on: RequestContext; range: CalendarRange; row: Row }) {
  const { from, until } = boundsOf(range);
  const to = link(on, `/calendar/${schedule.id}`, { from: String(from), until: String(until), zone: range.zone });
  const stopped = schedule.paused_by !== null
    ? t(on, "calendar.paused", { who: schedule.paused_by })
    : schedule.enabled
    ? undefined
    : t(on, "calendar.off");
  return (
    <th scope="row" title={wholeSchedule(on.lang, schedule)}>
      <a href={to}>{schedule.job_name}</a> <small>{schedule.schedule_id}</small>
      {stopped && <small class="stopped">{stopped}</small>}
    </th>
  );
}

/** Slots are in their order, and so are columns. */
function cellsOf({ columns }: CalendarRange, slots: Slot[]): Slot[][] {
  let place = 0;
  return columns.map(({ until }) => {
    const first = place;
    while (place < slots.length && Temporal.Instant.compare((slots[place] as Slot).at, until) < 0) place++;
    return slots.slice(first, place);
  });
}

function Cell(
  { on, row, slots, column, zone }: {
    on: RequestContext;
    row: Row;
    slots: Slot[];
    column: CalendarColumn;
    zone: string;
  },
) {
  if (slots.length === 0) return row.off(column) ? <td class="off" title={t(on, "calendar.excluded")}></td> : <td></td>;
  const to = link(on, `/calendar/${row.schedule.id}`, { from: String(column.from), until: String(column.until), zone });
  if (slots.length <= MOST_MARKS) {
    return <td>{slots.map((slot) => <Mark on={on} slot={slot} zone={zone} to={to} />)}</td>;
  }
  const place = (kind: string) => (LEGEND as readonly string[]).indexOf(kind);
  const kinds = [...Map.groupBy(slots, kindOf)].sort(([a], [b]) => place(a) - place(b));
  return (
    <td>
      {kinds.map(([kind, some]) => (
        <a class={`slot ${toneOf(kind).tone}`} href={to} title={`${some.length} ${slotText(on, kind)}`}>
          {toneOf(kind).sign}
          {some.length}
        </a>
      ))}
    </td>
  );
}

/** What is late is told apart. */
function kindOf(slot: Slot): CalendarSlotState | "late" {
  return slot.late_ms > 0 && slot.state !== "FAILED" && slot.state !== "TIMED_OUT" ? "late" : slot.state;
}

function Mark({ on, slot, zone, to }: { on: RequestContext; slot: Slot; zone: string; to: string }) {
  const kind = kindOf(slot);
  const { tone, sign } = toneOf(kind);
  const time = timeText(new Date(slot.at.epochMilliseconds), zone).slice(11, 16);
  const title = [time, titleOf(on, slot)].join(" · ");
  const href = slot.run ? link(on, `/runs/${slot.run.id}`) : slot.state === "expected" ? undefined : to;
  const text = (
    <>
      <span aria-hidden="true">{sign}</span>
      <span class="hidden-text">{title}</span>
    </>
  );
  return href
    ? <a class={`slot ${tone}`} href={href} title={title}>{text}</a>
    : <span class={`slot ${tone}`} title={title}>{text}</span>;
}

/** The state with what else is to be said of a slot, in one line. */
export function titleOf(on: RequestContext, slot: Slot): string {
  const late = slot.late_ms > 0 && t(on, "calendar.late_by", { by: durationText(slot.late_ms) });
  const repeated = slot.repeated && slot.run && t(on, "calendar.repeated", { id: slot.run.id });
  return [slotText(on, slot.state), late, repeated].filter(Boolean).join(", ");
}

export function slotText(on: RequestContext, kind: CalendarSlotState | "late"): string {
  const words: Partial<Record<CalendarSlotState | "late", string>> = {
    expected: t(on, "calendar.expected"),
    planning: t(on, "calendar.planning"),
    missed: t(on, "calendar.missed"),
    before: t(on, "calendar.before"),
    unknown: t(on, "calendar.unknown"),
    late: t(on, "calendar.late"),
  };
  return words[kind] ?? kind;
}

const LEGEND = [
  "SUCCEEDED",
  "FAILED",
  "RUNNING",
  "SUSPENDED",
  "PENDING",
  "SKIPPED",
  "late",
  "missed",
  "planning",
  "expected",
  "before",
] as const;

function Legend({ on }: { on: RequestContext }) {
  return (
    <p class="legend" aria-label={t(on, "calendar.legend")}>
      {LEGEND.map((kind) => (
        <span>
          <span class={`slot ${toneOf(kind).tone}`} aria-hidden="true">{toneOf(kind).sign}</span> {slotText(on, kind)}
        </span>
      ))}
    </p>
  );
}

function NoSchedules({ on, filtered }: { on: RequestContext; filtered: boolean }) {
  if (filtered) return <Empty text={t(on, "calendar.none_match")} />;
  return (
    <Empty text={t(on, "calendar.none")}>
      <p>{t(on, "calendar.none_hint")}</p>
      <Code value={`schedule: [{ id: "nightly", dailyAt: "02:30", timezone: "Asia/Tokyo" }]\n\ndeno task sync`} />
    </Empty>
  );
}
