/** Args against the schema of their job as it was last synced: refused at the door what would fail at the worker. */
import { z } from "zod";
import type { Db } from "../store/db.ts";
import { readDefinition, readDefinitions } from "../store/definitions.ts";
import { doNotFit, EnqueueError } from "./args.ts";

/** Reads the schema once and gives the check, which throws an EnqueueError; `verb` such as "run", for its messages. */
export async function argsCheck(
  sql: Db,
  name: string,
  verb: string,
): Promise<(args: unknown, which?: string) => void> {
  const definition = await readDefinition(sql, name);
  if (!definition || definition.removed_at) {
    const known = (await readDefinitions(sql)).filter((one) => !one.removed_at).map((one) => one.name);
    const list = known.length > 0 ? `known are ${known.slice(0, MOST_NAMED).join(", ")}` : "none is synced yet";
    const more = known.length > MOST_NAMED ? ` and ${known.length - MOST_NAMED} more` : "";
    throw new EnqueueError(
      `Cannot ${verb} "${name}": no such job, ${list}${more}; a new one is added by a file in jobs/ and \`deno task sync\``,
      { why: "not_found" },
    );
  }
  if (!definition.args_schema) return () => {};
  const schema = z.fromJSONSchema(definition.args_schema as z.core.JSONSchema.JSONSchema);
  return (args, which = "its args") => {
    const answer = schema.safeParse(args);
    if (!answer.success) throw doNotFit(`${verb} "${name}": ${which}`, answer.error.issues);
  };
}

const MOST_NAMED = 20;

export async function checkArgs(sql: Db, name: string, args: unknown): Promise<void> {
  (await argsCheck(sql, name, "run"))(args);
}
