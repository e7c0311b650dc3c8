/** The exported functions of the rooms that own tables, the fence itself apart: which take a leader's term, and who imports them. */
import { sourcesIn } from "./source_tree.ts";

export interface BareSql {
  path: string;
  name: string;
  /** The whole function. */
  text: string;
  /** It is called with the `Term` of a leader. */
  takes_term: boolean;
  /** The files that import it. */
  used_by: string[];
}

/** What changes a table. */
export const SQL_WRITES = /\b(insert into|delete from|truncate|update \w+ (\w+ )?set)\b/;

/** Rooms whose files own tables. */
const WITH_TABLES =
  /^src\/(postgres|settings|access|nodes|definitions|runs|alerts|schedules|stats|events|bulks|steps|dispatch)\//;

export function storeFunctions(): BareSql[] {
  const sources = sourcesIn("src");
  return sources.filter(({ path }) => WITH_TABLES.test(path)).flatMap(({ path, text }) =>
    [...text.matchAll(/^export (?:async )?function (?!fence(?:OfTick|Beside)?\b)(\w+)[\s\S]*?^\}/gm)].map((
      [whole, name = ""],
    ) => ({
      path,
      name,
      text: whole,
      takes_term: /\bterm: Term\b/.test(whole.slice(0, whole.indexOf("{\n"))),
      used_by: sources.filter((other) => other.path !== path && imports(other.text, name)).map((other) => other.path),
    }))
  );
}

function imports(text: string, name: string): boolean {
  return [...text.matchAll(/^import \{([^}]*)\} from "\./gm)]
    .some(([, names = ""]) => names.split(",").some((one) => one.trim() === name));
}
