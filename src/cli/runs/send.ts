/** `runs send`: a message to a run. */
import { sendToRun } from "../../actions/messages.ts";
import { printJson, say, warn } from "../../app/output.ts";
import { UnknownKeys } from "../../sync/unknown_keys.ts";
import { actor, by, type Reasoned, withDb } from "../operator.ts";
import { idFrom, parseJson } from "../inputs.ts";

export async function sendCommand(
  id: string,
  name: string,
  payload: string,
  options: Reasoned & { dedupeKey?: string },
): Promise<void> {
  const job_run_id = idFrom(id);
  const message = { name, payload: parseJson("the payload", payload) };
  const unknown = new UnknownKeys();
  const sender = { sent_by: actor(), by: by(options), dedupeKey: options.dedupeKey, unknown };
  const sent = await withDb((sql) => sendToRun(sql, job_run_id, message, sender));
  warn(unknown.texts());
  if (options.json) return printJson({ id: sent.id, run_id: job_run_id, name, is_new: sent.isNew });
  say(
    sent.isNew
      ? `message ${sent.id} "${name}" sent to run ${id}`
      : `run ${id} has had this message before, as message ${sent.id}: the dedupe key was used`,
  );
}
