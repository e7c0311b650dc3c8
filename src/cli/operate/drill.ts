/** `drill`: breaks the running `dev` on purpose and says what came of it. Exits 1 when a promise was broken. */
import { environment, PROJECT_DIR, readConfigForFiles } from "../../platform/config.ts";
import { problemText } from "../../sync/problem.ts";
import { sync } from "../../sync/sync.ts";
import { WORKER_ARGS } from "../../dev/worker_supervisor.ts";
import { type DrillName, type DrillParts, type DrillReport, DRILLS, runDrill } from "../../ops/drill/drill.ts";
import { DrillError, type Site } from "../../ops/drill/site.ts";
import { ProcessPool } from "../../sandbox/process_pool.ts";
import { CommandError, EXIT, printJson, say, type Signals } from "../../app/output.ts";
import { printTable } from "../table.ts";

interface DrillOptions {
  all?: boolean;
  yes?: string;
  json?: boolean;
}

const NAMES = Object.keys(DRILLS) as DrillName[];

export async function drillCommand(name: string | undefined, options: DrillOptions, { stop }: Signals): Promise<void> {
  if (name === undefined && !options.all) return listDrills(options);
  const names = options.all ? NAMES : [drillFrom(name as string)];
  const reports: DrillReport[] = [];
  const refused: { drill: DrillName; reason: string }[] = [];
  for (const drill of names) {
    const say = (text: string) => console.error(`${drill}: ${text}`);
    try {
      const report = await runDrill(drill, partsWith({ say, stop, yes: options.yes }));
      reports.push(report);
      if (!options.json) printReport(report);
    } catch (error) {
      if (!(error instanceof DrillError)) throw error;
      if (!options.all || error.why !== "not here") {
        throw new CommandError(error.message, error.why === "no dev" ? EXIT.unreachable : EXIT.failed);
      }
      refused.push({ drill, reason: error.message });
      say(error.message);
    }
  }
  if (options.json) printJson(options.all ? { reports, refused } : reports[0]);
  if (reports.some((report) => !report.kept) || reports.length === 0) throw new CommandError("", EXIT.failed);
}

function listDrills(options: DrillOptions): void {
  const drills = NAMES.map((name) => ({ name, about: DRILLS[name].about }));
  if (options.json) return printJson(drills);
  printTable(["drill", "what it does to the running dev"], drills.map(({ name, about }) => [name, about]), "");
  say("\nrun one: deno task drill kill-leader; run all: deno task drill --all");
}

function drillFrom(text: string): DrillName {
  const name = NAMES.find((one) => one === text);
  if (name) return name;
  throw new CommandError(`Cannot use "${text}" as a drill: give one of ${NAMES.join(", ")}`, EXIT.usage);
}

function partsWith(given: Pick<DrillParts, "say" | "stop" | "yes">): DrillParts {
  const { state_dir } = readConfigForFiles();
  return {
    ...given,
    state_dir,
    worker_command: [Deno.execPath(), ...WORKER_ARGS],
    sync: (site) => syncAs(site, state_dir),
  };
}

/** As dev does it, at once. */
async function syncAs(site: Site, state_dir: string): Promise<string | undefined> {
  const sandbox = new ProcessPool({ project_dir: PROJECT_DIR, state_dir, spares: 0, env: environment() });
  try {
    const parts = {
      sql: site.sql,
      sandbox,
      jobs_dir: site.note.jobs_dir,
      project_dir: PROJECT_DIR,
      by: { actor: "drill", reason: "a drill" },
    };
    const { problems } = await sync(parts, { mode: "apply" });
    return problems.length > 0 ? problems.map((problem) => problemText(problem)).join("; ") : undefined;
  } finally {
    await sandbox.close();
  }
}

function printReport(report: DrillReport): void {
  const times = report.measures.map(({ what, ms }) => [what, `${Math.round(ms)} ms`]);
  say(`\n${report.drill}`);
  printTable(["event", "after"], times, "");
  say("");
  printTable(["promise", "broken", "of"], [
    ["no run is lost", report.runs_lost, `${report.runs} runs`],
    ["no slot of the schedule is lost", report.slots_lost, `${report.slots} slots`],
    ["no run is RUNNING twice at once", report.double_running, `${report.runs} runs`],
    ["no two bodies of a run or key overlap", report.bodies_overlapping, `${report.bodies} bodies`],
    ["a body runs again only for a cause", countUnexplained(report), `${report.bodies_repeated.length} that ran again`],
  ], "");
  for (const [why, repeats] of Map.groupBy(report.bodies_repeated, ({ outcome, cause }) => `${outcome}: ${cause}`)) {
    const ids = repeats.map((repeat) => repeat.job_run_id);
    say(`\n${ids.length} ran again because the earlier attempt was ${why}; runs ${shortList(ids)}`);
  }
  if (report.kept) return say("\nevery promise held");
  say(`\nBROKEN: ${report.breaches.length}`);
  for (const { promise, detail } of report.breaches.slice(0, 20)) say(`  ${promise}: ${detail}`);
  const ids = [...new Set(report.breaches.flatMap((breach) => breach.job_run_ids))];
  if (ids.length > 0) say(`inspect: deno task runs show ${ids[0]}; deno task runs logs ${ids[0]}`);
}

function countUnexplained({ breaches }: DrillReport): number {
  return breaches.filter(({ promise }) => promise === "unexplained").length;
}

function shortList(ids: number[]): string {
  return ids.length <= 12 ? ids.join(", ") : `${ids.slice(0, 12).join(", ")} and ${ids.length - 12} more`;
}
