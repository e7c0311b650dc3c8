/** Times of day as "HH:MM", from "00:00" to "23:59". */
import { shown } from "../platform/shown.ts";
import type { ParsedValue } from "./kind.ts";
import { HOUR_MS, MINUTE_MS } from "./wall_pattern.ts";

const TIME_OF_DAY = /^([01]\d|2[0-3]):[0-5]\d$/;

export function isTimeOfDay(value: unknown): value is string {
  return typeof value === "string" && TIME_OF_DAY.test(value);
}

export function timeOfDay(value: unknown): ParsedValue {
  if (isTimeOfDay(value)) return { value };
  const [, hours, minutes] = /^(\d):([0-5]\d)$/.exec(String(value)) ?? [];
  return {
    reason: `must be a time "HH:MM" from "00:00" to "23:59": current value is ${shown(value)}`,
    fix: hours === undefined ? 'write it with four digits, such as "02:30"' : `write "0${hours}:${minutes}"`,
    says: { code: "time_of_day" },
  };
}

/** Since midnight. */
export function millisecondsOf(hh_mm: string): number {
  const [hours, minutes] = hh_mm.split(":").map(Number) as [number, number];
  return hours * HOUR_MS + minutes * MINUTE_MS;
}
