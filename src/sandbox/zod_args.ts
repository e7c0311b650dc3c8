/** What is known of schemas made with zod, by their own description of themselves: what JSON can never give, and what JSON Schema cannot say. */

/** What of it is looked at. */
interface ZodSchema {
  _zod: {
    def: {
      type?: string;
      coerce?: boolean;
      check?: string;
      pattern?: RegExp;
      checks?: readonly ZodSchema[];
      in?: ZodSchema;
      shape?: Record<string, ZodSchema>;
      innerType?: ZodSchema;
      items?: readonly ZodSchema[];
    };
  };
}

/** Args come as JSON. What takes a value that JSON cannot hold would refuse every run. */
const NEVER_JSON: Record<string, string> = {
  date: "a date: z.coerce.date() reads one from a text",
  bigint: "a bigint: z.coerce.bigint() reads one from a text",
  map: "a Map: z.record() is an object of any names",
  set: "a Set: z.array() is a list",
};

/**
 * The first place that must be there and takes only a value that JSON cannot hold. Undefined: there is none (what is left out, null or an
 * empty list may do), or it is no schema of zod's.
 */
export function neverJsonIn(schema: unknown, path = "args", seen = new Set<unknown>()): string | undefined {
  const def = (schema as Partial<ZodSchema> | undefined)?._zod?.def;
  if (!def || def.coerce || seen.has(schema)) return undefined;
  seen.add(schema); // a tree's nodes have nodes
  const what = NEVER_JSON[def.type ?? ""];
  if (what) return `${path} takes only ${what}`;
  const within: [string, ZodSchema | undefined][] = [
    ...Object.entries(def.shape ?? {}).map(([name, one]): [string, ZodSchema] => [`${path}.${name}`, one]),
    ...(def.items ?? []).map((one, place): [string, ZodSchema] => [`${path}.${place}`, one]),
    [path, TRANSPARENT.includes(def.type ?? "") ? def.innerType : undefined],
    [path, def.type === "pipe" ? def.in : undefined],
  ];
  for (const [place, one] of within) {
    const found = one && neverJsonIn(one, place, seen);
    if (found) return found;
  }
}

/** What stands around another schema and takes no more than that. */
const TRANSPARENT = ["readonly", "nonoptional"];

/**
 * Of what it converts before it checks (`z.coerce`, `preprocess`, `catch`, `trim`), and of patterns with flags (`/^\p{L}+$/u`, `/^a$/i`),
 * zod says less than it takes: args that are good would be refused at the door. There JSON Schema says nothing, and the worker checks.
 */
export function sayNoMore(
  { zodSchema, jsonSchema }: { zodSchema: ZodSchema; jsonSchema: Record<string, unknown> },
): void {
  const { type, shape, checks = [] } = zodSchema._zod.def;
  const forget = (keys: string[]) => keys.forEach((key) => delete jsonSchema[key]);
  if (takesAnything(zodSchema)) {
    forget(Object.keys(jsonSchema).filter((key) => !ABOUT.includes(key)));
  } else if (type === "string") {
    const rules = [zodSchema, ...checks].map((one) => one._zod.def);
    if (rules.some(({ check }) => check === "overwrite")) forget(OF_TEXT);
    if (rules.some(({ pattern }) => pattern?.flags)) forget(["pattern", "allOf", "format"]);
  } else if (type === "object" && Array.isArray(jsonSchema.required)) {
    jsonSchema.required = jsonSchema.required.filter((name) => !shape?.[name] || !takesAnything(shape[name]));
  }
}

function takesAnything({ _zod: { def } }: ZodSchema): boolean {
  return def.coerce === true || def.type === "catch" || (def.type === "pipe" && def.in?._zod.def.type === "transform");
}

/** What is for people, and refuses nothing. */
const ABOUT = ["title", "description", "default", "examples", "deprecated"];
const OF_TEXT = ["pattern", "allOf", "format", "minLength", "maxLength", "contentEncoding"];
