/** Args against the schema of their job as it was last synced: refused at the door what would fail at the worker. */
import { schemaJson, unfitIn } from "../definitions/args_schema.ts";
import { wordLike } from "../platform/shown.ts";
import type { UnknownKeys } from "../sync/unknown_keys.ts";
import type { Db } from "../postgres/connection.ts";
import { readDefinitions, readDemands } from "../definitions/definition_rows.ts";
import { doNotFit, EnqueueError } from "./args.ts";

/** Throws an EnqueueError when args do not fit; `which` such as "the args of item 7", where they are one of many that `item`. */
export type ArgsCheck = (args: unknown, of?: { which: string; item?: number }) => void;

/** Reads the schema once and gives the check; `verb` such as "enqueue", for its messages. @throws EnqueueError when there is no such job. */
export async function argsCheck(sql: Db, name: string, verb: string, unknown?: UnknownKeys): Promise<ArgsCheck> {
  const demands = await readDemands(sql, name);
  if (!demands) throw await noSuchJob(sql, name, verb);
  return checkBy(demands.args_schema, name, verb, unknown);
}

export async function checkArgs(sql: Db, name: string, args: unknown, unknown?: UnknownKeys): Promise<void> {
  (await argsCheck(sql, name, "run", unknown))(args);
}

/** `args_schema`: JSON Schema as text; null: anything fits. `unknown` takes down what it does not name. */
export function checkBy(args_schema: string | null, name: string, verb: string, unknown?: UnknownKeys): ArgsCheck {
  return (args, { which, item } = { which: "its args" }) => {
    const unfit = unfitIn(args_schema, args);
    if (unfit) throw doNotFit({ what: `${verb} "${name}": ${which}`, item }, unfit);
    unknown?.look(schemaJson(args_schema), args);
  };
}

/** What says that nothing can be made of a job that takes no runs, and which do; `verb` such as "enqueue". */
export async function noSuchJob(sql: Db, name: string, verb: string): Promise<EnqueueError> {
  const known = (await readDefinitions(sql)).filter((one) => !one.removed_at).map((one) => one.name);
  const like = wordLike(name, known);
  const list = known.length > 0 ? `known are ${known.slice(0, MOST_NAMED).join(", ")}` : "none is synced yet";
  const more = known.length > MOST_NAMED ? ` and ${known.length - MOST_NAMED} more` : "";
  const hint = like ? `did you mean "${like}"? ` : "";
  return new EnqueueError(
    `Cannot ${verb} "${name}": no such job, ${list}${more}; ${hint}a new one is added by a file in jobs/ and \`deno task sync\``,
    { why: "not_found", says: { code: "job_gone", job_name: name } },
  );
}

const MOST_NAMED = 20;
