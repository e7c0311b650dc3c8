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
    ["id", "type", "emitted", "payload", "outcome"],
    events.map((event) => [
      event.id,
      event.event_type,
      event.created_at,
      brief(event.payload),
      outcomesText(event),
    ]),
    options.type ? "no matching events" : "no events yet; emit one: deno task emit TYPE --payload '{}'",
  );
}

export async function showCommand(id: string, options: JsonOption): Promise<void> {
  const [event] = await withDb((sql) => listEvents(sql, { id: idFrom(id), most: 1 }));
  if (!event) {
    throw new CommandError(
      `Cannot find event "${id}": there is no such event; \`deno task events ls\` lists the newest`,
    );
  }
  if (options.json) return printJson(event);
  say(pairsText([
    ["event", `${event.id} ${event.event_type}`],
    ["emitted", timeText(event.created_at)],
    ["processed", event.processed_at && timeText(event.processed_at)],
    ["dedupe key", event.dedupe_key],
    ["payload", JSON.stringify(event.payload, null, 2)],
    ["outcome", event.outcomes.length > 0 ? null : outcomesText(event)],
  ]));
  if (event.outcomes.length === 0) return;
  say("\noutcome");
  printTable(
    ["job", "result", "run", "state"],
    event.outcomes.map((one) => [one.job_name, WORDS[one.outcome], one.job_run_id ?? "(deleted)", one.state]),
    "",
  );
}

/** What an event became for a job, before the number of a run. */
const WORDS = { run: "run", debounced: "debounced into run", throttled: "throttled by run" };
const PAYLOAD_SHOWN = 200;

/** Of a list: payloads may be a million letters long. */
function brief(payload: unknown): string {
  const text = JSON.stringify(payload);
  return text.length <= PAYLOAD_SHOWN ? text : `${text.slice(0, PAYLOAD_SHOWN)}…`;
}

function outcomesText({ outcomes, processed_at }: EventView): string {
  if (processed_at === null) return "not processed by the leader yet";
  return outcomes.map(({ job_name, outcome, job_run_id }) =>
    `${job_name}: ${WORDS[outcome]} ${job_run_id ?? "(deleted)"}`
  )
    .join("; ") || "nothing: no job is triggered by it";
}
