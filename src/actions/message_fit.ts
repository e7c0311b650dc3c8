/** A message against what its job takes: refused where it is sent, what no wait of the body could use. */
import { schemaJson, unfitIn } from "../definitions/args_schema.ts";
import type { StoredDefinition } from "../definitions/definition_rows.ts";
import { wordLike } from "../platform/shown.ts";
import type { UnknownKeys } from "../sync/unknown_keys.ts";
import { doNotFit, EnqueueError, jsonText } from "./args.ts";

/**
 * Checks name and payload by what was synced last. `emit`: the sender holds a token of scope emit, and no more; `unknown` takes down keys
 * that the schema does not name. @throws EnqueueError
 */
export function checkMessage(
  definition: Pick<StoredDefinition, "name" | "messages">,
  name: string,
  payload: unknown,
  { emit = false, unknown }: { emit?: boolean; unknown?: UnknownKeys } = {},
): void {
  const what = `send ${JSON.stringify(name)} to a run of "${definition.name}"`;
  const names = Object.keys(definition.messages);
  const message = Object.hasOwn(definition.messages, name) ? definition.messages[name] : undefined;
  if (!message) {
    const like = wordLike(name, names);
    const takes = names.length === 0 ? "no messages; its file can name some: messages: { ... }" : names.join(", ");
    throw new EnqueueError(
      `Cannot ${what}: it takes no such message; ${like ? `did you mean "${like}"? ` : ""}it takes ${takes}`,
      { why: "not_found", says: { code: "no_such_message", job_name: definition.name, names } },
    );
  }
  if (emit && message.from !== "emit") {
    throw new EnqueueError(
      `Cannot ${what}: a token of scope emit may not; take one of scope operate, or let it in the job's file: ` +
        `messages: { ${JSON.stringify(name)}: { schema, from: "emit" } }`,
      { says: { code: "message_not_for_emit", name } },
    );
  }
  jsonText({ what: `message ${JSON.stringify(name)}`, called: "payload" }, payload);
  const schema = message.schema === null ? null : JSON.stringify(message.schema);
  const unfit = unfitIn(schema, payload);
  if (unfit) throw doNotFit({ what: `${what}: the values of its payload`, code: "message_unfit" }, unfit);
  unknown?.look(schemaJson(schema), payload);
}
