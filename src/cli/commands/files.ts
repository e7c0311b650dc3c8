/** `sync`, `new`, `schedule`, `jobs`: what is made of job files, and what is set beside them. */
import type { Command } from "commander";
import { load } from "./load.ts";
import { countUpTo, json, reason, wholeNumber } from "./options.ts";
import type { Signals } from "../../app/output.ts";

export function addFiles(program: Command, signals: Signals): void {
  program.command("sync")
    .description("read jobs/, show what changes, and apply it as one transaction")
    .option("--plan", "only show")
    .option("--check", "change nothing; exit 2 when the files differ from what is stored")
    .option(
      "--yes",
      "jobs may be removed and older code may come back; without it a terminal is asked, and anybody else refused",
    )
    .addOption(reason()).addOption(json())
    .action(async (options) => (await load("files/sync")).syncCommand(options, signals));
  program.command("new")
    .description("write a job file to start from")
    .argument("<name>", "the job's name: lower case, digits, _ . -")
    .action(async (name) => (await load("files/new")).newCommand(name));
  addSchedules(program.command("schedule").description("look at calendars, stop and start them, fill in their past"));
}

function addSchedules(schedule: Command): void {
  schedule.command("ls").description("all schedules: when, the next fires, the last run, who paused them")
    .option("--job <name>", "of this job only").addOption(json())
    .action(async (options) => (await load("files/schedules")).listCommand(options));
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
    .option("--from <instant>", "strictly after this instant, or 3d for so long from now; default now")
    .option("--count <n>", "how many, at most 1000", countUpTo(1000), 5)
    .addOption(json())
    .action(async (name, options) => (await load("files/schedule")).previewCommand(name, options));
  const which = "JOB for all its schedules, or JOB/ID for one";
  for (const verb of ["pause", "resume"] as const) {
    schedule.command(verb).description(`${verb} schedules; events, and what is enqueued, go on`)
      .argument("<schedule>", which).addOption(reason()).addOption(json())
      .action(async (name, options) => (await load("files/schedules")).pauseCommand(name, options, verb === "pause"));
  }
  schedule.command("run").description("a run now, with the args that the schedule gives")
    .argument("<schedule>", "JOB, or JOB/ID if it has several").addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("files/schedules")).runCommand(name, options));
  schedule.command("backfill").description("runs for the slots of a past range that have none, as a bulk")
    .argument("<schedule>", which)
    .requiredOption("--from <instant>", "slots from this instant on, or 3d for so long ago").requiredOption(
      "--to <instant>",
      "and before this one",
    )
    .option("--parallel <n>", "so many of its runs at once", wholeNumber, 1)
    .option("--priority <p>", "a number, lower first, or a name such as admin.high", "system.low")
    .option("--skipped", "also repeat slots whose run was SKIPPED")
    .option("--yes", "do it: without it, it only says what it would do").addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("files/schedules")).backfillCommand(name, options));
}

export function addJobs(program: Command): void {
  const jobs = program.command("jobs").description("look at jobs, and set options of them beside their files")
    .addHelpText(
      "after",
      "\nTo pause one: deno task queue pause --job NAME, or its schedules alone: deno task schedule pause.",
    );
  jobs.command("ls").description("all jobs: what starts them, when next, and what is set beside their files")
    .option("--all", "also those whose files were removed").addOption(json())
    .action(async (options) => (await load("files/jobs")).listCommand(options));
  jobs.command("show").description("one job: its options, what its file says and what is set beside it, by whom")
    .argument("<name>").addOption(json())
    .action(async (name, options) => (await load("files/jobs")).showCommand(name, options));
  jobs.command("set").description(
    "set options beside the job's file; they hold until they are reset, whatever is synced",
  )
    .argument("<name>")
    .argument(
      "<option=value...>",
      "such as priority=admin.high timeoutSeconds=60 retry.max=3 rate=60/1 node=none enabled=false schedule.nightly.dailyAt=03:00",
    )
    .addOption(reason("kept in the audit, and shown")).addOption(json())
    .action(async (name, wishes, options) => (await load("files/jobs")).setCommand(name, wishes, options));
  jobs.command("reset").description("let the file's values hold again, of these options or of all")
    .argument("<name>").argument("[option...]", "such as priority schedule.nightly")
    .addOption(reason()).addOption(json())
    .action(async (name, names, options) => (await load("files/jobs")).resetCommand(name, names, options));
}
