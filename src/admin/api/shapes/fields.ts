/** The words that requests and answers share: ids, times, texts, filters, pages. Fields are named as the columns are. */
import { z } from "@hono/zod-openapi";
import { priorityNumber } from "../../../job.ts";
import { isStorableDate } from "../../../postgres/connection.ts";
import type { RunFilter } from "../../../runs/run_filter.ts";
import { STATES } from "../../../runs/run_states.ts";

export { z };

/** A text that Postgres can hold, also within JSON: its limit is ours, and it has no NUL and no half of a character. */
export function text(most: number) {
  // deno-lint-ignore no-control-regex
  return z.string().min(1).max(most).regex(/^[^\u0000]*$/, "must not hold \\u0000")
    .refine((given) => given.isWellFormed(), "must not hold half of a character");
}

export const id = z.int().min(1).openapi({ example: 812 });
/** In a path or query, where everything is text. */
export const idText = z.string().regex(/^[1-9]\d{0,14}$/, "must be a whole number of at least 1").transform(Number)
  .openapi({ type: "integer", example: 812 });
export const count = z.int().min(0);
export const time = z.iso.datetime().openapi({ description: "RFC 3339, UTC", example: "2026-01-31T09:00:00.000Z" });
export const timeIn = z.iso.datetime({ offset: true }).transform((at) => new Date(at))
  .refine(isStorableDate, "must be in the years 1 to 9999, in UTC as well")
  .openapi({ type: "string", format: "date-time", description: "RFC 3339", example: "2026-01-31T09:00:00Z" });
/** Any JSON. */
export const json = z.unknown().openapi({ description: "Any JSON" });
export const jobName = z.string().regex(/^[a-z0-9][a-z0-9_.-]{0,63}$/, "must be a job's name, such as export_devices")
  .openapi({ description: "The name of its file in jobs/, without .ts", example: "export_devices" });
export const State = z.enum(STATES).openapi("RunState");
export const Source = z.enum(["schedule", "event", "enqueue", "bulk"]);

export const reason = text(500).optional().openapi({
  description: "Why: kept in the audit",
  example: "license server down",
});
const Message = z.object({ code: z.string(), params: z.record(z.string(), z.unknown()) }).openapi("Message", {
  description: "What the engine says, for programs: a code, and what it is about",
  example: { code: "runs.end.late", params: { seconds: 3600 } },
});

/** A text of a person or a job; or one of the engine, whose code and params then stand beside it. */
export function said<Name extends string>(name: Name, text: z.ZodType = z.string().nullable()) {
  return { [name]: text, [`${name}_message`]: Message.optional() } as Record<Name | `${Name}_message`, z.ZodType>;
}

/** What was taken, and is most likely a mistake. Left out when there is none. */
export const warnings = z.array(z.string()).optional().openapi({
  description: "Such as keys of args that the job's schema does not have; left out when there are none",
  example: ['unknown key "nmae": did you mean "name"?'],
});

/** What is answered of them. */
export function warned(texts: readonly string[]): { warnings?: string[] } {
  return texts.length > 0 ? { warnings: [...texts] } : {};
}

export const priority = z.int().min(0).max(999).openapi({ description: "Lower first", example: 240 });
export const priorityIn = z.union([priority, text(40)]).transform((given, context) => {
  try {
    return priorityNumber(given as number);
  } catch (error) {
    context.issues.push({ code: "custom", message: (error as Error).message, input: given });
    return z.NEVER;
  }
}).openapi({
  description: "0 to 999, lower first; or a name such as admin.high, user.low, system.medium+5",
  example: "admin.high",
});

export const limit = z.string().regex(/^\d{1,4}$/).transform(Number).pipe(z.int().min(1).max(500)).default(50)
  .openapi({ type: "integer", minimum: 1, maximum: 500, default: 50, description: "So many at most" });

/** Codes and params: runs/wait_reason.ts. */
export const Waits = z.object({ code: z.string(), params: z.record(z.string(), z.unknown()) }).nullable().openapi(
  "Waits",
  {
    description: "The reason for programs: a code, and what it is about",
    example: { code: "behind_run", params: { run_id: 811, serial_key: "device:7" } },
  },
);

/** One page, the newest first unless said otherwise. */
export function page<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    next: z.string().nullable().openapi({
      description: "Give it as `after` to get the next page; null: this is the last",
      example: "763",
    }),
  });
}

/** Of `most + 1` rows that were read: the page, and where the next one begins. */
export function pageOf<Row>(rows: Row[], most: number, key: (row: Row) => string | number) {
  const items = rows.slice(0, most);
  const last = items.at(-1);
  return { items, next: rows.length > most && last !== undefined ? String(key(last)) : null };
}

const states = z.string().transform((given) => given.split(",")).pipe(z.array(State))
  .openapi({
    type: "string",
    description: `One or more, with commas: ${STATES.join(", ")}`,
    example: "FAILED,TIMED_OUT",
  });

const FILTER = {
  job_name: jobName.optional(),
  serial_key: text(500).optional().openapi({ example: "device:7" }),
  node: text(500).optional().openapi({ description: "Where it must run: a node's name, or labels such as gpu=a100" }),
  ran_on: text(200).optional().openapi({ description: "The node of the worker that it was given to last" }),
  worker_id: text(200).optional().openapi({ description: "The worker that it was given to last" }),
  error_name: text(200).optional().openapi({ example: "ConnectError" }),
  since: timeIn.optional().openapi({ description: "Created then or later, RFC 3339" }),
  until: timeIn.optional().openapi({ description: "Created before, RFC 3339" }),
};

/** In a query: all of them must hold. */
export const filterInQuery = { ...FILTER, state: states.optional(), bulk_id: idText.optional() };

/** In a body; at least one must be given, so that nobody means all runs by mistake. */
export const FilterInBody = z.strictObject({
  id: id.optional(),
  ...FILTER,
  state: z.array(State).min(1).optional(),
  bulk_id: id.optional(),
}).refine((given) => Object.values(given).some((value) => value !== undefined), "must hold at least one condition")
  .openapi("RunFilter", { description: "All of them must hold", example: { job_name: "wipe", state: ["FAILED"] } });

export function filterFrom({ state, ...rest }: { state?: RunFilter["states"] } & RunFilter): RunFilter {
  return { ...rest, states: state };
}

export const idempotencyKey = z.object({
  "Idempotency-Key": text(200).optional().openapi({
    description: "Asking again with the same key does nothing, and answers as the first time",
    example: "acme-2026-11",
  }),
});
