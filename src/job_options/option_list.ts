/** Every option of a job by its full name, as the schema has it: for the table in the docs, what can be overridden, and what is shown of a job. */
import { z } from "zod";
import { jobSchema } from "./job_schema.ts";
import { nodeOf, type OptionColumn, type OptionNode } from "./option_node.ts";

export interface ListedOption {
  /** Such as "retry.max". */
  name: string;
  columns: readonly OptionColumn[];
  settable: boolean;
  /** What it takes, in words. */
  takes: string;
  /** What holds when it is left out, in words; empty: that is up to the option around it. */
  otherwise: string;
  /** What it does. */
  about: string;
}

export const OPTION_LIST: readonly ListedOption[] = listed(jobSchema, "");

/** What a row of definitions holds where a file leaves out every option. */
export function defaultColumns(): { readonly [Column in OptionColumn]?: unknown } {
  const { schedule: _, args: __, run: ___, ...columns } = jobSchema.parse({});
  return Object.assign({}, ...Object.values(columns));
}

function listed(schema: z.ZodType, prefix: string): ListedOption[] {
  return partsOf(nodeOf(schema)).flatMap(([name, part]) => {
    const node = nodeOf(part);
    const { about = part.description, columns = [], settable = false } = node.facts;
    const full = `${prefix}${name}`;
    const own = {
      name: full,
      columns,
      settable,
      takes: takenBy(node),
      otherwise: fallbackOf(node),
      about: about ?? "",
    };
    return [...(about === undefined && columns.length === 0 ? [] : [own]), ...listed(part, `${full}.`)];
  });
}

/** The options within an object, or within the object that a union or a list takes. */
function partsOf({ schema }: OptionNode): [string, z.ZodType][] {
  if (schema instanceof z.ZodObject) return Object.entries(schema.def.shape as Record<string, z.ZodType>);
  if (!(schema instanceof z.ZodUnion)) return [];
  return schema.def.options.map((option) => nodeOf(option as z.ZodType)).flatMap((option) =>
    option.facts.about === undefined && option.schema instanceof z.ZodObject ? partsOf(option) : []
  );
}

function takenBy({ schema, facts }: OptionNode): string {
  if (facts.takes) return facts.takes;
  if (schema instanceof z.ZodNumber) {
    const { minValue, maxValue, isInt } = schema as { minValue: number; maxValue: number; isInt: boolean };
    return `${minValue} to ${maxValue}${isInt ? "" : ", also fractions"}`;
  }
  if (schema instanceof z.ZodEnum) return wordsText(schema);
  if (schema instanceof z.ZodUnion) {
    return schema.def.options.map((one) => takenBy(nodeOf(one as z.ZodType))).join(", ");
  }
  if (schema instanceof z.ZodString) return "text";
  return schema.meta()?.title ?? (schema instanceof z.ZodObject ? "object" : "");
}

function wordsText(schema: z.ZodEnum): string {
  return schema.options.map((word) => `\`"${word}"\``).join(", ");
}

function fallbackOf({ facts, fallback, optional }: OptionNode): string {
  if (facts.otherwise !== undefined) return facts.otherwise;
  if (fallback === undefined) return optional ? "none" : "must be given";
  return typeof fallback === "object" ? "none" : `\`${JSON.stringify(fallback)}\``;
}

/** The table of all options, as it stands in docs/jobs.md. */
export function optionTable(): string {
  const cells = OPTION_LIST.filter(({ about }) => about !== "")
    .map(({ name, takes, otherwise, about }) =>
      [`\`${name}\``, takes, otherwise, about].map((cell) => cell.replaceAll("|", "\\|"))
    );
  const rows = [["option", "takes", "default", "meaning"], ...cells];
  const widths = [0, 1, 2, 3].map((column) => Math.max(...rows.map((row) => (row[column] as string).length)));
  const line = (row: string[]) => `| ${row.map((cell, column) => cell.padEnd(widths[column] as number)).join(" | ")} |`;
  const [head, ...others] = rows as [string[], ...string[][]];
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...others.map(line)].join("\n");
}
