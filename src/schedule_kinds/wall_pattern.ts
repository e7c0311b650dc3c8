/**
 * Patterns of wall times: which readings of a clock on the wall a schedule names. No zones here; schedules/calendar.ts turns
 * wall times into instants.
 */

export interface WallPattern {
  /** The first wall time after this one that the pattern names, in milliseconds; null: there is none. */
  next(wall_ms: number): number | null;
  /**
   * Whether it names times of day ("at 02:30"), which a person expects once a day, also on the night when the clock
   * changes. Otherwise it names readings of the clock ("every hour at :15"), and runs whenever the clock shows one.
   */
  time_of_day: boolean;
}

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

/** The first instant or wall time after `ms` that is a whole number of periods, plus a phase, from 1970. */
export function nextInGrid(ms: number, period_ms: number, phase_ms = 0): number {
  return (Math.floor((ms - phase_ms) / period_ms) + 1) * period_ms + phase_ms;
}
