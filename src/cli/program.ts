/** The commands and their help. What a command does is in the file that its action loads, so that none waits for the others. */
import { Command, CommanderError, Option } from "commander";
import { ConfigError } from "../base/config.ts";
import { VERSION } from "../base/version.ts";
import { explain, explanation } from "../ops/explain.ts";
import { CommandError, EXIT, printJson, type Signals } from "./output.ts";

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
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage; // it has spoken itself
  const message = explanation(error);
  if (message && json) printJson({ error: message });
  else if (message) console.error(`error: ${message}`);
  if (error instanceof CommandError) return error.exit_code;
  return error instanceof ConfigError || explain(error)?.unreachable ? EXIT.unreachable : EXIT.failed;
}

function buildProgram(signals: Signals): Command {
  const program = new Command("dandori")
    .description("A distributed job scheduler: files in jobs/, run on schedules, on events and on demand.")
    .version(VERSION)
    .exitOverride()
    .showHelpAfterError("(add --help for usage)")
    .helpCommand(false);
  program.addHelpText("after", HELP);
  addServices(program, signals);
  addFiles(program);
  addWork(program, signals);
  addEvents(program);
  addRuns(program, signals);
  addJobs(program);
  addQueue(program);
  addBulks(program);
  addLooking(program, signals);
  for (const command of program.commands) command.exitOverride();
  return program;
}

const HELP = `
Each command is also a task: deno task run NAME is the same as main.ts run NAME.

Exit codes: 0 done, 1 it did not succeed, 2 not understood (or sync --check found a difference), 3 could not reach it.

Try:
  deno task dev                                     start everything here, for development
  deno task run hello --args '{"name":"you"}' --wait
  deno task runs ls                                 what ran lately
`;

const json = () => new Option("--json", "print JSON instead of text");

function addServices(program: Command, signals: Signals): void {
  program.command("dev")
    .description("start Postgres, Redis and workers for development, and sync jobs/ on every change")
    .option("--workers <n>", "how many workers", wholeNumber, 3)
    .action(async (options) => (await import("./dev.ts")).devCommand(options, signals));
  program.command("worker")
    .description("run one worker until it is told to stop")
    .option("--stop-with-stdin", "stop when stdin is closed, so that it does not outlive its parent")
    .action(async (options) => (await import("./worker.ts")).workerCommand(options, signals));
  program.command("schema")
    .description("apply schema.sql to the database; again, it changes nothing")
    .addOption(json())
    .action(async (options) => (await import("./schema.ts")).schemaCommand(options));
  addAdmin(program, signals);
  addCerts(program);
}

function addAdmin(program: Command, signals: Signals): void {
  const load = () => import("./admin.ts");
  const admin = program.command("admin").description("the admin page: see everything, and act on it");
  admin.command("serve", { isDefault: true }).description("serve the page until it is told to stop")
    .option("--host <address>", "where it listens; default SCHEDULER_ADMIN_HOST, or 127.0.0.1")
    .option("--port <n>", "0: any free one; default SCHEDULER_ADMIN_PORT, or 8420", portNumber)
    .action(async (options) => (await load()).serveCommand(options, signals));
  const user = admin.command("user").description("who may use it: viewer, operator or admin");
  const made = () => new Option("--generate", "make a password and show it once, instead of asking for one");
  user.command("add").description("a new user; its password is asked for, or read from stdin").argument("<name>")
    .requiredOption("--role <role>", "viewer: look; operator: act on work; admin: everything").addOption(made())
    .addOption(json()).action(async (name, options) => (await load()).addUserCommand(name, options));
  user.command("ls").description("all users").addOption(json())
    .action(async (options) => (await load()).listUsersCommand(options));
  user.command("set-role").description("from the next click on").argument("<name>").argument("<role>")
    .addOption(json()).action(async (name, role, options) => (await load()).setRoleCommand(name, role, options));
  user.command("passwd").description("a new password; it is logged out everywhere").argument("<name>")
    .addOption(made()).addOption(json()).action(async (name, options) => (await load()).passwdCommand(name, options));
  user.command("rm").description("remove a user; what it did stays in the audit").argument("<name>").addOption(json())
    .action(async (name, options) => (await load()).removeUserCommand(name, options));
}

