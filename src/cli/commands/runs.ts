/** `run`, `emit`, `events`, `runs`, `explain`. */
import type { Command } from "commander";
import { load } from "./load.ts";
import { countUpTo, json, reason } from "./options.ts";
import { CommandError, EXIT, type Signals } from "../../app/output.ts";

export function addWork(program: Command, signals: Signals): void {
  program.command("run")
    .description("start a run of a job")
    .argument("<name>", "the job")
    .option("--args <json>", "args of the run as JSON", "{}")
    .option("--priority <p>", "a number, lower first, or a name such as admin.high")
    .option("--at <instant>", "not before this instant: ISO 8601, or 10m for ten minutes from now")
    .option("--key <text>", "idempotency key: starting again with the same key returns the first run")
    .option("--serial-key <text>", "runs with the same key run one at a time")
    .option("--node <id>", "the node that must run it, or labels that the node must have, such as gpu=a100")
    .option("--wait", "wait for the end and show the log; exit 0 only if it SUCCEEDED")
    .addOption(json())
    .action(async (name, options) => (await load("runs/run")).runCommand(name, options, signals));
  program.command("emit")
    .description("emit an event")
    .argument("<type>", "e.g. device.export.requested")
    .option("--payload <json>", "args of the runs that the event starts", "{}")
    .option("--dedupe-key <text>", "a second event with the same key starts nothing")
    .addOption(json())
    .action(async (type, options) => (await load("runs/run")).emitCommand(type, options));
}

export function addEvents(program: Command): void {
  const events = program.command("events").description("show events and the runs that they started");
  events.command("ls").description("list the newest events").option("--type <type>", "only of this type")
    .option("--limit <n>", "number of rows, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await load("runs/events")).listCommand(options));
  events.command("show").description("show an event").argument("<id>").addOption(json())
    .action(async (id, options) => (await load("runs/events")).showCommand(id, options));
}

export function addRuns(program: Command, signals: Signals): void {
  const runs = program.command("runs").description("show runs, and act on them");
  runs.command("ls").description("list the newest runs")
    .option("--job <name>", "only of this job").option("--state <state...>", "PENDING, RUNNING, FAILED, ...")
    .option("--where <name=value...>", WHERE)
    .option("--limit <n>", "number of rows, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await load("runs/runs")).listCommand(options));
  runs.command("show").description("show a run and its attempts").argument("<id>").addOption(json())
    .action(async (id, options) => (await load("runs/runs")).showCommand(id, options));
  runs.command("steps").description("show the steps of a run, and what it waits for").argument("<id>")
    .option("--step <name>", "one step as JSON, with its whole result").addOption(json())
    .action(async (id, options) => (await load("runs/steps")).stepsCommand(id, options));
  runs.command("logs").description("show a run's output and log").argument("<id>")
    .option("-f, --follow", "continue until the run ends").addOption(json())
    .action(async (id, options) => (await load("runs/runs")).logsCommand(id, options, signals));
  addWorkflows(runs);
  many(runs.command("cancel").description("cancel a run, or all runs that match --where").argument("[id]"))
    .action(async (id, options) => {
      if (isOne(id, options)) return (await load("runs/runs")).cancelCommand(id, options);
      return (await load("runs/many")).cancelManyCommand(options);
    });
  many(
    runs.command("retry").description(
      "start a new run with the args of an ended one, or of all ended runs that match --where",
    ),
  )
    .argument("[id]").option("--args <json>", "other args, only for a single run")
    .option("--with-followers", "and again what comes `after` it, only for a single run")
    .action(async (id, options) => {
      if (isOne(id, options)) return (await load("runs/runs")).retryCommand(id, options);
      if (options.args !== undefined) {
        throw new CommandError("Cannot use --args with --where: give --args for a single run", EXIT.usage);
      }
      if (options.withFollowers) {
        throw new CommandError("Cannot use --with-followers with --where: give it for a single run", EXIT.usage);
      }
      return (await load("runs/many")).retryManyCommand(options);
    });
  many(runs.command("reprioritize").description("change the priority of waiting runs").argument("[id]"))
    .requiredOption("--priority <p>", "a number, lower first, or a name such as admin.high")
    .action(async (id, options) => {
      if (isOne(id, options)) return (await load("runs/many")).reprioritizeOneCommand(id, options);
      return (await load("runs/many")).reprioritizeManyCommand(options);
    });
  runs.command("close")
    .description("mark a stuck run as FAILED (Missing); a body that may still be running is not stopped")
    .argument("<id>").requiredOption("--reason <text>", "why; stored in the audit log and shown as the run's error")
    .option("--yes", "close the run; without it only what would be closed is shown").addOption(json())
    .action(async (id, options) => (await load("runs/runs")).closeCommand(id, options));
  program.command("explain").description("explain in one sentence why a run waits, or how it ended").argument("<id>")
    .addOption(json())
    .action(async (id, options) => (await load("runs/runs")).explainCommand(id, options));
}

function addWorkflows(runs: Command): void {
  runs.command("fork").description(
    "start a new run that goes on from a step of an ended one, with the results before it",
  )
    .argument("<id>").option(
      "--from <step>",
      "the first step that is done again; default: what comes after the last one",
    )
    .option("--set <step=json...>", "another result of a step before that").option("--args <json>", "other args")
    .addOption(reason()).addOption(json())
    .action(async (id, options) => (await load("runs/forks")).forkCommand(id, options));
  runs.command("wake").description("end a wait of a run now: a sleep is over, a wait for a message gives undefined")
    .argument("<id>").requiredOption("--step <name>", "the step that waits").addOption(reason()).addOption(json())
    .action(async (id, options) => (await load("runs/forks")).wakeCommand(id, options));
  runs.command("tree").description("show the runs that a run called, and those of its group").argument("<id>")
    .addOption(json())
    .action(async (id, options) => (await load("runs/forks")).treeCommand(id, options));
  runs.command("send").description("send a message to a run, which waits for it now or will")
    .argument("<id>").argument("<name>", "the message").argument("[json]", "its payload", "null")
    .option("--dedupe-key <text>", "a second message with the same key is not sent")
    .addOption(reason()).addOption(json())
    .action(async (id, name, payload, options) => (await load("runs/send")).sendCommand(id, name, payload, options));
}

const WHERE =
  "all runs that match job=, state=, serial-key=, node=, ran-on=, worker=, error=, bulk=, since=, until= (an instant, or 10m for ten minutes ago)";

/** What acts on one run or on many. */
function many(command: Command): Command {
  return command
    .option(
      "--where <name=value...>",
      WHERE,
    )
    .option("--yes", "act on the matching runs; without it --where only counts them")
    .addOption(reason()).addOption(json());
}

/** Whether one run is named, rather than all that --where means. Of both, whichever won would surprise somebody, and acts cannot be undone. */
function isOne(id: string | undefined, { where }: { where?: string[] }): id is string {
  if (id !== undefined && where) {
    throw new CommandError(
      `Cannot use both run ${id} and --where: give one of them; quote a condition that contains spaces`,
      EXIT.usage,
    );
  }
  if (id !== undefined || where) return id !== undefined;
  throw new CommandError("Cannot tell which runs are meant: give a run's id, or --where job=NAME", EXIT.usage);
}
