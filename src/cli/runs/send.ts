/** `runs send`: a message to a run. */
import { send } from "../../actions/workflow_actions.ts";
import { printJson, say, warn } from "../../app/output.ts";
import { UnknownKeys } from "../../sync/unknown_keys.ts";
import { act, type Reasoned } from "../operator.ts";
import { idFrom, parseJson } from "../inputs.ts";

export async function sendCommand(
  id: string,
  name: string,
  payload: string,
  options: Reasoned & { dedupeKey?: string },
): Promise<void> {
  const job_run_id = idFrom(id);
  const unknown = new UnknownKeys();
  const message = {
    id: job_run_id,
    name,
    payload: parseJson("the payload", payload),
    dedupe_key: options.dedupeKey,
    unknown,
  };
  const sent = await act(send, message, options);
  warn(unknown.texts());
  if (options.json) return printJson({ id: sent.id, run_id: job_run_id, name, is_new: sent.isNew });
  say(
    sent.isNew
      ? `message ${sent.id} "${name}" sent to run ${id}`
      : `run ${id} has had this message before, as message ${sent.id}: the dedupe key was used`,
  );
}
