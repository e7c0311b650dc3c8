/**
 * What the clocks on the wall of a time zone show. A zone's time is a row of stretches, each with one offset from UTC;
 * between two of them the clock jumps forward (a gap: times that do not exist) or back (an overlap: times that exist
 * twice). Built on Temporal; pure.
 *
 * Instants and wall times are both numbers of milliseconds here: an instant counts from 1970 in UTC, a wall time counts
 * from 1970 as the clock on the wall would. wall = instant + offset.
 */

export interface Stretch {
  /** First instant of the stretch; -Infinity: it has always been so. */
  from_ms: number;
  /** First instant after it; Infinity: it stays so. */
  until_ms: number;
  offset_ms: number;
  /** The offset of the stretch before and of the one after. */
  before_ms: number;
  after_ms: number;
}

/** The stretches of one zone; remembers the last one asked for, since calendars ask for neighbours. */
export class Zone {
  readonly timezone: string;
  #last: Stretch | undefined;

  constructor(timezone: string) {
    this.timezone = timezone;
  }

  /** The stretch that holds an instant. */
  at(instant_ms: number): Stretch {
    if (this.#last && instant_ms >= this.#last.from_ms && instant_ms < this.#last.until_ms) return this.#last;
    const offset_ms = this.#offset(instant_ms);
    // "previous" is strictly before, and a stretch begins at its transition: ask from one millisecond later.
    const from_ms = this.#transition(instant_ms + 1, "previous") ?? -Infinity;
    const until_ms = this.#transition(instant_ms, "next") ?? Infinity;
    this.#last = {
      from_ms,
      until_ms,
      offset_ms,
      before_ms: from_ms === -Infinity ? offset_ms : this.#offset(from_ms - 1),
      after_ms: until_ms === Infinity ? offset_ms : this.#offset(until_ms),
    };
    return this.#last;
  }

  #transition(instant_ms: number, direction: "next" | "previous"): number | undefined {
    return this.#zoned(instant_ms).getTimeZoneTransition(direction)?.epochMilliseconds;
  }

  #offset(instant_ms: number): number {
    return this.#zoned(instant_ms).offsetNanoseconds / 1e6;
  }

  #zoned(instant_ms: number): Temporal.ZonedDateTime {
    return Temporal.Instant.fromEpochMilliseconds(instant_ms).toZonedDateTimeISO(this.timezone);
  }
}

/** "2027-03-14 02:30" of a wall time; with seconds only where there are some. */
export function wallText(wall_ms: number): string {
  const text = Temporal.Instant.fromEpochMilliseconds(wall_ms).toString({ smallestUnit: "second" });
  return text.slice(0, 16).replace("T", " ") + (text.slice(16, 19) === ":00" ? "" : text.slice(16, 19));
}

/** The zone's name in the spelling of the IANA database, or undefined: there is none of that name. */
export function zoneNamed(text: string): string | undefined {
  if (!/^[A-Za-z]/.test(text)) return undefined; // "+09:00" is an offset, no zone
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(text).timeZoneId;
  } catch {
    return undefined;
  }
}

/** The zone that somebody who wrote `text` most likely meant. */
export function zoneLike(text: string): string | undefined {
  const plain = (name: string) => name.toLowerCase().replace(/[^a-z]/g, "");
  const wanted = plain(text.split("/").pop() ?? "");
  if (wanted.length < 3) return undefined;
  const names = Intl.supportedValuesOf("timeZone");
  const city = (name: string) => plain(name.split("/").pop() as string);
  return names.find((name) => city(name) === wanted) ?? names.find((name) => city(name).startsWith(wanted)) ??
    names.find((name) => wanted.startsWith(city(name)));
}
