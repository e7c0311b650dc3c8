/** Times in the viewer's zone, with how long ago they were; lengths of time, which go on while something runs. */
import { agoText, durationText } from "../assets/ago.js";
import type { RequestContext } from "../request_context.ts";

const formats = new Map<string, Intl.DateTimeFormat>();

/** `2026-11-21 20:07:04` in a zone; also what a job's own zone makes of an instant. */
export function timeText(at: Date, zone: string): string {
  let format = formats.get(zone);
  if (!format) formats.set(zone, format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, ...PARTS }));
  return format.format(at);
}

const PARTS = { dateStyle: "short", timeStyle: "medium" } as const;

/** The year is left out while it is this one; the whole instant and its zone are in the tooltip. */
export function Time({ on, at, ago = true }: { on: RequestContext; at: Date | null; ago?: boolean }) {
  if (!at) return <Nothing />;
  const text = timeText(at, on.zone);
  const this_year = text.slice(0, 5) === timeText(on.now, on.zone).slice(0, 5);
  return (
    <time datetime={at.toISOString()} title={`${text} ${on.zone} (${at.toISOString()})`}>
      {this_year ? text.slice(5) : text}
      {ago && <small data-ago={at.getTime()}>{agoText(on.now.getTime() - at.getTime(), on.lang)}</small>}
    </time>
  );
}

/** Without an end it is still going on. */
export function Duration({ on, from, to }: { on: RequestContext; from: Date | null; to: Date | null }) {
  if (!from) return <Nothing />;
  if (to) return <span class="number">{durationText(to.getTime() - from.getTime())}</span>;
  const text = durationText(on.now.getTime() - from.getTime());
  return <span class="number going" data-since={from.getTime()}>{text}</span>;
}

export function Nothing() {
  return <span class="nothing">–</span>;
}
