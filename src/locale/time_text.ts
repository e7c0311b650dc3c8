/** Instants on somebody's wall clock. */

const formats = new Map<string, Intl.DateTimeFormat>();

const PARTS = { dateStyle: "short", timeStyle: "medium" } as const;

/** `2026-11-21 20:07:04` in a zone; also what a job's own zone makes of an instant. */
export function timeText(at: Date, zone: string): string {
  let format = formats.get(zone);
  if (!format) formats.set(zone, format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, ...PARTS }));
  return format.format(at);
}
