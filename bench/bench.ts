/**
 * `deno task bench [workload ...]`: measures the project on this machine. Without a name all workloads but those that are
 * `only_by_name`. Everything is real: processes, mTLS, Postgres that syncs to disk, Redis. graphile-worker, pg-boss and BullMQ
 * are measured in the same run on the same servers, and a table says which targets are met.
 */
import { parseArgs } from "node:util";
import { Servers } from "./servers.ts";
import { PROJECT_DIR } from "../src/platform/config.ts";
import { withEarlier, writeReport } from "./report.ts";
import type { Bench, Figure } from "./workload.ts";
import { WORKLOADS } from "./workloads.ts";

const USAGE = `deno task bench [options] [workload ...]

  --quick             few runs: shows whether something is badly wrong
  --long              many runs, or minutes, where that is the point (memory: 1,000,000; idle: after six minutes)
  --runs N            runs to be made, in place of each workload's own number
  --no-peers          without graphile-worker, pg-boss and BullMQ, which are installed when they are missing
  --out DIR           where figures.json, report.md and report.svg go (.dandori/bench)
  --add               keep what is in that folder already, but for what is measured anew
  --reuse, --process  only this isolation
  --statements        count the statements of throughput, backlog, many-workers and crowd, and show the longest
  --profile DIR       write CPU profiles of the project's workers there
  --json              figures as JSON on stdout, nothing else
  --list              the workloads`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean", default: false },
    long: { type: "boolean", default: false },
    runs: { type: "string" },
    "no-peers": { type: "boolean", default: false },
    out: { type: "string", default: `${PROJECT_DIR}.dandori/bench` },
    add: { type: "boolean", default: false },
    reuse: { type: "boolean", default: false },
    process: { type: "boolean", default: false },
    statements: { type: "boolean", default: false },
    profile: { type: "string" },
    json: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

async function main(): Promise<number> {
  if (values.help) return tell(USAGE, 0);
  if (values.list) return tell(WORKLOADS.map(({ name, about }) => `${name.padEnd(16)}${about}`).join("\n"), 0);
  const unknown = positionals.filter((name) => !WORKLOADS.some((workload) => workload.name === name));
  if (unknown.length > 0) return tell(`No workload "${unknown[0]}": deno task bench --list names them`, 2);
  const chosen = WORKLOADS.filter(({ name, only_by_name }) =>
    positionals.length > 0
      ? positionals.includes(name)
      : !(only_by_name || (values["no-peers"] && (name === "peers" || name === "turns")))
  );
  const bench = await prepare();
  bench.say(bench.servers.detail);
  const found: Figure[] = [];
  const failed: string[] = [];
  try {
    for (const workload of chosen) {
      const figures = await workload.run(bench).catch((error): Figure[] => {
        failed.push(workload.name);
        console.error(error);
        return [];
      });
      found.push(...figures);
      if (!values.json) { for (const figure of figures) console.log(line(figure)); }
    }
  } finally {
    await bench.servers.stop();
  }
  const all = values.add ? withEarlier(values.out, found) : found;
  const table = writeReport(values.out, all);
  if (values.json) console.log(Deno.readTextFileSync(`${values.out}/figures.json`));
  else console.log(`\n${table}\n\nAll figures: ${values.out}/report.md`);
  return failed.length === 0 ? 0 : tell(`Not measured, since it failed: ${failed.join(", ")}`, 1);
}

async function prepare(): Promise<Bench> {
  const { quick, long, runs, statements, profile } = values;
  if (runs !== undefined && !(Number(runs) > 0)) throw new RangeError(`--runs must be a number above 0: "${runs}"`);
  if (profile) Deno.mkdirSync(profile, { recursive: true });
  return {
    servers: await Servers.start(),
    quick,
    long,
    peers: !values["no-peers"],
    runs: runs === undefined ? undefined : Number(runs),
    isolations: (["reuse", "process"] as const).filter((name) => values[name] || values.reuse === values.process),
    statements,
    profile_dir: profile ? Deno.realPathSync(profile) : undefined,
    say: (text) => console.error(`-- ${text}`),
  };
}

function line({ workload, who, how, measure, value, unit, n }: Figure): string {
  const name = `${workload}, ${who}, ${how}`.padEnd(44) + " ";
  return `${name}${measure.padEnd(16)}${String(value).padStart(10)} ${unit.padEnd(8)} (${n})`;
}

function tell(text: string, code: number): number {
  console.error(text);
  return code;
}

Deno.exit(await main());
