/** What a calendar shows: from which day on, how long, in whose zone, and in which columns. */
import { zoneNamed } from "../../../schedules/civil_time.ts";
import type { RequestContext } from "../../request_context.ts";

export type CalendarSpan = "day" | "week";

export interface CalendarRange {
  span: CalendarSpan;
  zone: string;
  /** The first day, and the first after the last. */
  first: Temporal.PlainDate;
  end: Temporal.PlainDate;
  today: Temporal.PlainDate;
  columns: CalendarColumn[];
}

/** An hour of a day, or a day of a week. A day in which the clock changes has 23 hours or 25. */
export interface CalendarColumn {
  from: Temporal.Instant;
  until: Temporal.Instant;
  head: string;
  day: Temporal.PlainDate;
}

const DAYS = { day: 1, week: 7 };

/** What cannot be used is as if it were not said. */
export function rangeOf(on: RequestContext): CalendarRange {
  const span: CalendarSpan = on.query.get("span") === "week" ? "week" : "day";
  const zone = zoneNamed(on.query.get("zone") ?? "") ?? on.zone;
  const today = on.now.toTemporalInstant().toZonedDateTimeISO(zone).toPlainDate();
  const asked = dateFrom(on.query.get("from"));
  const first = asked ?? (span === "day" ? today : today.subtract({ days: 3 }));
  const end = first.add({ days: DAYS[span] });
  return { span, zone, first, end, today, columns: span === "day" ? hoursOf(first, zone) : daysOf(first, end, zone) };
}

/** Years that a calendar is asked for; others are mistakes. */
function dateFrom(text: string | null): Temporal.PlainDate | undefined {
  if (!/^(19|20|21)\d\d-\d\d-\d\d$/.test(text ?? "")) return undefined;
  try {
    return Temporal.PlainDate.from(text as string);
  } catch {
    return undefined;
  }
}

function midnight(day: Temporal.PlainDate, zone: string): Temporal.Instant {
  return day.toZonedDateTime(zone).toInstant();
}

function hoursOf(day: Temporal.PlainDate, zone: string): CalendarColumn[] {
  const [end, columns] = [midnight(day.add({ days: 1 }), zone), [] as CalendarColumn[]];
  let from = midnight(day, zone);
  while (Temporal.Instant.compare(from, end) < 0) {
    const hour = from.add({ hours: 1 });
    const until = Temporal.Instant.compare(hour, end) < 0 ? hour : end;
    const time = from.toZonedDateTimeISO(zone).toPlainTime().toString();
    columns.push({ from, until, day, head: time.slice(0, time.slice(3, 5) === "00" ? 2 : 5) });
    from = until;
  }
  return columns;
}

function daysOf(first: Temporal.PlainDate, end: Temporal.PlainDate, zone: string): CalendarColumn[] {
  const columns: CalendarColumn[] = [];
  for (let day = first; Temporal.PlainDate.compare(day, end) < 0; day = day.add({ days: 1 })) {
    const next = day.add({ days: 1 });
    columns.push({ from: midnight(day, zone), until: midnight(next, zone), day, head: day.toString().slice(5) });
  }
  return columns;
}

/** Where its slots begin and end. */
export function boundsOf({ columns }: CalendarRange): { from: Temporal.Instant; until: Temporal.Instant } {
  return { from: (columns[0] as CalendarColumn).from, until: (columns.at(-1) as CalendarColumn).until };
}
