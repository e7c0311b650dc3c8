/** A flag for each kind of schedule. */
import type { Command } from "commander";
import { SCHEDULE_KINDS } from "../../schedule_kinds/kinds.ts";

/** `--daily-at` for `dailyAt`. */
export function flagOf({ option }: { option: string }): string {
  return `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

export function addScheduleFlags(command: Command): Command {
  for (const kind of SCHEDULE_KINDS) command.option(`${flagOf(kind)} <${kind.flag.value}>`, kind.flag.help);
  return command;
}
