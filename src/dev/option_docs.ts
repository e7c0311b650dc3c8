/** Writes the table of a job's options into docs/jobs.md, between its marks: `deno task docs:options`. */
import { optionTable } from "../job_options/option_list.ts";
import { PROJECT_DIR } from "../platform/config.ts";

const FILE = `${PROJECT_DIR}/docs/jobs.md`;
const MARKED = /(<!-- options: .*? -->\n\n)[\s\S]*?(\n\n<!-- end of options -->)/;

/** The text of docs/jobs.md as it is, and as it should be. */
export function optionDocs(): { found: string; wanted: string } {
  const found = Deno.readTextFileSync(FILE);
  if (!MARKED.test(found)) {
    throw new Error(`Cannot write the table of options: ${FILE} has lost the marks around it; put them back`);
  }
  return { found, wanted: found.replace(MARKED, (_, before, after) => `${before}${optionTable()}${after}`) };
}

if (import.meta.main) Deno.writeTextFileSync(FILE, optionDocs().wanted);
