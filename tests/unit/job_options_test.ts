/** The schema of a job's options: it agrees with the types of job files, fills every column, and the table in the docs is made from it. */
import assert from "node:assert/strict";
import type { z } from "zod";
import { optionDocs } from "../../src/dev/option_docs.ts";
import type { JobOptions, MessageSchema, Schedule, ScheduleValues } from "../../src/job.ts";
import { complaintLine } from "../../src/job_options/complaint.ts";
import { type jobSchema, readOptions } from "../../src/job_options/job_schema.ts";
import { defaultColumns, OPTION_LIST } from "../../src/job_options/option_list.ts";

/** With every option there, since one that is missing on one side only would still be assignable; and without `readonly`. */
type Whole<T> = T extends string | number | boolean | null | undefined | ((...args: never[]) => unknown) ? T
  : T extends readonly (infer Item)[] ? Whole<Item>[]
  : T extends object ? { -readonly [Key in keyof T]-?: Whole<Exclude<T[Key], undefined>> }
  : T;
type Same<One, Other> = [One] extends [Other] ? [Other] extends [One] ? true : false : false;

/** Both are given to a body as they are: what they say of themselves is no matter of a schema for JSON. */
type NotJson = "args" | "run" | "messages";
type InSchema = Whole<Omit<z.input<typeof jobSchema>, NotJson>>;
/** Its kinds exclude each other, which a rule of the schema says. */
type AnySchedule = ScheduleValues & Omit<Schedule, keyof ScheduleValues>;
type InTypes = Whole<
  & Omit<JobOptions<unknown, unknown, unknown>, NotJson | "schedule">
  & { schedule?: AnySchedule | readonly AnySchedule[] }
>;
type OptionsThatDiffer = {
  [Key in keyof InSchema | keyof InTypes]: Key extends keyof InSchema & keyof InTypes
    ? Same<InSchema[Key], InTypes[Key]> extends true ? never : Key
    : Key;
}[keyof InSchema | keyof InTypes];

Deno.test("the schema takes what the types of job files allow, option by option", () => {
  const differ: OptionsThatDiffer[] = []; // must be never[]: the line below does not compile otherwise
  const none: never[] = differ;
  assert.deepEqual(none, []);
  const message: Same<
    keyof NonNullable<z.input<typeof jobSchema>["messages"]>[string],
    keyof Extract<MessageSchema<unknown>, { schema: unknown }>
  > = true;
  const names: Same<keyof z.input<typeof jobSchema>, keyof JobOptions<unknown, unknown, unknown>> = true;
  assert(message && names);
});

Deno.test("every column of an option is named once, and has a value where a file leaves all options out", () => {
  const named = OPTION_LIST.flatMap(({ columns }) => columns);
  assert.deepEqual([...named].sort(), [...new Set(named)].sort());
  assert.deepEqual([...named].sort(), Object.keys(defaultColumns()).sort());
  assert(Object.values(defaultColumns()).every((value) => value !== undefined));
});

Deno.test("the table of options in docs/jobs.md is the one that the schema makes", () => {
  const { found, wanted } = optionDocs();
  assert.equal(found, wanted, "run `deno task docs:options`");
  for (const { name } of OPTION_LIST.filter(({ about }) => about !== "")) {
    assert(wanted.includes(`| \`${name}\``), name);
  }
});

Deno.test("everything that is wrong is told at once, each by its own name and with what to write", () => {
  const now = Temporal.Instant.from("2026-11-25T00:00:00Z");
  const read = readOptions({
    timeoutSecond: 5,
    priority: "first",
    retry: { max: -1, maximum: 1, on: { Timeout: 2 } },
    concurrency: { key: "{a" },
    rate: 5,
    onFailure: "blok",
    isolation: { reuse: 0 },
    permissions: { nett: [], net: ["https://a/"] },
    on: ["a", { type: "b", throttleSeconds: 1, debounceSeconds: 1 }],
    schedule: [{ dailyAt: "25:00" }, { cron: "0 0 30 2 *" }, {
      dailyAt: "02:30",
      exclude: ["02-31"],
      dst: { gap: "aftr" },
    }],
  }, now);
  assert(!read.ok);
  assert.deepEqual(read.complaints.map(complaintLine).sort(), [
    'concurrency.key has a brace without its other half: "{a"; write fields as "tenant:{tenant}"',
    "concurrency.limit is missing; say how many may run at once, e.g. limit: 3",
    "isolation.reuse must be a whole number from 1 to 1000000: current value is 0; give a whole number from 1 to 1000000",
    'onFailure must be one of "continue", "block": current value is "blok"; did you mean "block"?',
    "on[1].throttleSeconds stands beside debounceSeconds; choose one: throttle runs at the first event, debounce after the last",
    'permissions.net holds "https://a/"; give "host" or "host:port", without scheme and path; name what the body needs, e.g. ' +
    'permissions: { net: ["api.example.com:443"] }',
    "permissions.nett is unknown; known are net, read, write, env, sys, import, call, unsafe; name what the body needs, e.g. " +
    'permissions: { net: ["api.example.com:443"] }',
    'priority "first" is no priority; give a whole number from 0 (first) to 999 (last), or a name such as "admin.high" or "user.medium+5"',
    "rate must be an object, not 5; write it as { count: 5, seconds: 1 }",
    "retry.max must be a whole number from 0 to 1000: current value is -1; give a whole number from 0 to 1000, or leave it out for 0",
    "retry.maximum is no option that is known here; remove it; known are max, backoffSeconds, factor, jitter, on, interruptions",
    "retry.on.Timeout must be an object, not 2; write it as { max: 2 }",
    'schedule[0].dailyAt must be a time "HH:MM" from "00:00" to "23:59": current value is "25:00"; write it with four digits, such as "02:30"',
    'schedule[2].dst.gap must be one of "after", "before", "skip": current value is "aftr"; did you mean "after"?',
    'schedule[2].exclude[0]: "02-31" names a day that does not exist: "02-31"; correct the date',
    "timeoutSecond is no option that is known here; did you mean timeoutSeconds?",
  ]);
});

Deno.test("a schedule that never comes is told beside what is wrong with other options", () => {
  const now = Temporal.Instant.from("2026-11-25T00:00:00Z");
  const read = readOptions({ memoryMb: 1, schedule: { cron: "0 0 30 2 *" } }, now);
  assert.deepEqual(read.ok ? [] : read.complaints.map(({ key }) => key), ["memoryMb", "schedule.cron"]);
});
