/**
 * What an operator can do, each act declared once: its name, what it takes, who may, whether it needs a reason, what stands in the
 * audit of it, and the function that does it. Commands, routes of the API and forms of pages are made from the declaration, and
 * `perform` is their only way to the function. How to add one: CONTRIBUTING.md.
 */
import { z } from "zod";
import type { Config } from "../platform/config.ts";
import type { Scope } from "../access/api_tokens.ts";
import type { Actor } from "../access/audit.ts";
import type { UserRole } from "../access/users.ts";
import { isStorableDate, type Sql } from "../postgres/connection.ts";
import { PRIORITIES, type Priority, priorityNumber, type SchemaIssue } from "../job.ts";
import { type ArgsIssue, Refused } from "./args.ts";

export type RedisPlace = Pick<Config, "redis_url" | "redis_prefix">;

/** What an act works with. */
export interface ActionScope {
  sql: Sql;
  /** For the audit. */
  by: Actor;
  /** To tell workers at once; undefined: they learn of it from Postgres, a little later. */
  redis: RedisPlace | undefined;
  /** What else the caller may do. */
  allows(scope: Scope): boolean;
}

export interface ActionSpec<Input extends z.ZodObject, Result> {
  /** Such as "queue.pause". */
  name: string;
  /** What it does, as the help of the command and the document of the API say it: "pause a job, ...". */
  does: string;
  /** What a token must be good for; a user of the page needs the role of the same reach. */
  needs: Scope;
  /** `required`: it is refused without one. */
  reason: "optional" | "required";
  /** Fields by the names of the columns. They are described here, and nowhere else. */
  input: Input;
  /** The actions that its audit rows may have. */
  audit: readonly [string, ...string[]];
  /** It reaches far: a command asks for --yes, and a page shows first what it would do. */
  confirm?: true;
  run(on: ActionScope, input: z.output<Input>): Promise<Result>;
}

export type Action<Input extends z.ZodObject = z.ZodObject, Result = unknown> = Readonly<ActionSpec<Input, Result>>;

export function action<Input extends z.ZodObject, Result>(spec: ActionSpec<Input, Result>): Action<Input, Result> {
  return spec;
}

/** Who asks, and from where. */
export interface ActionCaller {
  sql: Sql;
  /** For the audit, such as "user:ann". */
  actor: string;
  allows(scope: Scope): boolean;
  /** Empty or left out: none was given, and `unreasoned` stands in the audit. */
  reason?: string;
  unreasoned: string;
  redis?: RedisPlace;
}

/** What a token of this scope may, a user of this role may. */
export const ROLE_OF: Record<Scope, UserRole> = {
  read: "viewer",
  emit: "operator",
  operate: "operator",
  admin: "admin",
};

export const LONGEST_REASON = 500;

/** Does it, after everything has been checked that can be without looking. @throws Refused */
export async function perform<Input extends z.ZodObject, Result>(
  act: Action<Input, Result>,
  caller: ActionCaller,
  given: z.input<Input>,
): Promise<Result> {
  const { does, needs, name } = act;
  const what = does.split(/[:;,(]/)[0];
  if (!caller.allows(needs)) {
    throw new Refused(`Cannot ${what}: it needs "${needs}"; ask an admin for it`, {
      why: "forbidden",
      says: { code: "forbidden", needs },
    });
  }
  const reason = (caller.reason ?? "").trim();
  if (reason === "" && act.reason === "required") {
    throw new Refused(`Cannot ${what}: it needs a reason, which is kept in the audit; give one`, {
      says: { code: "reason_needed" },
    });
  }
  if (reason.length > LONGEST_REASON) {
    throw new Refused(`Cannot ${what}: the reason has ${reason.length} characters; give at most ${LONGEST_REASON}`, {
      says: { code: "length", option: "reason", least: 1, most: LONGEST_REASON },
    });
  }
  const read = act.input.safeParse(given);
  if (!read.success) throw unfit(name, `${what}`, read.error.issues);
  const by = { actor: caller.actor, reason: reason || caller.unreasoned };
  return await act.run(
    { sql: caller.sql, by, redis: caller.redis, allows: (scope) => caller.allows(scope) },
    read.data,
  );
}

function unfit(name: string, what: string, found: readonly z.core.$ZodIssue[]): Refused {
  const issues: ArgsIssue[] = found.flatMap((issue) => {
    const path = issue.path.map(String);
    if (issue.code !== "unrecognized_keys") return [{ path: path.join("."), message: issue.message }];
    return issue.keys.map((key) => ({ path: [...path, key].join("."), message: "there is no such field" }));
  });
  const text = issues.map(({ path, message }) => path ? `${path}: ${message}` : message).join("; ");
  return new Refused(`Cannot ${what}: ${text}; see the fields of ${name} in docs/api.md`, {
    issues,
    says: { code: "input_unfit", found: found as readonly SchemaIssue[] },
  });
}

/** A text that Postgres can hold, also within JSON: its limit is ours, and it has no NUL and no half of a character. */
export function text(most: number) {
  // deno-lint-ignore no-control-regex
  return z.string().min(1).max(most).regex(/^[^\u0000]*$/, "must not hold \\u0000")
    .refine((given) => given.isWellFormed(), "must not hold half of a character");
}

export function whole(least: number, most: number) {
  const rule = `must be a whole number from ${least} to ${most}`;
  return z.int(rule).min(least, rule).max(most, rule);
}

export const jobName = text(500).meta({
  description: "The name of its file in jobs/, without .ts",
  example: "export_devices",
});

export const rowId = z.int().min(1).meta({ example: 812 });

/** Any JSON; what of it cannot be stored, the act itself says. */
export const anyJson = z.unknown().meta({ description: "Any JSON" });

export const instant = z.date().refine(isStorableDate, "must be in the years 1 to 9999, in UTC as well");

/** 0 to 999, or a name of it. */
export const priority = z.custom<Priority>((given) => {
  try {
    priorityNumber(given as Priority);
    return true;
  } catch {
    return false;
  }
}, `must be a whole number from 0 to 999, lower first, or a name such as ${Object.keys(PRIORITIES)[0]}`);
