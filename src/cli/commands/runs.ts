/** `run`, `emit`, `events`, `runs`, `explain`. */
import type { Command } from "commander";
import { load } from "./load.ts";
import { countUpTo, json, reason } from "./options.ts";
import { CommandError, EXIT, type Signals } from "../../app/output.ts";

export function addWork(program: Command, signals: Signals): void {
  program.command("run")
    .description("enqueue a run of a job")
    .argument("<name>", "the job")
    .option("--args <json>", "its args", "{}")
    .option("--priority <p>", "a number, lower first, or a name such as admin.high")
    .option("--at <instant>", "not before this instant: ISO 8601, or 10m for so long from now")
    .option("--key <text>", "idempotency key: a second run with it is the first one")
    .option("--serial-key <text>", "runs with the same key go one at a time")
    .option("--node <id>", "the node that must run it, or labels that it must have, such as gpu=a100")
    .option("--wait", "wait for its end, show its log, exit 0 only when it SUCCEEDED")
    .addOption(json())
    .action(async (name, options) => (await load("runs/run")).runCommand(name, options, signals));
  program.command("emit")
    .description("emit an event")
    .argument("<type>", "e.g. device.export.requested")
    .option("--payload <json>", "becomes the args of the runs it starts", "{}")
    .option("--dedupe-key <text>", "an event with a key that was used before starts nothing")
    .addOption(json())
    .action(async (type, options) => (await load("runs/run")).emitCommand(type, options));
}

export function addEvents(program: Command): void {
  const events = program.command("events").description("look at events, and what came of them");
  events.command("ls").description("the newest events").option("--type <type>", "of this type only")
    .option("--limit <n>", "so many, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await load("runs/events")).listCommand(options));
  events.command("show").description("one event").argument("<id>").addOption(json())
    .action(async (id, options) => (await load("runs/events")).showCommand(id, options));
}

export function addRuns(program: Command, signals: Signals): void {
  const runs = program.command("runs").description("look at runs, and act on them");
  runs.command("ls").description("the newest runs")
    .option("--job <name>", "of this job only").option("--state <state...>", "PENDING, RUNNING, FAILED, ...")
    .option("--where <name=value...>", WHERE)
    .option("--limit <n>", "so many, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await load("runs/runs")).listCommand(options));
  runs.command("show").description("one run and its attempts").argument("<id>").addOption(json())
    .action(async (id, options) => (await load("runs/runs")).showCommand(id, options));
  runs.command("logs").description("what a run printed and logged").argument("<id>")
    .option("-f, --follow", "go on until the run has ended").addOption(json())
    .action(async (id, options) => (await load("runs/runs")).logsCommand(id, options, signals));
  many(runs.command("cancel").description("end a run that has not ended, or all that --where means").argument("[id]"))
    .action(async (id, options) => {
      if (isOne(id, options)) return (await load("runs/runs")).cancelCommand(id, options);
      return (await load("runs/many")).cancelManyCommand(options);
    });
  many(runs.command("retry").description("a new run with the args of one that has ended, or of all that --where means"))
    .argument("[id]").option("--args <json>", "other args, for one run")
    .action(async (id, options) => {
      if (isOne(id, options)) return (await load("runs/runs")).retryCommand(id, options);
      if (options.args !== undefined) throw new CommandError("Give --args for one run, not with --where", EXIT.usage);
      return (await load("runs/many")).retryManyCommand(options);
    });
  many(runs.command("reprioritize").description("another priority for runs that wait").argument("[id]"))
    .requiredOption("--priority <p>", "a number, lower first, or a name such as admin.high")
    .action(async (id, options) => {
      if (isOne(id, options)) return (await load("runs/many")).reprioritizeOneCommand(id, options);
      return (await load("runs/many")).reprioritizeManyCommand(options);
    });
  runs.command("close")
    .description("end a run that nothing else ends, as FAILED (Missing); a body of it that may go on is not touched")
    .argument("<id>").requiredOption("--reason <text>", "why; kept in the audit and shown as its error")
    .option("--yes", "do it: without it this only says what would be closed").addOption(json())
    .action(async (id, options) => (await load("runs/runs")).closeCommand(id, options));
  program.command("explain").description("why a run waits, or what became of it, in one sentence").argument("<id>")
    .addOption(json())
    .action(async (id, options) => (await load("runs/runs")).explainCommand(id, options));
}

const WHERE =
  "all runs with job=, state=, serial-key=, node=, ran-on=, worker=, error=, bulk=, since=, until= (an instant, or 10m for so long ago)";

/** What acts on one run or on many. */
function many(command: Command): Command {
  return command
    .option(
      "--where <name=value...>",
      WHERE,
    )
    .option("--yes", "do it: without it --where only says how many runs it means")
    .addOption(reason()).addOption(json());
}

/** Whether one run is named, rather than all that --where means. Of both, whichever won would surprise somebody, and acts cannot be undone. */
function isOne(id: string | undefined, { where }: { where?: string[] }): id is string {
  if (id !== undefined && where) {
    throw new CommandError(`Name run ${id} or give --where, not both: quote a condition that has blanks`, EXIT.usage);
  }
  if (id !== undefined || where) return id !== undefined;
  throw new CommandError("Name a run, or runs with --where job=NAME", EXIT.usage);
}
