/** What a job file says of how its runs wait for each other: concurrency, rate, resources, and what a failure stops. */
import type { Json } from "../job.ts";
import type { DefinitionSetting } from "../definitions/definition_rows.ts";
import { isPlainObject, isText, Options } from "./option_reader.ts";
import { shown, wordLike } from "../platform/shown.ts";
import type { Complaint } from "./problem.ts";

export type FlowColumns = Pick<
  DefinitionSetting,
  | "concurrency_policy"
  | "concurrency_limit"
  | "concurrency_key"
  | "rate_count"
  | "rate_seconds"
  | "resources"
  | "on_failure"
>;

const POLICIES = { allow: "allow", forbid: "forbid", replace: "replace", queueOne: "queue_one" } as const;
export const POLICY_NAMES = ["allow", "forbid", "replace", "queueOne"] as const;
const MOST = 1_000_000;

export function flowOf(options: Options, complaints: Complaint[]): FlowColumns {
  return {
    ...concurrencyOf(options, complaints),
    ...rateOf(options, complaints),
    resources: resourcesOf(options),
    on_failure: onFailureOf(options),
  };
}

type Concurrency = Pick<FlowColumns, "concurrency_policy" | "concurrency_limit" | "concurrency_key">;

function concurrencyOf(options: Options, complaints: Complaint[]): Concurrency {
  const given = options.raw("concurrency");
  if (typeof given === "number") {
    const reason = `must be one of ${POLICY_NAMES.map(shown).join(", ")}, or an object, not ${given}`;
    options.complain("concurrency", reason, `write it as { limit: ${given} }`);
    return { concurrency_policy: "allow", concurrency_limit: null, concurrency_key: null };
  }
  if (!isPlainObject(given)) {
    const policy = POLICIES[options.oneOf("concurrency", POLICY_NAMES, "allow")];
    return { concurrency_policy: policy, concurrency_limit: null, concurrency_key: null };
  }
  const one = new Options(given, complaints, "concurrency.");
  one.onlyKnows(["limit", "key"]);
  if (!one.has("limit")) {
    one.complain("limit", "is missing", "say how many may run at once, e.g. limit: 3", { code: "missing" });
  }
  return {
    concurrency_policy: "allow",
    concurrency_limit: one.number("limit", { least: 1, most: MOST, default: 1, whole: true }),
    concurrency_key: templateOf(one, "key"),
  };
}

function rateOf(options: Options, complaints: Complaint[]): Pick<FlowColumns, "rate_count" | "rate_seconds"> {
  if (!options.has("rate")) return { rate_count: null, rate_seconds: null };
  const given = options.raw("rate");
  const rate = new Options(
    given,
    complaints,
    "rate.",
    typeof given === "number" ? { count: given, seconds: 1 } : undefined,
  );
  rate.onlyKnows(["count", "seconds"]);
  if (isPlainObject(given) && !rate.has("count")) {
    rate.complain("count", "is missing", "say how many may start, e.g. count: 60", { code: "missing" });
  }
  return {
    rate_count: rate.number("count", { least: 1, most: MOST, default: 1, whole: true }),
    rate_seconds: rate.number("seconds", { least: 0.001, most: 604_800, default: 1 }),
  };
}

function resourcesOf(options: Options): Record<string, number> {
  const given = options.raw("resources") ?? {};
  const entries = isPlainObject(given) ? Object.entries(given) : [];
  const wrong = entries.find(([name, n]) =>
    !isText(name, 100) || !Number.isInteger(n) || Number(n) < 1 || Number(n) > MOST
  );
  if (isPlainObject(given) && !wrong) return given as Record<string, number>;
  options.complain(
    "resources",
    `must say how many of what a run takes, whole numbers from 1: found ${
      shown(wrong ? Object.fromEntries([wrong]) : given)
    }`,
    "write resources: { license: 1 }",
  );
  return {};
}

function onFailureOf(options: Options): "continue" | "block" {
  const word = options.oneOf("onFailure", ["continue", "block"], "continue");
  const keyed = options.has("serialKey") ||
    (options.has("concurrency") && typeof options.raw("concurrency") === "string");
  if (word === "block" && !keyed) {
    options.complain(
      "onFailure",
      'is "block", and there is no line of runs that it could block',
      'give the job a serialKey, e.g. serialKey: "device:{device}"',
    );
  }
  return word;
}

/** A text with fields in it, "tenant:{tenant}". */
export function templateOf(options: Options, key: string): string | null {
  const text = options.text(key, 200);
  if (text === undefined) return null;
  if (/[{}]/.test(text.replace(/\{[^{}]+\}/g, ""))) {
    options.complain(key, `has a brace without its other half: ${shown(text)}`, 'write fields as "tenant:{tenant}"', {
      code: "braces",
    });
  }
  return text;
}

/**
 * Fields that a job names and its args do not have. A key would be the same for all runs, so that they wait for each other, and of
 * events that are debounced by it one run would be left. A schema that lets further fields through may have them.
 */
export function unknownFields(job: DefinitionSetting): string[] {
  const { properties, additionalProperties } = (job.args_schema ?? {}) as { [key: string]: Json | undefined };
  if (!isPlainObject(properties) || (additionalProperties ?? false) !== false) return [];
  const known = Object.keys(properties);
  const rules = Object.entries(job.event_rules);
  const named: [where: string, fields: string[]][] = [
    ["serialKey", fieldsIn(job.serial_key)],
    ["concurrency.key", fieldsIn(job.concurrency_key)],
    ["node", fieldsIn(job.node)],
    ...rules.map(([type, { key }]): [string, string[]] => [`the key on "${type}"`, fieldsIn(key ?? null)]),
    ...rules.map(([type, { where }]): [string, string[]] => [`where on "${type}"`, Object.keys(where ?? {})]),
  ];
  return named.flatMap(([where, fields]) =>
    fields.filter((field) => !known.includes(field.split(".")[0]!)).map((field) => {
      const like = wordLike(field, known);
      const hint = like ? `; did you mean {${like}}?` : "";
      return `${where} names {${field}}, which the schema of args does not have: it is empty where nobody gives it${hint}`;
    })
  );
}

function fieldsIn(template: string | null): string[] {
  return [...(template ?? "").matchAll(/\{([^{}]+)\}/g)].map(([, field]) => field!);
}
