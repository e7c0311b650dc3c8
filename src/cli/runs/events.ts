/** `events`: what was emitted lately, and what came of it. */
import { type EventView, listEvents } from "../../events/events.ts";
import { type JsonOption, withDb } from "../operator.ts";
import { idFrom } from "../inputs.ts";
import { CommandError, pairsText, printJson, say } from "../../app/output.ts";
import { printTable } from "../table.ts";
import { timeText } from "../times.ts";

export async function listCommand(options: JsonOption & { type?: string; limit: number }): Promise<void> {
  const events = await withDb((sql) => listEvents(sql, { event_type: options.type, most: options.limit }));
  if (options.json) return printJson(events);
  printTable(
    ["id", "type", "emitted", "payload", "what came of it"],
    events.map((event) => [
      event.id,
      event.event_type,
      event.created_at,
      brief(event.payload),
      outcomesText(event),
    ]),
    options.type ? "no such events" : "no events yet; emit one with `deno task emit TYPE --payload '{}'`",
  );
}

export async function showCommand(id: string, options: JsonOption): Promise<void> {
  const [event] = await withDb((sql) => listEvents(sql, { id: idFrom(id), most: 1 }));
  if (!event) {
    throw new CommandError(`Cannot find event "${id}": there is none; \`deno task events ls\` shows the newest`);
  }
  if (options.json) return printJson(event);
  say(pairsText([
    ["event", `${event.id} ${event.event_type}`],
    ["emitted", timeText(event.created_at)],
    ["taken", event.processed_at && timeText(event.processed_at)],
    ["dedupe key", event.dedupe_key],
    ["payload", JSON.stringify(event.payload, null, 2)],
    ["came of it", event.outcomes.length > 0 ? null : outcomesText(event)],
  ]));
  if (event.outcomes.length === 0) return;
  say("\ncame of it");
  printTable(
    ["job", "what", "run", "state"],
    event.outcomes.map((one) => [one.job_name, WORDS[one.outcome], one.job_run_id ?? "(deleted)", one.state]),
    "",
  );
}

/** What an event became for a job, before the number of a run. */
const WORDS = { run: "run", debounced: "debounced into run", throttled: "throttled, there was run" };
const PAYLOAD_SHOWN = 200;

/** Of a list: payloads may be a million letters long. */
function brief(payload: unknown): string {
  const text = JSON.stringify(payload);
  return text.length <= PAYLOAD_SHOWN ? text : `${text.slice(0, PAYLOAD_SHOWN)}…`;
}

function outcomesText({ outcomes, processed_at }: EventView): string {
  if (processed_at === null) return "the leader has not come to it yet";
  return outcomes.map(({ job_name, outcome, job_run_id }) =>
    `${job_name}: ${WORDS[outcome]} ${job_run_id ?? "(deleted)"}`
  )
    .join("; ") || "nothing: no job is for it";
}
