/**
 * `deno task chaos [--seed N] [--minutes M]`: real workers, real faults (live.ts). `--stress --seed N [--seconds S]`: the
 * protocol in one process (stress.ts). Exit code 1 when an invariant is broken: then the seed, the story of the runs
 * concerned and the folder with all that was written down are printed.
 */
import { rmSync } from "node:fs";
import { parseArgs } from "node:util";
import { chaos } from "./live.ts";
import { textOf } from "./live/report.ts";

const USAGE = `deno task chaos [options]
  --seed N      decides the faults; default: any, and printed
  --minutes M   how long faults happen; default 2
  --only TEXT   faults whose name holds this, e.g. "freeze"
  --workers N   1 to 5; default 5
  --json        print the report as JSON
  --keep        keep the folder with what was written down, also when all is well
  --stress      stress the protocol in one process instead, for --seconds S; default 10`;

async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: "string", default: String(Math.floor(Math.random() * 1e6)) },
      minutes: { type: "string", default: "2" },
      seconds: { type: "string", default: "10" },
      workers: { type: "string", default: "5" },
      only: { type: "string", default: "" },
      json: { type: "boolean", default: false },
      keep: { type: "boolean", default: false },
      stress: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return 0;
  }
  const [seed, minutes, seconds, workers] = [values.seed, values.minutes, values.seconds, values.workers].map(Number);
  const numbers = { seed: seed as number, minutes: minutes as number, workers: workers as number };
  if (!Object.values({ ...numbers, seconds }).every((number) => (number as number) >= 0) || numbers.workers < 1) {
    console.error(USAGE);
    return 2;
  }
  if (values.stress) return await stressOnce(numbers.seed, seconds as number);
  return await live({ ...numbers, only: values.only }, values);
}

async function live(
  options: { seed: number; minutes: number; workers: number; only: string },
  show: { json: boolean; keep: boolean },
): Promise<number> {
  const { seed, minutes, only } = options;
  const again = `deno task chaos --seed ${seed} --minutes ${minutes}${only ? ` --only "${only}"` : ""}`;
  const say = (text: string) => console.error(text);
  const dir = Deno.makeTempDirSync({ prefix: "dandori-chaos-" });
  const stop = new AbortController();
  Deno.addSignalListener("SIGINT", () => stop.abort());
  say(`Seed ${seed}; the same again: ${again}`);
  const { report, story } = await chaos({ ...options, dir, say, stop: stop.signal });
  console.log(show.json ? JSON.stringify(report, null, 2) : textOf(report));
  const failed = report.violations.length > 0;
  say(
    failed
      ? `\n${report.violations.length} violations with seed ${seed}; what is known is in ${dir}\n\n${story}`
      : "\nNo violation: every invariant held",
  );
  for (const part of failed || show.keep ? ["postgres", "redis", "state"] : [""]) {
    rmSync(`${dir}/${part}`, { recursive: true, force: true });
  }
  return failed ? 1 : 0;
}

/** Its servers start when it is loaded. */
async function stressOnce(seed: number, seconds: number): Promise<number> {
  const { stress } = await import("./stress.ts");
  const { counts, story, violations } = await stress({ seed, seconds });
  console.log(counts);
  console.log(story || "No violation");
  return violations.length === 0 ? 0 : 1;
}

Deno.exit(await main(Deno.args));
