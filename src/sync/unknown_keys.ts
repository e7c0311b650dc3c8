/**
 * Keys of args that the schema of a job does not name. A schema that drops them says nothing, so a letter too many
 * (`nmae`) is a run without a name. Nothing is refused for it: what one version sends, another may know.
 */
import { counted } from "../platform/text.ts";
import type { Json } from "../job.ts";
import { isRecord, wordLike } from "../platform/shown.ts";

export interface UnknownKey {
  /** With what is above it: "devices.0.nmae". */
  path: string;
  key: string;
  /** The key that is most likely meant. */
  like?: string;
}

/** Places of args and schema that are looked at together. A schema that refers to itself in unions could take for ever. */
const MOST_LOOKS = 20_000;
/** One that refers to nothing but itself. */
const DEEPEST = 1_000;
const MOST_SHOWN = 20;

/** Those that no part of the schema (JSON Schema) knows, the first of them; none where it says nothing, or is too long to follow. */
export function unknownKeys(schema: Json, args: unknown): UnknownKey[] {
  const walk = new Walk(schema);
  const found = walk.look(schema, args, []);
  return walk.left < 0 || !found ? [] : [...found.values()].slice(0, MOST_SHOWN);
}

type Found = Map<string, UnknownKey>;
type Keywords = { readonly [keyword: string]: Json | undefined };

class Walk {
  left = MOST_LOOKS;
  #depth = 0;
  readonly #root: Json;

  constructor(root: Json) {
    this.#root = root;
  }

  /** Undefined: the schema is for other values than this. */
  look(schema: Json | undefined, value: unknown, path: readonly string[]): Found | undefined {
    if (++this.#depth > DEEPEST) this.left = 0;
    const found = --this.left < 0 || !isRecord(schema) ? new Map() : this.#lookAt(schema, value, path);
    this.#depth--;
    return found;
  }

  #lookAt(schema: object, value: unknown, path: readonly string[]): Found | undefined {
    const keywords = schema as Keywords;
    if (typeof keywords.$ref === "string") return this.look(this.#named(keywords.$ref), value, path);
    if (!isFor(keywords, value)) return undefined;
    const own = Array.isArray(value)
      ? this.#inList(keywords, value, path)
      : isRecord(value)
      ? this.#inObject(keywords, value, path)
      : new Map();
    const parts = [keywords.anyOf, keywords.oneOf, keywords.allOf].flatMap((part) => Array.isArray(part) ? part : []);
    const all = [own, ...parts.map((part) => this.look(part, value, path))].filter((found) => found !== undefined);
    return all.length === 0 ? new Map() : all.reduce(common);
  }

  #inList(keywords: Keywords, value: readonly unknown[], path: readonly string[]): Found | undefined {
    const { items, prefixItems } = keywords;
    if (items === undefined && prefixItems === undefined) return undefined;
    const first = Array.isArray(prefixItems) ? prefixItems : [];
    return merged(value.map((one, at) => this.look(first[at] ?? items, one, [...path, String(at)])));
  }

  /** Undefined: it says nothing of keys. */
  #inObject(keywords: Keywords, value: Record<string, unknown>, path: readonly string[]): Found | undefined {
    const { properties, additionalProperties: others, patternProperties } = keywords;
    if (!isRecord(properties)) return others === undefined ? undefined : this.#inOthers(others, value, path);
    const known = Object.keys(properties);
    const open = others !== undefined || patternProperties !== undefined;
    return merged(
      Object.entries(value).map(([key, one]) => {
        if (known.includes(key)) return this.look((properties as Keywords)[key], one, [...path, key]);
        if (open) return this.look(others, one, [...path, key]);
        const at = [...path, key].join(".");
        const like = wordLike(key, known);
        return new Map([[at, { path: at, key, ...(like === undefined ? {} : { like }) }]]);
      }),
    );
  }

  #inOthers(others: Json, value: Record<string, unknown>, path: readonly string[]): Found {
    return merged(Object.entries(value).map(([key, one]) => this.look(others, one, [...path, key])));
  }

  /** "#/$defs/device": what stands there in the whole schema. */
  #named(ref: string): Json | undefined {
    if (!ref.startsWith("#")) return undefined;
    const steps = ref.slice(1).split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    return steps.reduce<Json | undefined>(
      (at, step) => isRecord(at) && Object.hasOwn(at, step) ? (at as Keywords)[step] : undefined,
      this.#root,
    );
  }
}

function isFor({ type }: Keywords, value: unknown): boolean {
  const is = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  const types = type === undefined ? [] : [type].flat();
  return types.length === 0 || types.some((one) => one === is || (one === "integer" && is === "number"));
}

function merged(parts: (Found | undefined)[]): Found {
  return new Map(parts.flatMap((found) => [...found ?? []]));
}

function common(a: Found, b: Found): Found {
  return new Map([...a].filter(([path]) => b.has(path)));
}

/** `unknown key "devices.0.nmae": did you mean "name"?` */
export function unknownKeyText({ path, like }: UnknownKey, items = 1): string {
  const many = items > 1 ? ` in ${counted(items, "item")}` : "";
  return `unknown key "${path}"${many}: ${
    like === undefined ? "the schema of args does not have it" : `did you mean "${like}"?`
  }`;
}

/** What is unknown in the args of one run or of many. */
export class UnknownKeys {
  readonly #found = new Map<string, { key: UnknownKey; items: number }>();

  look(schema: Json, args: unknown): void {
    for (const key of unknownKeys(schema, args)) {
      const known = this.#found.get(key.path);
      if (known) known.items++;
      else if (this.#found.size < MOST_SHOWN) this.#found.set(key.path, { key, items: 1 });
    }
  }

  /** A line for each key, for people. */
  texts(): string[] {
    return [...this.#found.values()].map(({ key, items }) => unknownKeyText(key, items));
  }
}
