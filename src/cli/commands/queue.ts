/** `queue`, `resources`, `bulk`: what waits, and what it waits for. */
import type { Command } from "commander";
import { load } from "./load.ts";
import { countUpTo, json, reason, wholeNumber } from "./options.ts";

export function addQueue(program: Command): void {
  const queue = program.command("queue").description("look at what waits; pause and resume it");
  queue.command("ls").description("what waits and why, job by job, and serial keys that are stopped").addOption(json())
    .action(async (options) => (await load("runs/queue")).listCommand(options));
  for (const verb of ["pause", "resume"] as const) {
    queue.command(verb).description(`${verb} a job, a serial key, or all dispatch; what runs goes on`)
      .option("--job <name>", "this job only").option("--key <text>", "this serial key only")
      .option("--all", "all dispatch: every job")
      .addOption(reason()).addOption(json())
      .action(async (options) => (await load("runs/queue")).pauseCommand(options, verb === "pause"));
  }
  queue.command("unblock").description("let a serial key go on that a failure, or somebody, has stopped").argument(
    "<key>",
  )
    .addOption(reason()).addOption(json())
    .action(async (key, options) => (await load("runs/queue")).pauseCommand({ ...options, key }, false));
  const resources = program.command("resources").description("things of which there is only so much, such as licenses");
  resources.command("ls").description("how much there is, and how much is taken").addOption(json())
    .action(async (options) => (await load("runs/queue")).resourcesCommand(options));
  resources.command("set").description("how much there is").argument("<name>").argument("<capacity>")
    .addOption(reason()).addOption(json())
    .action(async (name, n, options) => (await load("runs/queue")).setResourceCommand(name, n, options));
  resources.command("rm").description("take it away").argument("<name>")
    .addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("runs/queue")).setResourceCommand(name, undefined, options));
}

export function addBulks(program: Command): void {
  const bulk = program.command("bulk").description("many runs of one job, fed a few at a time");
  bulk.command("ls").description("the newest bulks").option("--open", "only those that have not ended")
    .option("--limit <n>", "so many, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await load("runs/bulk")).listCommand(options));
  bulk.command("show").description("one bulk: how far, how fast, done when").argument("<id>").addOption(json())
    .action(async (id, options) => (await load("runs/bulk")).showCommand(id, options));
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
    .option("--serial-key <text>", "bulks and runs that share one go one after another")
    .option("--on-finish <job>", "a job that gets one run at its end")
    .option("--on-failure <job>", "a job that gets one run at its end if something failed").addOption(json())
    .action(async (name, options) => (await load("runs/bulk")).startCommand(name, options));
  const set = bulk.command("set").description("change a bulk while it runs").argument("<id>")
    .option("--reason <text>", "kept in the audit").addOption(json())
    .action(async (id, options) => (await load("runs/bulk")).setCommand(id, options));
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
      .action(async (id, options) => (await load("runs/bulk")).stateCommand(id, verb, options));
  }
  bulk.command("retry").description("a new bulk of the items that failed").argument("<id>").addOption(json())
    .action(async (id, options) => (await load("runs/bulk")).retryCommand(id, options));
  bulk.command("whatif").description("when it would be done with another parallel").argument("<id>")
    .requiredOption("--parallel <n>", "so many at once", wholeNumber).addOption(json())
    .action(async (id, options) => (await load("runs/bulk")).whatIfCommand(id, options));
}
