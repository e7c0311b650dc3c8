/**
 * `deno task bench [workload ...]`: measures the project on this machine. Without a name all workloads but those that are
 * `only_by_name`. Everything is real: processes, mTLS, Postgres that syncs to disk, Redis.
 */
import { parseArgs } from "node:util";
import { Servers } from "./servers.ts";
import type { Bench, Figure } from "./workload.ts";
import { WORKLOADS } from "./workloads.ts";

const USAGE = `deno task bench [options] [workload ...]

  --quick             few runs: shows whether something is badly wrong
  --long              many runs, where that is the point (memory: 1,000,000)
  --runs N            runs to be made, in place of each workload's own number
  --reuse, --process  only this isolation
  --statements        count the statements of throughput, and show the longest
  --profile DIR       write CPU profiles of the project's workers there
  --json              figures as JSON on stdout, nothing else
  --list              the workloads`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean", default: false },
    long: { type: "boolean", default: false },
    runs: { type: "string" },
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
    positionals.length > 0 ? positionals.includes(name) : !only_by_name
  );
  const bench = await prepare();
  bench.say(bench.servers.detail);
  const found: Figure[] = [];
  try {
    for (const workload of chosen) {
      const figures = await workload.run(bench);
      found.push(...figures);
      if (!values.json) { for (const figure of figures) console.log(line(figure)); }
    }
  } finally {
    await bench.servers.stop();
  }
  if (values.json) console.log(JSON.stringify({ deno: Deno.version.deno, figures: found }, null, 2));
  return 0;
}

async function prepare(): Promise<Bench> {
  const { quick, long, runs, statements, profile } = values;
  if (runs !== undefined && !(Number(runs) > 0)) throw new RangeError(`--runs must be a number above 0: "${runs}"`);
  if (profile) Deno.mkdirSync(profile, { recursive: true });
  return {
    servers: await Servers.start(),
    quick,
    long,
    runs: runs === undefined ? undefined : Number(runs),
    isolations: (["reuse", "process"] as const).filter((name) => values[name] || values.reuse === values.process),
    statements,
    profile_dir: profile ? Deno.realPathSync(profile) : undefined,
    say: (text) => console.error(`-- ${text}`),
  };
}

function line({ workload, who, how, measure, value, unit, n }: Figure): string {
  const name = `${workload}, ${who}, ${how}`.padEnd(44);
  return `${name}${measure.padEnd(16)}${String(value).padStart(10)} ${unit.padEnd(8)} (${n})`;
}

function tell(text: string, code: number): number {
  console.log(text);
  return code;
}

Deno.exit(await main());
