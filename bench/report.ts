/** What a run of the bench leaves: a table for people, `figures.json`, `report.md` and the picture `report.svg`. */
import { picture } from "./picture.ts";
import { type Verdict, verdicts } from "./targets.ts";
import type { Figure } from "./workload.ts";

/** The figures of earlier runs in this folder, less those that were measured anew. */
export function withEarlier(dir: string, found: Figure[]): Figure[] {
  try {
    const earlier: Figure[] = JSON.parse(Deno.readTextFileSync(`${dir}/figures.json`)).figures;
    const anew = new Set(found.map(nameOf));
    return [...earlier.filter((figure) => !anew.has(nameOf(figure))), ...found];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return found;
    throw error;
  }
}

export function writeReport(dir: string, found: Figure[]): string {
  Deno.mkdirSync(dir, { recursive: true });
  const judged = verdicts(found);
  Deno.writeTextFileSync(
    `${dir}/figures.json`,
    `${JSON.stringify({ ...machine(), figures: found, verdicts: judged }, null, 2)}\n`,
  );
  Deno.writeTextFileSync(`${dir}/report.svg`, picture(found));
  const text = `${table(judged)}\n\n${figuresTable(found)}\n`;
  Deno.writeTextFileSync(`${dir}/report.md`, text);
  return table(judged);
}

/** Machines differ, so figures say of which one they are. */
function machine() {
  return { deno: Deno.version.deno, os: Deno.build.target, cores: navigator.hardwareConcurrency };
}

function table(judged: Verdict[]): string {
  const rows = judged.map(({ what, value, target, met }) => [
    what,
    value,
    target,
    met === undefined
      ? (value === "-" ? "not measured" : target === "as it is" ? "" : "not measured")
      : met
      ? "met"
      : "NOT MET",
  ]);
  return columns([["target", "measured", "wanted", "verdict"], ...rows]);
}

function figuresTable(found: Figure[]): string {
  const rows = found.map(({ workload, who, how, measure, value, unit, n }) => [
    workload,
    `${who}, ${how}`,
    measure,
    `${value} ${unit}`,
    String(n),
  ]);
  return columns([["workload", "who, how", "measure", "value", "n"], ...rows]);
}

/** A table of Markdown, aligned so that it can be read as it is. */
function columns([head, ...rows]: string[][]): string {
  const all = [head as string[], ...rows];
  const widths = (head as string[]).map((_, place) => Math.max(...all.map((row) => (row[place] ?? "").length)));
  const line = (row: string[]) => `| ${row.map((cell, place) => cell.padEnd(widths[place] ?? 0)).join(" | ")} |`;
  return [line(head as string[]), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...rows.map(line)]
    .join("\n");
}

function nameOf({ workload, who, how, measure }: Figure): string {
  return JSON.stringify([workload, who, how, measure]);
}
