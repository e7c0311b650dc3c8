/** Which declarations write to the database, themselves or by what they use: found in the text of each, not told. */
import type { Source } from "./source_tree.ts";
import { dirname, join, normalize } from "node:path";

/** A declaration at the top of a file. */
interface Declared {
  text: string;
  /** It is an act of the registry: `action({ ... })`. */
  is_action: boolean;
}

interface Imported {
  /** A path from the project's folder. */
  from: string;
  /** "*": all of it. */
  name: string;
}

interface Module {
  declared: Map<string, Declared>;
  /** By the local name. Of types too, which write nothing. */
  imported: Map<string, Imported>;
}

const WRITE =
  /(insert into|delete from|pg_notify\(|truncate |lock table|for update|merge into)|\bupdate (only )?[a-z_]+( [a-z])?\s+set\b/;
const DECLARED =
  /^(?:export )?(?:default )?(?:async )?(?:abstract )?(?:function\*?|class|const|let) (?:(\w+)|\[([^\]]*)\]|\{([^}]*)\})/;

export function modulesOf(sources: readonly Source[]): Map<string, Module> {
  return new Map(sources.map((source) => [source.path, moduleOf(source)]));
}

function moduleOf({ path, text }: Source): Module {
  const module: Module = { declared: new Map(), imported: new Map() };
  for (const [, what = "", from = ""] of text.matchAll(/^import ([^;]*?) from "(\.[^"]*)";/gms)) {
    const target = normalize(join(dirname(path), from));
    const [, all] = /^\* as (\w+)$/.exec(what.trim()) ?? [];
    if (all) module.imported.set(all, { from: target, name: "*" });
    if (what.startsWith("type ")) continue;
    for (const part of (/\{([^}]*)\}/s.exec(what)?.[1] ?? "").split(",")) {
      const [, type, name = "", local = name] = /^\s*(type )?(\w+)(?: as (\w+))?\s*$/.exec(part) ?? [];
      if (name && !type) module.imported.set(local, { from: target, name });
    }
  }
  for (
    const chunk of text.split(
      /^(?=(?:export |async |function|class |const |let |abstract |interface |type |\/\*\*|\/\/))/m,
    )
  ) {
    const [, one, some] = DECLARED.exec(chunk) ?? [];
    for (const name of (one ?? some ?? "").split(",").map((each) => each.trim()).filter(Boolean)) {
      module.declared.set(name, { text: chunk, is_action: /^export const \w+ = action\(\{/.test(chunk) });
    }
  }
  return module;
}

/** Why a declaration writes: the way to the statement, such as "pauseJob (src/dispatch/pauses.ts)"; undefined: it does not. */
export class Writers {
  readonly #found = new Map<string, string | undefined>();

  constructor(readonly modules: ReadonlyMap<string, Module>) {}

  /** Of all that a file declares. */
  waysIn(path: string): string[] {
    return [...this.modules.get(path)?.declared.keys() ?? []].flatMap((name) => this.wayOf(path, name) ?? []);
  }

  wayOf(path: string, name: string): string | undefined {
    const key = `${path}#${name}`;
    if (this.#found.has(key)) return this.#found.get(key);
    this.#found.set(key, undefined); // while it is looked at: a circle adds nothing
    const way = this.#look(path, name);
    this.#found.set(key, way);
    return way;
  }

  #look(path: string, name: string): string | undefined {
    const module = this.modules.get(path);
    if (!module) return undefined;
    const here = module.declared.get(name);
    if (!here || here.is_action) return undefined;
    if (WRITE.test(withoutComments(here.text).replace(/"(?:[^"\\\n]|\\.)*"/g, ""))) return `${name} (${path})`;
    for (const used of new Set(withoutComments(here.text).match(/(?<![.\w"'])[A-Za-z_]\w*/g))) {
      if (used === name) continue;
      const imported = module.imported.get(used);
      const way = imported ? this.wayOfImport(imported, here.text, used) : this.wayOf(path, used);
      if (way) return `${name} -> ${way}`;
    }
    return undefined;
  }

  /** Of all of a file, what is named: `pages.show`. */
  wayOfImport({ from, name }: Imported, text = "", local = name): string | undefined {
    if (name !== "*") return this.wayOf(from, name);
    for (const [, member = ""] of text.matchAll(new RegExp(`\\b${local}\\.(\\w+)`, "g"))) {
      const way = this.wayOf(from, member);
      if (way) return way;
    }
    return undefined;
  }
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
}
