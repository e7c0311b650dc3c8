/** `queue`: what waits and why, and stopping and letting go: everything, a job, a serial key. `resources`: how much there is. */
import { dropResource, pauseQueue, resumeQueue, saveResource } from "../../actions/queue_actions.ts";
import { readSettings } from "../../settings/settings.ts";
import { listStoppedKeys, type QueueLine, readQueue } from "../../dispatch/pauses.ts";
import { readResources } from "../../dispatch/dispatch_queues.ts";
import { act, type JsonOption, type Reasoned, withDb } from "../operator.ts";
import { CommandError, EXIT, pausedText, printJson, say } from "../../app/output.ts";
import { printTable } from "../table.ts";

export async function listCommand(options: JsonOption): Promise<void> {
  await withDb(async (sql) => {
    const [{ dispatch }, jobs, keys] = [await readSettings(sql), await readQueue(sql), await listStoppedKeys(sql)];
    if (options.json) return printJson({ dispatch, jobs, stopped_serial_keys: keys });
    if (dispatch === "paused") say("all dispatch is paused; resume it: deno task queue resume --all\n");
    printTable(
      ["job", "priority", "waiting", "running", "oldest due", "why none starts"],
      jobs.map((job) => [job.job_name, job.priority, job.waiting, job.running, job.oldest_due_at, whyText(job)]),
      "no runs waiting or running",
    );
    if (keys.length === 0) return;
    say("");
    printTable(
      ["paused serial key", "waiting", "since", "by", "reason"],
      keys.map((key) => [key.serial_key, key.waiting, key.stopped_at, key.stopped_by, key.reason]),
      "",
    );
  });
}

function whyText({ reasons, held, later, suspended, ...line }: QueueLine): string | null {
  const paused = line.paused_by === null || reasons.length > 0 ? [] : [pausedText(line)];
  const behind = held > 0 ? [`${held} behind their serial key or beyond a limit`] : [];
  const early = later > 0 ? [`${later} not due yet`] : [];
  const asleep = suspended > 0 ? [`${suspended} suspended`] : [];
  return [...new Set(reasons), ...paused, ...behind, ...early, ...asleep].join(
    "; ",
  ) || null;
}

export async function pauseCommand(
  options: Reasoned & { job?: string; key?: string; all?: true },
  paused: boolean,
): Promise<void> {
  const { job: job_name, key: serial_key, all } = options;
  const given = [job_name, serial_key, all].filter((one) => one !== undefined).length;
  if (given !== 1) {
    const verb = paused ? "pause" : "resume";
    const why = given === 0 ? "no target is given" : "several targets are given";
    throw new CommandError(
      `Cannot ${verb}: ${why}; give --job NAME, or --key SERIAL_KEY, or --all for all dispatch`,
      EXIT.usage,
    );
  }
  const changed = await act(paused ? pauseQueue : resumeQueue, { job_name, serial_key, all }, options);
  const what = serial_key !== undefined
    ? `serial key "${serial_key}"`
    : job_name !== undefined
    ? `job "${job_name}"`
    : "all dispatch";
  if (options.json) return printJson({ what, paused, changed });
  const how = paused ? "paused: running bodies go on, waiting runs wait" : "resumed";
  say(changed ? `${what} is ${how}` : `${what} was already ${paused ? "paused" : "running"}`);
}

export async function resourcesCommand(options: JsonOption): Promise<void> {
  const resources = await withDb(readResources);
  if (options.json) return printJson(resources);
  printTable(
    ["resource", "capacity", "in use"],
    resources.map(({ name, capacity, taken }) => [name, capacity, taken]),
    "no resources yet; add one: deno task resources set NAME CAPACITY",
  );
}

export async function setResourceCommand(name: string, capacity: string | undefined, options: Reasoned): Promise<void> {
  const n = capacity === undefined ? undefined : Number(capacity);
  if (n !== undefined && !(/^\d+$/.test(capacity as string) && n <= 1_000_000_000)) {
    throw new CommandError(`Cannot use "${capacity}" as a capacity: give a whole number from 1`, EXIT.usage);
  }
  const changed = n === undefined
    ? await act(dropResource, { name }, options)
    : await act(saveResource, { name, capacity: n }, options);
  if (options.json) return printJson({ name, capacity: n ?? null, changed });
  say(
    n === undefined
      ? `resource "${name}" is removed; runs of jobs that need it wait`
      : `resource "${name}" has capacity ${n}`,
  );
}
