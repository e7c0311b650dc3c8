/** Kinds whose value is a whole number. */
import { shown } from "../platform/shown.ts";
import type { ParsedValue } from "./kind.ts";

export function wholeNumber(value: unknown, range: { least: number; most: number }, rather = ""): ParsedValue {
  const { least, most } = range;
  if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most) {
    return { value: String(value) };
  }
  const wanted = `a whole number from ${least} to ${most}`;
  return {
    reason: `must be ${wanted}: current value is ${shown(value)}`,
    fix: `give ${wanted}${rather}`,
    says: { code: "number", least, most, whole: true },
  };
}

export function typedNumber(text: string): number | string {
  return text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
}
