/** Checks of the frames of steps (step_frames.ts), field by field: a body is not trusted. The worker's side. */
import { MOST_RESULT_BYTES } from "../frames.ts";
import type { AskFrame, EndedStepState, FromStepBody, OpenStepState, StepFrame, StepKind } from "./step_frames.ts";

const STEP_KINDS: StepKind[] = ["step", "sleep", "message", "event", "call", "start", "bulk", "mark", "undo"];
const OPEN_STATES: OpenStepState[] = ["BEGUN", "TRYING", "WAITING"];
const ENDED_STATES: EndedStepState[] = ["DONE", "FAILED", "TIMED_OUT", "CANCELED"];
const MOST_KEY_BYTES = 300;
const MOST_NAME_CHARS = 200;
const MOST_SUMMARY_CHARS = 8_000;
const MOST_LIMIT_MS = 3_660 * 86_400_000;
/** Of the year 9999. */
const LAST_UNIX_MS = 253_402_300_799_000;
/** What one frame brings besides a result. */
const MOST_SMALL_BYTES = 64 * 1024;
/** A result may be nested 100 deep; json_values.ts. */
const MOST_DEPTH = 110;
const MESSAGE_NAME = /^[a-z0-9][a-z0-9_.-]{0,63}$/;

type Fields = Record<string, unknown>;
type Check = (value: unknown) => boolean;

const isText = (most: number): Check => (value) => typeof value === "string" && value.length <= most;
const isBetween = (least: number, most: number): Check => (value) =>
  typeof value === "number" && value >= least && value <= most;
const isWhole = (least: number, most = 2 ** 31 - 1): Check => (value) =>
  Number.isSafeInteger(value) && isBetween(least, most)(value);
const isId = isWhole(1, Number.MAX_SAFE_INTEGER);
const isKey: Check = (value) =>
  typeof value === "string" && value !== "" && new TextEncoder().encode(value).length <= MOST_KEY_BYTES;
const isSmall: Check = (value) => JSON.stringify(value).length <= MOST_SMALL_BYTES;
const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isAny: Check = () => true;
const isFlag: Check = (value) => typeof value === "boolean";
const isOneOf = (words: readonly string[]): Check => (value) => words.includes(value as string);

/** Fields that a frame must have, and those that it may have. Those that are not named are dropped. */
interface Shape {
  needs: Record<string, Check>;
  may?: Record<string, Check>;
}

const CHILD: Shape = {
  needs: { job: isText(MOST_NAME_CHARS) },
  may: { args: isAny, options: (value) => isObject(value) && isSmall(value), items: isWhole(0) },
};
const PROMPT: Shape = {
  needs: {},
  may: {
    ask: isText(MOST_SUMMARY_CHARS),
    show: isAny,
    who: (value) => Array.isArray(value) && value.length <= 100 && value.every(isText(MOST_NAME_CHARS)),
    notBy: isText(MOST_NAME_CHARS),
    remind_seconds: isBetween(0, MOST_LIMIT_MS / 1000),
  },
};
const STEP: Shape = {
  needs: {
    n: isWhole(1),
    key: isKey,
    request: isOneOf(STEP_KINDS),
    state: isOneOf([...OPEN_STATES, ...ENDED_STATES]),
    tries: isWhole(1),
  },
  may: {
    seq: isWhole(1),
    result: isAny,
    error_name: isText(MOST_NAME_CHARS),
    error_summary: isText(MOST_SUMMARY_CHARS),
    took_ms: isBetween(0, MOST_LIMIT_MS),
    until_in_ms: isBetween(0, MOST_LIMIT_MS),
    until_unix_ms: isBetween(0, LAST_UNIX_MS),
    waits_for: isText(MOST_NAME_CHARS),
    where: (value) => isObject(value) && isSmall(value),
    prompt: (value) => isSmall(value) && picked(value, PROMPT) !== undefined,
    message_id: isId,
    has_undo: isFlag,
    child: (value) => picked(value, CHILD) !== undefined,
  },
};
const ASKS: Record<AskFrame["what"], Shape> = {
  callback: {
    needs: {
      name: (value) => typeof value === "string" && MESSAGE_NAME.test(value),
      expires_unix_ms: isBetween(0, LAST_UNIX_MS),
    },
  },
  arrivals: { needs: {} },
  restart: { needs: {} },
  items: { needs: { key: isKey, at: isWhole(0), items: Array.isArray } },
  results: { needs: { bulk_id: isId, after: isWhole(-1) } },
};
const WAITING: Shape = {
  needs: {
    soonest_in_ms: (value) => value === null || isBetween(0, MOST_LIMIT_MS)(value),
    handles: isFlag,
  },
};
const REPLAYING: Shape = { needs: { on: isFlag } };

/** A frame of these kinds with every field of the right type, and no other, or undefined. `text`: as it came. */
export function readStepFrame(frame: Fields, text: string): FromStepBody | undefined {
  if (!isStorable(text) || !isShallow(frame, MOST_DEPTH)) return undefined;
  switch (frame.kind) {
    case "step": {
      const step = picked(frame, STEP) as StepFrame | undefined;
      return step && isSound(step) ? { ...step, kind: "step" } : undefined;
    }
    case "ask": {
      if (!Object.hasOwn(ASKS, String(frame.what))) return undefined;
      const { needs } = ASKS[frame.what as AskFrame["what"]];
      const ask = picked(frame, { needs: { n: isWhole(1), what: isAny, ...needs } });
      return ask && { kind: "ask", ...ask } as AskFrame;
    }
    case "waiting": {
      const waiting = picked(frame, WAITING);
      return waiting && { kind: "waiting", ...waiting } as FromStepBody;
    }
    case "replaying":
      return picked(frame, REPLAYING) && { kind: "replaying", on: frame.on === true };
  }
}

function picked(value: unknown, { needs, may = {} }: Shape): Fields | undefined {
  if (!isObject(value)) return undefined;
  const fields: Fields = {};
  for (const [name, check] of Object.entries(needs)) {
    if (!Object.hasOwn(value, name) || !check(value[name])) return undefined;
    fields[name] = value[name];
  }
  for (const [name, check] of Object.entries(may)) {
    if (!Object.hasOwn(value, name)) continue;
    if (!check(value[name])) return undefined;
    fields[name] = value[name];
  }
  return fields;
}

/** What the table holds true of its rows. */
function isSound({ state, seq, request, waits_for, result, child }: StepFrame): boolean {
  const is_open = (OPEN_STATES as string[]).includes(state);
  if (is_open ? seq !== undefined : seq === undefined && state !== "CANCELED") return false;
  if (request === "message" && state === "WAITING" && !MESSAGE_NAME.test(waits_for ?? "")) return false;
  if (request === "event" && state === "WAITING" && waits_for === undefined) return false;
  const begins = ["call", "bulk"].includes(request) && state === "WAITING" || request === "start" && state === "DONE";
  if ((child !== undefined) !== begins) return false;
  return result === undefined || new TextEncoder().encode(JSON.stringify(result)).length <= MOST_RESULT_BYTES;
}

/** Postgres' jsonb takes neither \u0000 nor half a surrogate pair; one such frame would be refused with all that share its statement. */
function isStorable(text: string): boolean {
  return !/\\u0000|\\ud[89a-f]/i.test(text.replaceAll("\\\\", ""));
}

/** What is nested deeper would be too much for JSON.stringify, or for Postgres. */
function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((inner) => isShallow(inner, depth - 1));
}
