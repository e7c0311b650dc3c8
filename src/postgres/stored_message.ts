/** A message that a statement makes of its own rows, as a column of text holds it. */
import type { MessageKey } from "../locale/message.ts";
import type { Db } from "./connection.ts";

/** `params`: a jsonb of them. */
export function storedMessage(sql: Db, code: MessageKey, params: ReturnType<Db>) {
  return sql`jsonb_build_object('code', ${code}::text, 'params', ${params})::text`;
}
