/** `queue`, `resources`, `bulk`: what waits, and what it waits for. */
import type { Command } from "commander";
import { load } from "./load.ts";
import { countUpTo, json, reason, wholeNumber } from "./options.ts";

export function addQueue(program: Command): void {
  const queue = program.command("queue").description("show waiting runs; pause and resume dispatch");
  queue.command("ls").description("list waiting runs per job with the reason, and paused serial keys").addOption(json())
    .action(async (options) => (await load("runs/queue")).listCommand(options));
  for (const verb of ["pause", "resume"] as const) {
    queue.command(verb).description(`${verb} a job, a serial key, or all dispatch; running bodies go on`)
      .option("--job <name>", "only this job").option("--key <text>", "only this serial key")
      .option("--all", "all dispatch, of every job")
      .addOption(reason()).addOption(json())
      .action(async (options) => (await load("runs/queue")).pauseCommand(options, verb === "pause"));
  }
  queue.command("unblock").description("resume a serial key that a failure or an operator has paused").argument(
    "<key>",
  )
    .addOption(reason()).addOption(json())
    .action(async (key, options) => (await load("runs/queue")).pauseCommand({ ...options, key }, false));
  const resources = program.command("resources").description(
    "named quantities that running runs share, such as licenses",
  );
  resources.command("ls").description("list resources with capacity and use").addOption(json())
    .action(async (options) => (await load("runs/queue")).resourcesCommand(options));
  resources.command("set").description("set a resource's capacity").argument("<name>").argument("<capacity>")
    .addOption(reason()).addOption(json())
    .action(async (name, n, options) => (await load("runs/queue")).setResourceCommand(name, n, options));
  resources.command("rm").description("remove a resource").argument("<name>")
    .addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("runs/queue")).setResourceCommand(name, undefined, options));
}

export function addBulks(program: Command): void {
  const bulk = program.command("bulk").description("many runs of one job, fed a few at a time");
  bulk.command("ls").description("list the newest bulks").option("--open", "only bulks that have not ended")
    .option("--limit <n>", "number of rows, at most 1000", countUpTo(1000), 20).addOption(json())
    .action(async (options) => (await load("runs/bulk")).listCommand(options));
  bulk.command("show").description("show a bulk: progress, rate and forecast").argument("<id>").addOption(json())
    .action(async (id, options) => (await load("runs/bulk")).showCommand(id, options));
  const start = bulk.command("start").description("start a bulk of a job").argument("<job>")
    .option(
      "--sql <query>",
      "items from a query with a column args, e.g. select jsonb_build_object('id', id) as args ...",
    )
    .option("--items <file>", "items from a file with one item's args as JSON per line; -: standard input")
    .option("--name <text>", "a name to show").option(
      "--key <text>",
      "idempotency key: starting again with the same key returns the first bulk",
    )
    .option("--serial-key <text>", "bulks and runs with the same key go one after another")
    .option("--on-finish <job>", "a job that gets one run at the end")
    .option("--on-failure <job>", "a job that gets one run at the end if an item failed").addOption(json())
    .action(async (name, options) => (await load("runs/bulk")).startCommand(name, options));
  const set = bulk.command("set").description("change a bulk while it runs").argument("<id>")
    .option("--reason <text>", "stored in the audit log").addOption(json())
    .action(async (id, options) => (await load("runs/bulk")).setCommand(id, options));
  for (const command of [start, set]) {
    command.option("--parallel <n>", "number of its runs at once").option(
      "--interval <seconds>",
      "seconds between two batches of runs",
    )
      .option("--priority <p>", "a number, lower first, or a name such as admin.high; also for its waiting runs")
      .option("--max-failures <n>", "pause the bulk after more failures than this; none: no limit")
      .option("--throttle-above <share>", "halve the parallelism while more than this share fails, 0 to 1; none: off");
  }
  for (
    const [verb, what] of [["pause", "start no more of its runs"], ["resume", "resume a paused bulk"], [
      "cancel",
      "end a bulk for good",
    ]] as const
  ) {
    bulk.command(verb).description(what).argument("<id>").option("--reason <text>", "stored in the audit log")
      .addOption(
        json(),
      )
      .action(async (id, options) => (await load("runs/bulk")).stateCommand(id, verb, options));
  }
  bulk.command("retry").description("start a new bulk of the failed items").argument("<id>").addOption(json())
    .action(async (id, options) => (await load("runs/bulk")).retryCommand(id, options));
  bulk.command("whatif").description("forecast the end with another parallelism").argument("<id>")
    .requiredOption("--parallel <n>", "number of its runs at once", wholeNumber).addOption(json())
    .action(async (id, options) => (await load("runs/bulk")).whatIfCommand(id, options));
}