function addCerts(program: Command): void {
  const certs = program.command("certs").description("make, look at and rotate the certificates of nodes");
  const folder = "folder with pins.pem or ca.crt, and one for each node with its tls.crt and tls.key";
  const load = () => import("./certs.ts");
  const add = (name: string, text: string) =>
    certs.command(name, { isDefault: name === "make" }).description(text).argument("<dir>", folder).addOption(json());
  const days = () => new Option("--days <n>", "valid for so many days").argParser(wholeNumber).default(90);
  const host = () => new Option("--host <name...>", "further names in the certificate, e.g. *.workers");
  add("make", "a certificate for each node that has none (this is what `certs <dir> --node ...` does)")
    .option("--node <id...>", "node ids, one folder each below <dir>").addOption(days()).addOption(host())
    .option("--ca", "make an authority of your own in <dir>, that signs them, instead of pinning each")
    .action(async (dir, options) => (await load()).makeCommand(dir, options));
  add(
    "status",
    "who has which certificate, for how many days, and what all nodes must know; exits 1 when one is no good",
  )
    .action(async (dir, options) => (await load()).statusCommand(dir, options));
  add("rotate", "new certificates: pinned ones first wait, until every node has the new pins.pem")
    .option("--node <id...>", "of these nodes; default all").addOption(days()).addOption(host())
    .option("--ca", "a new authority, instead of new certificates of nodes")
    .action(async (dir, options) => (await load()).rotateCommand(dir, options));
  add("switch", "what waits takes its place; with DATABASE_URL set, only when every worker knows it").addOption(days())
    .addOption(host()).option("--force", "without asking the workers")
    .action(async (dir, options) => (await load()).switchCommand(dir, options));
  add("forget", "let a node, or certificates, be unknown from now on; with DATABASE_URL set, only what no worker shows")
    .argument("[what]", "a node's id, or the start of a fingerprint")
    .option("--former", "all certificates that a switch has replaced").option("--force", "without asking the workers")
    .action(async (dir, what, options) => (await load()).forgetCommand(dir, what, options));
}

function addFiles(program: Command): void {
  program.command("sync")
    .description("read jobs/, show what changes, and apply it as one transaction")
    .option("--plan", "only show")
    .option("--check", "change nothing; exit 2 when the files differ from what is stored")
    .addOption(json())
    .action(async (options) => (await import("./sync.ts")).syncCommand(options));
  program.command("new")
    .description("write a job file to start from")
    .argument("<name>", "the job's name: lower case, digits, _ . -")
    .action(async (name) => (await import("./new.ts")).newCommand(name));
  addSchedules(program.command("schedule").description("look at calendars, stop and start them, fill in their past"));
}

function addSchedules(schedule: Command): void {
  const load = () => import("./schedules.ts");
  const reason = () => new Option("--reason <text>", "kept in the audit").default("from the command line");
  schedule.command("ls").description("all schedules: when, the next fires, the last run, who paused them")
    .option("--job <name>", "of this job only").addOption(json())
    .action(async (options) => (await load()).listCommand(options));
  schedule.command("preview")
    .description("the next fires of a job, or of a schedule given here, as UTC instants")
    .argument("[name]", "a synced job, or JOB/ID for one of its schedules")
    .option("--every-n-minutes <n>", "1 to 1440")
    .option("--hourly-at-minute <m>", "0 to 59")
    .option("--daily-at <hh:mm>", "24 hours, such as 02:30")
    .option("--cron <pattern>", "five fields: minute hour day month weekday")
    .option("--timezone <zone>", "IANA name", "UTC")
    .option("--gap <policy>", "a time that does not exist: after, before or skip", "after")
    .option("--overlap <policy>", "a time that exists twice: first, second or both", "first")
    .option("--exclude <day...>", "days without fires: 2026-12-31, 12-25, or ranges such as 12-29/01-03")
    .option("--from <instant>", "strictly after this instant; default now")
    .option("--count <n>", "how many, at most 1000", countUpTo(1000), 5)
    .addOption(json())
    .action(async (name, options) => (await import("./schedule.ts")).previewCommand(name, options));
  const which = "JOB for all its schedules, or JOB/ID for one";
  for (const verb of ["pause", "resume"] as const) {
    schedule.command(verb).description(`${verb} schedules; events, and what is enqueued, go on`)
      .argument("<schedule>", which).addOption(reason()).addOption(json())
      .action(async (name, options) => (await load()).pauseCommand(name, options, verb === "pause"));
  }
  schedule.command("run").description("a run now, with the args that the schedule gives")
    .argument("<schedule>", "JOB, or JOB/ID if it has several").addOption(reason()).addOption(json())
    .action(async (name, options) => (await load()).runCommand(name, options));
  schedule.command("backfill").description("runs for the slots of a past range that have none, as a bulk")
    .argument("<schedule>", which)
    .requiredOption("--from <instant>", "slots from this instant on").requiredOption(
      "--to <instant>",
      "and before this one",
    )
    .option("--parallel <n>", "so many of its runs at once", wholeNumber, 1)
    .option("--priority <p>", "a number, lower first, or a name such as admin.high", "system.low")
    .option("--skipped", "also repeat slots whose run was SKIPPED")
    .option("--yes", "do it: without it, it only says what it would do").addOption(reason()).addOption(json())
    .action(async (name, options) => (await load()).backfillCommand(name, options));
}

