/** Events: what happened elsewhere. births.ts turns them into runs. */
import { type Db, json } from "./db.ts";

/** Emits an event; the SQL function is the same one that other programs call. Gives its id, also when the key was used before. */
export async function emitEvent(
  sql: Db,
  event: { event_type: string; payload: unknown; dedupe_key?: string },
): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    select emit_event(${event.event_type}, ${json(sql, event.payload ?? {})}, ${event.dedupe_key ?? null}) as id`;
  return (row as { id: number }).id;
}
