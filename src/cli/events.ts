/** `events`: what was emitted lately, and what came of it. */
import { type EventView, listEvents } from "../store/events.ts";
import { type JsonOption, withDb } from "./acting.ts";
import { idFrom } from "./inputs.ts";
import { CommandError, printJson } from "./output.ts";
import { printTable } from "./table.ts";
import { timeText } from "./times.ts";

export async function listCommand(options: JsonOption & { type?: string; limit: number }): Promise<void> {
  const events = await withDb((sql) => listEvents(sql, { event_type: options.type, most: options.limit }));
  if (options.json) return printJson(events);
  printTable(
    ["id", "type", "emitted", "payload", "what came of it"],
    events.map((event) => [
      event.id,
      event.event_type,
      event.created_at,
      JSON.stringify(event.payload).slice(0, 60),
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
  printTable(["event", String(event.id)], [
    ["type", event.event_type],
    ["emitted", timeText(event.created_at)],
    ["dedupe key", event.dedupe_key],
    ["payload", event.payload],
    ["came of it", outcomesText(event)],
  ], "");
}

function outcomesText({ outcomes, processed_at }: EventView): string {
  if (processed_at === null) return "the leader has not come to it yet";
  const words = { run: "run", debounced: "debounced into run", throttled: "throttled, there was run" };
  return outcomes.map(({ job_name, outcome, job_run_id }) =>
    `${job_name}: ${words[outcome]} ${job_run_id ?? "(deleted)"}`
  )
    .join("; ") || "nothing: no job is for it";
}
