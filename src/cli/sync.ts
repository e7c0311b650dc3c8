/** `sync`: job files become definitions. Exits 1 on problems, and with --check 2 on a difference. */
import { relative } from "node:path";
import { PROJECT_DIR } from "../base/config.ts";
import { reportText } from "../catalog/plan_text.ts";
import { sync } from "../catalog/sync.ts";
import { type JsonOption, withDb } from "./acting.ts";
import { openSandbox, readConfigForDb } from "./opening.ts";
import { CommandError, EXIT, printJson } from "./output.ts";

export async function syncCommand(options: JsonOption & { plan?: boolean; check?: boolean }): Promise<void> {
  if (options.plan && options.check) {
    throw new CommandError("Cannot do --plan and --check at once: --check shows the plan too", EXIT.usage);
  }
  const config = readConfigForDb();
  const mode = options.check ? "check" : options.plan ? "plan" : "apply";
  const sandbox = openSandbox(config, { spares: 0 });
  try {
    const parts = { sandbox, jobs_dir: config.jobs_dir, project_dir: PROJECT_DIR };
    const report = await withDb((sql) => sync({ sql, ...parts }, { mode }));
    if (options.json) printJson(report);
    else { // not by `say`, which would take its colors away
      console.log(
        reportText(report, {
          color: Deno.stdout.isTerminal() && !Deno.noColor,
          folder: relative(PROJECT_DIR, config.jobs_dir),
        }),
      );
    }
    if (report.problems.length > 0) throw new CommandError("", EXIT.failed);
    if (mode === "check" && report.drift) throw new CommandError("", EXIT.usage);
  } finally {
    await sandbox.close();
  }
}
