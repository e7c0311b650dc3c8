/** What options of several commands have in common. */
import { Option } from "commander";
import { CommandError, EXIT } from "../../app/output.ts";

export const reason = (about = "stored in the audit log") => new Option("--reason <text>", about);

export const json = () => new Option("--json", "print JSON instead of text");

export function wholeNumber(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1) return value;
  throw new CommandError(`Cannot use "${text}": give a whole number of at least 1`, EXIT.usage);
}

export function portNumber(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value <= 65_535) return value;
  throw new CommandError(`Cannot use "${text}" as a port: give a whole number from 0 to 65535`, EXIT.usage);
}

export function countUpTo(most: number): (text: string) => number {
  return (text) => {
    if (wholeNumber(text) <= most) return Number(text);
    throw new CommandError(`Cannot use "${text}": give a whole number from 1 to ${most}`, EXIT.usage);
  };
}