function addWork(program: Command, signals: Signals): void {
  program.command("run")
    .description("enqueue a run of a job")
    .argument("<name>", "the job")
    .option("--args <json>", "its args", "{}")
    .option("--priority <p>", "a number, lower first, or a name such as admin.high")
    .option("--at <instant>", "not before this instant, ISO 8601")
    .option("--key <text>", "idempotency key: a second run with it is the first one")
    .option("--serial-key <text>", "runs with the same key go one at a time")
    .option("--node <id>", "the node that must run it")
    .option("--wait", "wait for its end, show its log, exit 0 only when it SUCCEEDED")
    .addOption(json())
    .action(async (name, options) => (await import("./run.ts")).runCommand(name, options, signals));
  program.command("emit")
    .description("emit an event")
    .argument("<type>", "e.g. device.export.requested")
    .option("--payload <json>", "becomes the args of the runs it starts", "{}")
    .option("--dedupe-key <text>", "an event with a key that was used before starts nothing")
    .addOption(json())
    .action(async (type, options) => (await import("./run.ts")).emitCommand(type, options));
}

function addEvents(program: Command): void {
  const events = program.command("events").description("look at events, and what came of them");
  events.command("ls").description("the newest events").option("--type <type>", "of this type only")
    .option("--limit <n>", "so many, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await import("./events.ts")).listCommand(options));
  events.command("show").description("one event").argument("<id>").addOption(json())
    .action(async (id, options) => (await import("./events.ts")).showCommand(id, options));
}

function addRuns(program: Command, signals: Signals): void {
  const runs = program.command("runs").description("look at runs, and act on them");
  runs.command("ls").description("the newest runs")
    .option("--job <name>", "of this job only").option("--state <state...>", "PENDING, RUNNING, FAILED, ...")
    .option("--where <name=value...>", WHERE)
    .option("--limit <n>", "so many, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await import("./runs.ts")).listCommand(options));
  runs.command("show").description("one run and its attempts").argument("<id>").addOption(json())
    .action(async (id, options) => (await import("./runs.ts")).showCommand(id, options));
  runs.command("logs").description("what a run printed and logged").argument("<id>")
    .option("-f, --follow", "go on until the run has ended").addOption(json())
    .action(async (id, options) => (await import("./runs.ts")).logsCommand(id, options, signals));
  many(runs.command("cancel").description("end a run that has not ended, or all that --where means").argument("[id]"))
    .action(async (id, options) => {
      if (!options.where) return (await import("./runs.ts")).cancelCommand(oneOf(id), options);
      return (await import("./many.ts")).cancelManyCommand(options);
    });
  many(runs.command("retry").description("a new run with the args of one that has ended, or of all that --where means"))
    .argument("[id]").option("--args <json>", "other args, for one run")
    .action(async (id, options) => {
      if (!options.where) return (await import("./runs.ts")).retryCommand(oneOf(id), options);
      return (await import("./many.ts")).retryManyCommand(options);
    });
  many(runs.command("reprioritize").description("another priority for runs that wait").argument("[id]"))
    .requiredOption("--priority <p>", "a number, lower first, or a name such as admin.high")
    .action(async (id, options) => (await import("./many.ts")).reprioritizeCommand(id, options));
  program.command("explain").description("why a run waits, or what became of it, in one sentence").argument("<id>")
    .addOption(json())
    .action(async (id, options) => (await import("./runs.ts")).explainCommand(id, options));
}

const WHERE = "all runs with job=, state=, serial-key=, node=, ran-on=, worker=, error=, bulk=, since=, until=";

/** What acts on one run or on many. */
function many(command: Command): Command {
  return command
    .option(
      "--where <name=value...>",
      WHERE,
    )
    .option("--yes", "do it: without it --where only says how many runs it means")
    .option("--reason <text>", "kept in the audit", "from the command line").addOption(json());
}

function oneOf(id: string | undefined): string {
  if (id !== undefined) return id;
  throw new CommandError("Name a run, or runs with --where job=NAME", EXIT.usage);
}

function addJobs(program: Command): void {
  const jobs = program.command("jobs").description("look at jobs, and set options of them beside their files");
  jobs.command("ls").description("all jobs: what starts them, when next, and what is set beside their files")
    .option("--all", "also those whose files were removed").addOption(json())
    .action(async (options) => (await import("./jobs.ts")).listCommand(options));
  jobs.command("show").description("one job: its options, what its file says and what is set beside it, by whom")
    .argument("<name>").addOption(json())
    .action(async (name, options) => (await import("./jobs.ts")).showCommand(name, options));
  jobs.command("set").description(
    "set options beside the job's file; they hold until they are reset, whatever is synced",
  )
    .argument("<name>")
    .argument(
      "<option=value...>",
      "such as priority=admin.high timeoutSeconds=60 retry.max=3 rate=60/1 node=none enabled=false schedule.nightly.dailyAt=03:00",
    )
    .option("--reason <text>", "kept in the audit, and shown", "from the command line").addOption(json())
    .action(async (name, wishes, options) => (await import("./jobs.ts")).setCommand(name, wishes, options));
  jobs.command("reset").description("let the file's values hold again, of these options or of all")
    .argument("<name>").argument("[option...]", "such as priority schedule.nightly")
    .option("--reason <text>", "kept in the audit", "from the command line").addOption(json())
    .action(async (name, names, options) => (await import("./jobs.ts")).resetCommand(name, names, options));
}

function addQueue(program: Command): void {
  const queue = program.command("queue").description("look at what waits; pause and resume it");
  queue.command("ls").description("what waits and why, job by job, and serial keys that are stopped").addOption(json())
    .action(async (options) => (await import("./queue.ts")).listCommand(options));
  for (const verb of ["pause", "resume"] as const) {
    queue.command(verb).description(`${verb} all dispatch, a job, or a serial key; what runs goes on`)
      .option("--job <name>", "this job only").option("--key <text>", "this serial key only")
      .option("--reason <text>", "kept in the audit", "from the command line").addOption(json())
      .action(async (options) => (await import("./queue.ts")).pauseCommand(options, verb === "pause"));
  }
  queue.command("unblock").description("let a serial key go on that a failure, or somebody, has stopped").argument(
    "<key>",
  )
    .option("--reason <text>", "kept in the audit", "from the command line").addOption(json())
    .action(async (key, options) => (await import("./queue.ts")).pauseCommand({ ...options, key }, false));
  const resources = program.command("resources").description("things of which there is only so much, such as licenses");
  resources.command("ls").description("how much there is, and how much is taken").addOption(json())
    .action(async (options) => (await import("./queue.ts")).resourcesCommand(options));
  resources.command("set").description("how much there is").argument("<name>").argument("<capacity>")
    .option("--reason <text>", "kept in the audit", "from the command line").addOption(json())
    .action(async (name, n, options) => (await import("./queue.ts")).setResourceCommand(name, n, options));
  resources.command("rm").description("take it away").argument("<name>")
    .option("--reason <text>", "kept in the audit", "from the command line").addOption(json())
    .action(async (name, options) => (await import("./queue.ts")).setResourceCommand(name, undefined, options));
}

function addBulks(program: Command): void {
  const bulk = program.command("bulk").description("many runs of one job, fed a few at a time");
  bulk.command("ls").description("the newest bulks").option("--open", "only those that have not ended")
    .option("--limit <n>", "so many, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await import("./bulk.ts")).listCommand(options));
  bulk.command("show").description("one bulk: how far, how fast, done when").argument("<id>").addOption(json())
    .action(async (id, options) => (await import("./bulk.ts")).showCommand(id, options));
  const start = bulk.command("start").description("make a bulk of a job").argument("<job>")
    .option(
      "--sql <query>",
      "its items: a query with a column args, e.g. select jsonb_build_object('id', id) as args ...",
    )
    .option("--items <file>", "its items: the args of one in each line, as JSON; - reads standard input")
    .option("--name <text>", "for people").option(
      "--key <text>",
      "idempotency key: a second bulk with it is the first one",
    )
    .option("--serial-key <text>", "bulks that share one go one after another")
    .option("--on-finish <job>", "a job that gets one run at its end")
    .option("--on-failure <job>", "a job that gets one run at its end if something failed").addOption(json())
    .action(async (name, options) => (await import("./bulk.ts")).startCommand(name, options));
  const set = bulk.command("set").description("change a bulk while it runs").argument("<id>")
    .option("--reason <text>", "kept in the audit").addOption(json())
    .action(async (id, options) => (await import("./bulk.ts")).setCommand(id, options));
  for (const command of [start, set]) {
    command.option("--parallel <n>", "so many of its runs at once").option(
      "--interval <seconds>",
      "from one feed to the next",
    )
      .option("--priority <p>", "a number, lower first, or a name such as admin.high; what waits moves as well")
      .option("--max-failures <n>", "more than these pause it; none: any number")
      .option("--throttle-above <share>", "halve what runs while more than this share fails, 0 to 1; none: off");
  }
  for (
    const [verb, what] of [["pause", "start nothing more of it"], ["resume", "go on"], [
      "cancel",
      "end it for good",
    ]] as const
  ) {
    bulk.command(verb).description(what).argument("<id>").option("--reason <text>", "kept in the audit").addOption(
      json(),
    )
      .action(async (id, options) => (await import("./bulk.ts")).stateCommand(id, verb, options));
  }
  bulk.command("retry").description("a new bulk of the items that failed").argument("<id>").addOption(json())
    .action(async (id, options) => (await import("./bulk.ts")).retryCommand(id, options));
  bulk.command("whatif").description("when it would be done with another parallel").argument("<id>")
    .requiredOption("--parallel <n>", "so many at once", wholeNumber).addOption(json())
    .action(async (id, options) => (await import("./bulk.ts")).whatIfCommand(id, options));
}

function addLooking(program: Command, signals: Signals): void {
  const nodes = program.command("nodes").description("look at nodes and their workers");
  nodes.command("ls").description("nodes and what their checks found; workers, their roles and loads").addOption(json())
    .action(async (options) => (await import("./nodes.ts")).listCommand(options));
  nodes.command("show").description("nodes, with each part of their last checks")
    .argument("[node]", "one of them; without it all, also those that no worker is alive on").addOption(json())
    .action(async (node, options) => (await import("./node_health.ts")).showNodesCommand(node, options));
  nodes.command("test").description("check a node now, exit 0 only when it is available").argument("<node>")
    .addOption(json())
    .action(async (node, options) => (await import("./node_health.ts")).testNodeCommand(node, options));
  nodes.command("set").description("change a node: its limit, its labels, maintenance; what runs goes on")
    .argument("<node>")
    .option("--max-concurrent <n>", "bodies on it at once; none: as many as its workers have slots")
    .option("--label <name=value...>", "such as gpu=a100; an empty value takes the label away")
    .option("--maintenance <on|off>", "on: it gets no new work and is not checked")
    .option("--reason <text>", "kept in the audit, and shown while in maintenance", "from the command line")
    .addOption(json())
    .action(async (node, options) => (await import("./node_health.ts")).setNodeCommand(node, options));
  for (const [verb, what] of [["drain", "take no new runs"], ["undrain", "take runs again"]] as const) {
    nodes.command(verb).description(`let a worker, or all of a node, ${what}`).argument(
      "<id>",
      "a worker's or node's id",
    )
      .option("--reason <text>", "kept in the audit", "from the command line").addOption(json())
      .action(async (id, options) => (await import("./nodes.ts")).drainCommand(id, options, verb === "drain"));
  }
  nodes.command("detach")
    .description(
      "take a worker, or all of a node, out of the work: it starts nothing more, and its bodies go on only while the leader confirms them",
    )
    .argument("<id>", "a worker's or node's id")
    .option("--reason <text>", "kept in the audit", "from the command line").addOption(json())
    .action(async (id, options) => (await import("./nodes.ts")).detachCommand(id, options));
  program.command("drill")
    .description("break the running dev on purpose, under a load of its own, and say what came of it")
    .argument("[name]", "which drill; without a name they are listed")
    .option("--all", "one after the other")
    .option("--yes <prefix>", "redis-flush may delete the keys with this prefix from a Redis that is not dev's own")
    .addOption(json())
    .action(async (name, options) => (await import("./drill.ts")).drillCommand(name, options, signals));
  program.command("doctor").description("check everything that a worker needs, and say how to mend what is missing")
    .addOption(json())
    .action(async (options) => (await import("./doctor.ts")).doctorCommand(options));
}

function wholeNumber(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1) return value;
  throw new CommandError(`Cannot use "${text}": give a whole number of at least 1`, EXIT.usage);
}

function portNumber(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0 && value <= 65_535) return value;
  throw new CommandError(`Cannot use "${text}" as a port: give a whole number from 0 to 65535`, EXIT.usage);
}

function countUpTo(most: number): (text: string) => number {
  return (text) => {
    if (wholeNumber(text) <= most) return Number(text);
    throw new CommandError(`Cannot use "${text}": give a whole number from 1 to ${most}`, EXIT.usage);
  };
}
