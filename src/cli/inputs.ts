/** What people type, as values; what cannot be one is refused with the way to write it. */
import { wallClock } from "../platform/timers.ts";
import { type Priority, priorityNumber } from "../job.ts";
import { isStorableDate } from "../postgres/connection.ts";
import type { RunFilter } from "../runs/run_filter.ts";
import { type RunState, STATES } from "../runs/run_states.ts";
import { CommandError, EXIT } from "../app/output.ts";

export function parseJson(option: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CommandError(
      `Cannot read ${option}: ${(error as Error).message}; give JSON, e.g. '{"name":"you"}'`,
      EXIT.usage,
    );
  }
}

export function priorityFrom(text: string): Priority {
  const priority = /^\d+$/.test(text) ? Number(text) : text as Priority;
  try {
    priorityNumber(priority);
    return priority;
  } catch (error) {
    throw new CommandError((error as Error).message, EXIT.usage);
  }
}

/**
 * An instant, or how far away it is: "90s", "10m", "2h", "3d". Without a sign that is the direction in which such times
 * usually are; "+10m" and "-10m" say it. @throws CommandError
 */
export function instantFrom(text: string, usually: "ahead" | "ago"): Date {
  const at = relativeFrom(text, usually) ?? absoluteFrom(text);
  if (at && isStorableDate(at)) return at;
  const example = "an instant of the years 1 to 9999, such as 2026-01-31T09:00:00Z";
  const meant = usually === "ahead" ? "from now" : "ago";
  throw new CommandError(
    `Cannot use "${text}": give ${example}, or how long ${meant}, such as "10m" (s, m, h, d)`,
    EXIT.usage,
  );
}

function relativeFrom(text: string, usually: "ahead" | "ago"): Date | undefined {
  const [, sign, count, unit] = /^([+-]?)(\d+)([smhd])$/.exec(text) ?? [];
  if (unit === undefined) return undefined;
  const ago = sign === "" ? usually === "ago" : sign === "-";
  return new Date(wallClock().getTime() + (ago ? -1 : 1) * Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS]);
}

function absoluteFrom(text: string): Date | undefined {
  try {
    return new Date(Temporal.Instant.from(text).epochMilliseconds);
  } catch {
    return undefined;
  }
}

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function idFrom(text: string, what = "an id"): number {
  const id = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
  if (id >= 1) return id;
  throw new CommandError(`Cannot use "${text}" as ${what}: give a whole number`, EXIT.usage);
}

function stateFrom(text: string): RunState {
  const state = STATES.find((one) => one === text.toUpperCase());
  if (state) return state;
  throw new CommandError(`Cannot use "${text}" as a state: give one of ${STATES.join(", ")}`, EXIT.usage);
}

const PARTS = "job, state, serial-key, node, ran-on, worker, error, bulk, since, until";

/** `["job=export", "state=FAILED,TIMED_OUT"]`: all of them must hold. @throws CommandError at what it does not know. */
export function filterFrom(parts: string[]): RunFilter {
  const filter: RunFilter = {};
  const seen = new Set<string>();
  for (const part of parts) {
    const [, name = "", value = ""] = /^([a-z-]+)=(.+)$/s.exec(part) ?? [];
    if (seen.has(name)) {
      throw new CommandError(`Cannot use --where ${part}: ${name} is given twice; give each name once`, EXIT.usage);
    }
    seen.add(name);
    if (name === "job") filter.job_name = value;
    else if (name === "state") filter.states = value.split(",").map(stateFrom);
    else if (name === "serial-key") filter.serial_key = value;
    else if (name === "node") filter.node = value;
    else if (name === "ran-on") filter.ran_on = value;
    else if (name === "worker") filter.worker_id = value;
    else if (name === "error") filter.error_name = value;
    else if (name === "bulk") filter.bulk_id = idFrom(value);
    else if (name === "since") filter.since = instantFrom(value, "ago");
    else if (name === "until") filter.until = instantFrom(value, "ago");
    else {throw new CommandError(
        `Cannot use --where ${part}: unknown condition; write name=value with one of ${PARTS}`,
        EXIT.usage,
      );}
  }
  return filter;
}
