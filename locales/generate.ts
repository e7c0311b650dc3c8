/** Sorts the texts of both languages by key, and writes params.ts: what each text is about. Run it by `deno task locales`. */
import { argumentsIn, type Lang, LANGS, parsed, textsOf } from "../src/locale/locale.ts";

const HEAD = `/** The params of each text, written by \`deno task locales\` from en.json and ja.json: change those. */
// deno-fmt-ignore-file
type None = Record<string, never>;
type One = string | number | { code: string; params?: object };
type Text = One | readonly One[];
type Count = string | number;
type Instant = string | Date;
type Optional = Text | null | undefined;

export interface Messages {
`;

export function paramsFile(): string {
  const lines = Object.keys(textsOf("en")).sort().map((key) => `  ${JSON.stringify(key)}: ${typeOf(key)};\n`);
  return `${HEAD}${lines.join("")}}\n`;
}

/** The name of each param of a text, with its type. @throws SyntaxError */
export function paramsIn(lang: Lang, key: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const { name, kind, options } of argumentsIn(parsed(textsOf(lang)[key] ?? "", lang).getAst())) {
    const optional = kind === "select" && /^has_(.+)/.exec(name)?.[1];
    if (optional) found.set(optional, found.get(optional) === "Instant" ? "Instant | null" : "Optional");
    else if (kind === "instant" && found.get(name) === "Optional") found.set(name, "Instant | null");
    else if (kind !== "text" || !found.has(name)) {
      found.set(
        name,
        kind === "select"
          ? chosenFrom(options)
          : { text: "Text", number: "number", instant: "Instant", plural: "Count" }[kind],
      );
    }
  }
  return found;
}

function chosenFrom(options: string[]): string {
  return options.every((option) => ["true", "false", "other"].includes(option)) ? "boolean" : "Count";
}

/** A language may count what the other one only names. */
function typeOf(key: string): string {
  const [here = new Map(), there = new Map()] = LANGS.map((lang) => paramsIn(lang, key));
  const names = [...new Set([...here.keys(), ...there.keys()])].sort();
  const types = names.map((name) => {
    const kinds = [here.get(name), there.get(name)];
    return `${name}: ${kinds.find((kind) => kind && kind !== "Text") ?? "Text"}`;
  });
  return types.length === 0 ? "None" : `{ ${types.join("; ")} }`;
}

if (import.meta.main) {
  const folder = new URL(".", import.meta.url);
  for (const lang of LANGS) {
    const sorted = Object.entries(textsOf(lang)).sort(([a], [b]) => a < b ? -1 : 1);
    Deno.writeTextFileSync(new URL(`${lang}.json`, folder), `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`);
  }
  Deno.writeTextFileSync(new URL("params.ts", folder), paramsFile());
}
