/**
 * The child side of `describe`: loads a job file without any permission and says, in one frame of plain data, what it
 * declares and whether the args that its schedules give, or none at all, fit its schema. Its `run` is not called.
 */
import type { JobOptions, Json, Schema } from "../../job.ts";
import { BodyChannel } from "./channel.ts";
import type { BodyError } from "../frames.ts";
import type { LoadModule } from "./host.ts";
import { issuesText } from "./issues.ts";
import { whyNotJson } from "../json_values.ts";
import { describeError } from "./thrown.ts";
import { neverJsonIn, sayNoMore } from "../zod_args.ts";

/** What a job file declares, as plain data. */
export interface Description {
  /** The options as written, without `run` and `args`. */
  options: Json;
  /** JSON Schema (draft 2020-12) of the args, when the schema's library can make one. */
  args_schema: Json | null;
  has_args: boolean;
  /** Why `{}` is no args for it. */
  default_args_problem?: string;
  /** Schedules, by their place from 0, whose args (default `{}`) do not fit. */
  schedule_args_problems: { place: number; problem: string }[];
}

/** What the file is instead of a job. */
export interface DescribeRefusal {
  kind: "no_default" | "not_a_job" | "invalid";
  reason: string;
}

export async function describeHost(load: LoadModule): Promise<void> {
  const channel = new BodyChannel();
  const fail = (thrown: unknown, name?: string): never => {
    const error: BodyError = { ...describeError(thrown), phase: "load" };
    return channel.fail(name ? { ...error, name } : error);
  };
  globalThis.addEventListener("unhandledrejection", (event) => fail(event.reason));
  globalThis.addEventListener("error", (event) => fail(event.error));
  let over = false;
  globalThis.addEventListener("unload", () => {
    if (!over) channel.send({ kind: "exiting", code: Deno.exitCode });
  });
  globalThis.addEventListener("beforeunload", () => {
    over = true;
    fail("the check of its args by its schema never settled", "NeverSettled");
  });
  let answer: Description | DescribeRefusal;
  try {
    answer = await describe(await load());
  } catch (error) {
    over = true;
    fail(error);
    return;
  }
  over = true;
  channel.send({ kind: "described", described: answer as unknown as Json });
  channel.leave(0);
}

async function describe(module: Record<string, unknown>): Promise<Description | DescribeRefusal> {
  if (!("default" in module)) return { kind: "no_default", reason: "the file has no default export" };
  const job = module.default as { options?: Partial<JobOptions<unknown, unknown, unknown>> } | null | undefined;
  if (typeof job?.options !== "object" || job.options === null) {
    const reason = `the default export is not a job but ${nameOfKind(module.default)}`;
    return { kind: "not_a_job", reason };
  }
  const { run, args, messages, ...options } = job.options as typeof job.options & { messages?: unknown };
  if (typeof run !== "function") return { kind: "invalid", reason: `run must be a function: it is ${nameOfKind(run)}` };
  const problem = whyNotJson(options, "options");
  if (problem) return { kind: "invalid", reason: problem.replace(/^options\.?/, "") };
  if (args !== undefined && typeof args?.["~standard"]?.validate !== "function") {
    const reason =
      "args is no schema: give one of a Standard Schema library such as zod, e.g. z.object({ tenant: z.string() })";
    return { kind: "invalid", reason };
  }
  const never = neverJsonIn(args);
  if (never) return { kind: "invalid", reason: `${never}; args are JSON, so it would refuse every run` };
  const sent = messages === undefined ? {} : declaredMessages(messages);
  if ("reason" in sent) return sent as DescribeRefusal;
  const plain = JSON.parse(JSON.stringify({ ...options, ...sent }));
  return {
    options: plain,
    args_schema: jsonSchemaOf(args),
    has_args: args !== undefined,
    ...await argsProblems(plain, args),
  };
}

/** Each message with its schema as JSON Schema (null: its library makes none); what else stands beside that is checked by the sync. */
function declaredMessages(messages: unknown): { messages: unknown } | DescribeRefusal {
  if (typeof messages !== "object" || messages === null || Array.isArray(messages)) {
    return {
      kind: "invalid",
      reason: `messages must be an object of names and schemas: it is ${nameOfKind(messages)}`,
    };
  }
  const declared: [string, unknown][] = [];
  for (const [name, given] of Object.entries(messages as Record<string, Schema | { schema: Schema } | undefined>)) {
    const { schema, ...more } = given && "~standard" in given ? { schema: given } : { ...given };
    const reason = whyNoSchema(schema, `messages.${name}`) ?? whyNotJson(more, `messages.${name}`);
    if (reason) return { kind: "invalid", reason };
    declared.push([name, { ...more, schema: jsonSchemaOf(schema) }]);
  }
  return { messages: Object.fromEntries(declared) };
}

function whyNoSchema(schema: Schema | undefined, name: string): string | undefined {
  if (typeof schema?.["~standard"]?.validate !== "function") {
    return `${name} is no schema: give one of a Standard Schema library such as zod, e.g. z.object({ ok: z.boolean() }), or { schema, from: "emit" }`;
  }
  const never = neverJsonIn(schema, name);
  return never && `${never}; messages are JSON, so it would refuse every one`;
}

async function argsProblems(
  options: { schedule?: unknown },
  schema: Schema | undefined,
): Promise<Pick<Description, "default_args_problem" | "schedule_args_problems">> {
  if (!schema) return { schedule_args_problems: [] };
  const default_args_problem = await problemWith({}, schema);
  const schedule_args_problems: Description["schedule_args_problems"] = [];
  for (const [place, schedule] of ([options.schedule ?? []].flat() as Record<string, unknown>[]).entries()) {
    if (typeof schedule !== "object" || schedule === null) continue;
    const problem = await problemWith(schedule.args ?? {}, schema);
    if (problem) schedule_args_problems.push({ place, problem });
  }
  return { ...(default_args_problem ? { default_args_problem } : {}), schedule_args_problems };
}

/** A schema that throws, perhaps for want of a permission, has not refused: only its issues are problems. */
async function problemWith(value: unknown, schema: Schema): Promise<string | undefined> {
  try {
    const answer = await schema["~standard"].validate(structuredClone(value));
    return answer.issues ? issuesText(answer.issues) : undefined;
  } catch {
    return undefined;
  }
}

/** By the JSON Schema part of Standard Schema. Null: the library has none, or the schema cannot be said in it. */
function jsonSchemaOf(schema: Schema | undefined): Json | null {
  type Speaking = { jsonSchema?: { input(options: { target: string; libraryOptions: unknown }): unknown } };
  const libraryOptions = { override: sayNoMore, unrepresentable: "any" }; // or one date would leave all its neighbours unsaid
  try {
    const json = (schema?.["~standard"] as Speaking | undefined)?.jsonSchema?.input({
      target: "draft-2020-12",
      libraryOptions,
    });
    return json === undefined || whyNotJson(json, "schema") ? null : json as Json;
  } catch {
    return null;
  }
}

function nameOfKind(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value)
    ? "an array"
    : typeof value === "undefined"
    ? "undefined"
    : `a value of type ${typeof value}`;
}
