/** Whether names that runs have recorded still stand in the code of their job. A hint for people: what code puts together is not known before it runs. */
import type { RecordedName } from "../steps/journals_in_flight.ts";

/** Those of which no file has the text, neither as it is nor as what a template such as `${which} mail` may become. */
export async function namesNotIn(files: readonly string[], names: readonly RecordedName[]): Promise<RecordedName[]> {
  const sources = await Promise.all(files.map((file) => Deno.readTextFile(file).catch(() => "")));
  const templates = sources.flatMap(templatesIn);
  return names.filter(({ name }) =>
    !sources.some((source) => source.includes(name)) && !templates.some((template) => template.test(name))
  );
}

/** Of each template with a hole and some text of its own: what it may become. */
function templatesIn(source: string): RegExp[] {
  return [...source.matchAll(/`((?:\\.|[^`\\])*)`/gs)].flatMap(([, inside = ""]) => {
    const parts = inside.split(/\$\{[^}]*\}/);
    if (parts.length < 2 || !/[\p{L}\p{N}]/u.test(parts.join(""))) return [];
    return [new RegExp(`^${parts.map((part) => RegExp.escape(part)).join(".*")}$`, "s")];
  });
}
