/** The commands and their help. What a command does is in the file that its action loads, so that none waits for the others. */
import { Command, CommanderError } from "commander";
import { ConfigError } from "../platform/config.ts";
import { harmless } from "../platform/text.ts";
import { Refused } from "../actions/args.ts";
import { VERSION } from "../platform/version.ts";
import { explain, explanation } from "../ops/explain.ts";
import { addAdmin, addHooks } from "./commands/admin.ts";
import { addFiles, addJobs } from "./commands/files.ts";
import { addAlerts, addAudit, addLooking, addSettings } from "./commands/operate.ts";
import { addBulks, addQueue } from "./commands/queue.ts";
import { addEvents, addRuns, addWork } from "./commands/runs.ts";
import { addServices } from "./commands/services.ts";
import { CommandError, EXIT, printJson, type Signals } from "../app/output.ts";
import { showInUtc } from "./times.ts";

/** Runs one command line; gives the exit code and never throws. */
export async function runCli(args: string[], signals: Signals): Promise<number> {
  const program = buildProgram(signals);
  try {
    await program.parseAsync(args, { from: "user" });
    return EXIT.ok;
  } catch (error) {
    return report(error, args.includes("--json"));
  }
}

function report(error: unknown, json: boolean): number {
  if (error instanceof CommanderError) { // it has spoken itself, but not to programs
    if (error.exitCode === 0) return EXIT.ok;
    if (json) printJson({ error: error.message.replace(/^error: /, "") });
    return EXIT.usage;
  }
  const message = explanation(error);
  if (message && json) printJson({ error: message });
  else if (message) console.error(harmless(`error: ${message}`)); // it may name what others named
  if (error instanceof CommandError) return error.exit_code;
  if (error instanceof Refused && error.why === "late") return EXIT.unreachable;
  if (error instanceof Refused && error.why === "invalid") return EXIT.usage;
  if (error instanceof ConfigError) return error.why === "wrong" ? EXIT.usage : EXIT.unreachable;
  return explain(error)?.unreachable ? EXIT.unreachable : EXIT.failed;
}

/** All commands with their options. */
export function buildProgram(signals: Signals): Command {
  const program = new Command("dandori")
    .description("A distributed job scheduler: runs the files in jobs/ on schedules, on events and on demand.")
    .version(VERSION)
    .exitOverride()
    .showHelpAfterError("(add --help for usage)")
    .helpCommand(false);
  program.addHelpText("after", HELP);
  addServices(program, signals);
  addAdmin(program, signals);
  addFiles(program, signals);
  addWork(program, signals);
  addEvents(program);
  addRuns(program, signals);
  addJobs(program);
  addQueue(program);
  addBulks(program);
  addHooks(program);
  addLooking(program, signals);
  addSettings(program);
  addAlerts(program);
  addAudit(program);
  for (const command of program.commands) command.exitOverride();
  addUtc(program);
  program.hook("preAction", (_, command) => showInUtc(command.opts().utc === true));
  return program;
}

/** To all that answer: what answers may show times. */
function addUtc(command: Command): void {
  if (command.options.some(({ long }) => long === "--json")) {
    command.option("--utc", "show times in UTC instead of the local zone");
  }
  command.commands.forEach(addUtc);
}

const HELP = `
Each command is also a task: deno task run NAME is the same as main.ts run NAME.

An instant can be given as ISO 8601 or as a distance from now: 90s, 10m, 2h, 3d, or with a sign: +10m, -10m.

Exit codes: 0 done, 1 failed, 2 invalid input (or sync --check found a difference), 3 unreachable.

Try:
  deno task dev                                     start everything on this machine, for development
  deno task run hello --args '{"name":"you"}' --wait
  deno task runs ls                                 list the newest runs
`;
