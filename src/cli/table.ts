/**
 * Tables. To a terminal they are made to fit its width: first times lose what they have in common with now, then the widest
 * texts their ends. Anywhere else nothing is left out. Widths are counted in columns of the terminal, of which a Japanese
 * letter takes two.
 */
import stringWidth from "string-width";
import { wallClock } from "../platform/timers.ts";
import { harmless } from "../platform/text.ts";
import { say } from "../app/output.ts";
import { shortTimeText, timeText } from "./times.ts";
import { english } from "../locale/english.ts";

const GAP = 2;
/** No text is made shorter than this; what does not fit even so is wrapped by the terminal. */
const NARROWEST = 10;

/** Lines up columns. An empty table prints `when_empty`, since silence explains nothing. */
export function printTable(columns: string[], rows: unknown[][], when_empty: string): void {
  if (rows.length === 0) return say(when_empty);
  for (const line of tableLines(columns, rows, { width: terminalWidth(), now: wallClock() })) say(line);
}

/** Undefined: it is no terminal, or one that does not say. */
function terminalWidth(): number | undefined {
  if (!Deno.stdout.isTerminal()) return undefined;
  try {
    return Deno.consoleSize().columns || undefined;
  } catch {
    return undefined;
  }
}

export function tableLines(columns: string[], rows: unknown[][], to: { width?: number; now: Date }): string[] {
  const room = to.width === undefined ? Infinity : to.width - GAP * (columns.length - 1);
  let cells = [columns, ...rows.map((row) => row.map((value) => cellText(value, timeText)))];
  if (total(widthsOf(cells)) > room) {
    const short = (at: Date) => shortTimeText(at, to.now);
    cells = [columns, ...rows.map((row) => row.map((value) => cellText(value, short)))];
  }
  const of_texts = columns.map((_, place) => rows.some((row) => typeof row[place] === "string"));
  const widths = fitted(widthsOf(cells), of_texts, room);
  return cells.map((row) => row.map((cell, place) => padded(cell, widths[place] ?? 0)).join(" ".repeat(GAP)).trimEnd());
}

/** The widest texts give way, all of them to the same width; times and numbers stay whole. */
function fitted(widths: number[], of_texts: boolean[], room: number): number[] {
  let most = Math.max(...widths);
  const at = (most: number) => widths.map((width, place) => of_texts[place] ? Math.min(width, most) : width);
  while (most > NARROWEST && total(at(most)) > room) most--;
  const fit = at(most);
  const spare = room - total(fit); // less than there are columns that gave way: the last of them takes it
  const last = fit.findLastIndex((width, place) => width < (widths[place] ?? 0));
  return spare > 0 && last >= 0 ? fit.with(last, Math.min((fit[last] ?? 0) + spare, widths[last] ?? 0)) : fit;
}

function widthsOf(cells: string[][]): number[] {
  return (cells[0] ?? []).map((_, place) => Math.max(...cells.map((row) => stringWidth(row[place] ?? ""))));
}

function total(widths: number[]): number {
  return widths.reduce((sum, width) => sum + width, 0);
}

const letters = new Intl.Segmenter("en", { granularity: "grapheme" });

function padded(text: string, width: number): string {
  const taken = stringWidth(text);
  if (taken <= width) return text + " ".repeat(width - taken);
  let kept = "";
  let kept_width = 0;
  for (const { segment } of letters.segment(text)) {
    const more = stringWidth(segment);
    if (kept_width + more > width - 1) break;
    kept += segment;
    kept_width += more;
  }
  return `${kept}…${" ".repeat(width - 1 - kept_width)}`;
}

function cellText(value: unknown, time: (at: Date) => string): string {
  if (value === null || value === undefined) return "-";
  if (value instanceof Date) return time(value);
  return harmless(typeof value === "string" ? english(value) : JSON.stringify(value)).replace(/[\t\n]/g, " "); // a row is a line
}
