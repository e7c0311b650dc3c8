/**
 * `sync`: job files become definitions. Exits 1 on problems, 2 with --check on a difference, and 2 when somebody must say --yes
 * and has not.
 */
import { relative } from "node:path";
import { PROJECT_DIR } from "../../platform/config.ts";
import { reportText } from "../../sync/plan_text.ts";
import { sync, type SyncReport } from "../../sync/sync.ts";
import { typeWarnings } from "../../sync/type_check.ts";
import { by, type Reasoned, withDb } from "../operator.ts";
import { openSandbox, readConfigForDb } from "../../app/opening.ts";
import { CommandError, EXIT, printJson, type Signals, warn } from "../../app/output.ts";

interface SyncCommandOptions extends Reasoned {
  plan?: boolean;
  check?: boolean;
  yes?: boolean;
}

export async function syncCommand(options: SyncCommandOptions, signals: Signals): Promise<void> {
  if (options.plan && options.check) {
    throw new CommandError(
      "Cannot combine --plan and --check: --check shows the plan too; give one of them",
      EXIT.usage,
    );
  }
  const config = readConfigForDb();
  const mode = options.check ? "check" : options.plan ? "plan" : "apply";
  const sandbox = openSandbox(config, { spares: 0 });
  try {
    const parts = { sandbox, jobs_dir: config.jobs_dir, project_dir: PROJECT_DIR, by: by(options) };
    const print = (report: SyncReport) => { // not by `say`, which would take its colors away
      const color = Deno.stdout.isTerminal() && !Deno.noColor;
      console.log(reportText(report, { color, folder: relative(PROJECT_DIR, config.jobs_dir) }));
    };
    const asks = !options.json && Deno.stdin.isTerminal() && Deno.stdout.isTerminal();
    const confirm = async (planned: SyncReport) => {
      if (options.yes || !asks) return options.yes === true;
      print(planned);
      return await isYes("Apply these changes anyway? [y/N] ", signals.stop);
    };
    const report = await withDb((sql) => sync({ sql, ...parts }, { mode, confirm }));
    if (options.json) printJson(report);
    else print(report);
    if (report.plan) warn(await typeWarnings(parts, report.plan));
    if (report.problems.length > 0) throw new CommandError("", EXIT.failed);
    if (mode === "check" && report.drift) throw new CommandError("", EXIT.usage);
    if (mode === "apply" && report.drift && !report.applied) throw unconfirmed(report, options);
  } finally {
    await sandbox.close();
  }
}

function unconfirmed({ needs_yes }: SyncReport, { json }: SyncCommandOptions): CommandError {
  if (json) return new CommandError("", EXIT.usage); // the report says it
  return new CommandError(
    `Cannot sync: ${needs_yes.join("; ")}; nothing was changed; to apply it anyway: deno task sync --yes`,
    EXIT.usage,
  );
}

/** Only "y" and "yes" are. The terminal's line editing is its own; a signal ends the question. */
async function isYes(question: string, stop: AbortSignal): Promise<boolean> {
  Deno.stderr.writeSync(new TextEncoder().encode(question));
  const line = new Uint8Array(1_024);
  const stopped = new Promise<null>((resolve) => stop.addEventListener("abort", () => resolve(null)));
  const read = await Promise.race([Deno.stdin.read(line), stopped]);
  return /^y(es)?\s*$/i.test(new TextDecoder().decode(line.subarray(0, read ?? 0)));
}
