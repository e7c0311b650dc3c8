/** `sync`, `new`, `schedule`, `jobs`: what is made of job files, and what is set beside them. */
import type { Command } from "commander";
import { load } from "./load.ts";
import { addScheduleFlags } from "./schedule_flags.ts";
import { countUpTo, json, reason, wholeNumber } from "./options.ts";
import type { Signals } from "../../app/output.ts";

export function addFiles(program: Command, signals: Signals): void {
  program.command("sync")
    .description("read jobs/, show the changes, and apply them in one transaction")
    .option("--plan", "only show the changes")
    .option("--check", "change nothing; exit 2 if the files differ from the database")
    .option(
      "--yes",
      "allow removed jobs and older code; without it a terminal asks, and anything else is refused",
    )
    .addOption(reason()).addOption(json())
    .action(async (options) => (await load("files/sync")).syncCommand(options, signals));
  program.command("new")
    .description("create a job file from a template")
    .argument("<name>", "job name: lower case, digits, _ . -")
    .action(async (name) => (await load("files/new")).newCommand(name));
  addSchedules(program.command("schedule").description("show, preview, pause and backfill schedules"));
}

function addSchedules(schedule: Command): void {
  schedule.command("ls").description("list schedules with rule, next slots, last run and pauses")
    .option("--job <name>", "only of this job").addOption(json())
    .action(async (options) => (await load("files/schedules")).listCommand(options));
  addScheduleFlags(
    schedule.command("preview")
      .description("show the next slots of a job, or of a schedule given by options")
      .argument("[name]", "a synced job, or JOB/ID for one of its schedules"),
  )
    .option("--timezone <zone>", "IANA name", "UTC")
    .option("--gap <policy>", "a local time that does not exist (DST): after, before or skip", "after")
    .option("--overlap <policy>", "a local time that exists twice (DST): first, second or both", "first")
    .option("--exclude <day...>", "days without slots: 2026-12-31, 12-25, or ranges such as 12-29/01-03")
    .option("--from <instant>", "slots after this instant, or 3d for three days from now; default now")
    .option("--count <n>", "number of slots, at most 1000", countUpTo(1000), 5)
    .addOption(json())
    .action(async (name, options) => (await load("files/schedule")).previewCommand(name, options));
  const which = "JOB for all its schedules, or JOB/ID for one";
  for (const verb of ["pause", "resume"] as const) {
    schedule.command(verb).description(`${verb} schedules; runs by events and runs already enqueued go on`)
      .argument("<schedule>", which).addOption(reason()).addOption(json())
      .action(async (name, options) => (await load("files/schedules")).pauseCommand(name, options, verb === "pause"));
  }
  schedule.command("run").description("start a run now, with the schedule's args")
    .argument("<schedule>", "JOB, or JOB/ID if it has several").addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("files/schedules")).runCommand(name, options));
  schedule.command("backfill").description("create runs for past slots that have none, as a bulk")
    .argument("<schedule>", which)
    .requiredOption("--from <instant>", "slots from this instant on, or 3d for three days ago").requiredOption(
      "--to <instant>",
      "slots before this instant",
    )
    .option("--parallel <n>", "number of its runs at once", wholeNumber, 1)
    .option("--priority <p>", "a number, lower first, or a name such as admin.high", "system.low")
    .option("--skipped", "also repeat slots whose run was SKIPPED")
    .option("--alone", "without the runs of jobs that come `after` this one")
    .option("--yes", "create the runs; without it only the plan is shown").addOption(reason()).addOption(json())
    .action(async (name, options) => (await load("files/schedules")).backfillCommand(name, options));
}

export function addJobs(program: Command): void {
  const jobs = program.command("jobs").description("show jobs, and override options of their files")
    .addHelpText(
      "after",
      "\nPause a job: deno task queue pause --job NAME. Pause only its schedules: deno task schedule pause NAME.",
    );
  jobs.command("ls").description("list jobs with triggers, next slot and overrides")
    .option("--all", "include jobs whose files were removed").addOption(json())
    .action(async (options) => (await load("files/jobs")).listCommand(options));
  jobs.command("show").description("show a job's options: value in the file, override, and who set it")
    .argument("<name>").addOption(json())
    .action(async (name, options) => (await load("files/jobs")).showCommand(name, options));
  jobs.command("set").description(
    "override options of a job file; an override wins over the file until it is reset",
  )
    .argument("<name>")
    .argument(
      "<option=value...>",
      "such as priority=admin.high timeoutSeconds=60 retry.max=3 rate=60/1 node=none enabled=false schedule.nightly.dailyAt=03:00",
    )
    .addOption(reason("stored in the audit log, and shown")).addOption(json())
    .action(async (name, wishes, options) => (await load("files/jobs")).setCommand(name, wishes, options));
  jobs.command("reset").description("remove overrides of these options, or of all; the file's values apply again")
    .argument("<name>").argument("[option...]", "such as priority schedule.nightly")
    .addOption(reason()).addOption(json())
    .action(async (name, names, options) => (await load("files/jobs")).resetCommand(name, names, options));
}
