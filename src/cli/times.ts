/** Times as the terminal shows them: in the zone of who reads them, or in UTC with --utc; and lengths of time. */
import { durationText } from "../admin/assets/ago.js";

let in_utc = false;

/** Of the command that runs: whether it was given --utc. */
export function showInUtc(utc: boolean): void {
  in_utc = utc;
}

function zoned(at: Date): Temporal.ZonedDateTime {
  return at.toTemporalInstant().toZonedDateTimeISO(in_utc ? "UTC" : Temporal.Now.timeZoneId());
}

/** `2026-11-21 20:07:04+09`, or with Z in UTC: whoever copies it copies an instant, which every command takes as it stands. */
export function timeText(at: Date): string {
  const { offset } = zoned(at);
  return `${localText(at)}${offset === "+00:00" ? "Z" : offset.replace(/:00$/, "")}`;
}

/** As short as it can be: without the offset, and without what it has in common with now. */
export function shortTimeText(at: Date, now: Date): string {
  const [text, today] = [localText(at), localText(now)];
  if (text.slice(0, 10) === today.slice(0, 10)) return text.slice(11);
  return text.slice(0, 4) === today.slice(0, 4) ? text.slice(5) : text;
}

/** Instants within a sentence of the database's, which writes them in UTC. */
export function localTimes(sentence: string): string {
  return sentence.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (text) => {
    const at = new Date(text);
    return Number.isNaN(at.getTime()) ? text : timeText(at);
  });
}

/** Between two times; null where one is not there. */
export function betweenText(from: Date | null, to: Date | null): string | null {
  return from && to && durationText(Math.max(0, to.getTime() - from.getTime()));
}

function localText(at: Date): string {
  return zoned(at).toPlainDateTime().toString({ smallestUnit: "second" }).replace("T", " ");
}
