/** What JSON can hold without loss, told with the path of the first thing that it cannot. Loaded into every body: imports nothing. */

const MOST_DEPTH = 100;
/** Kinds that JSON.stringify turns into `{}` or worse without a word, and what to give instead. */
const HOLLOW: [new (...args: never[]) => unknown, string][] = [
  [Map, "Object.fromEntries(it)"],
  [Set, "[...it]"],
  [Promise, "what it resolves to"],
  [Error, "its message"],
  [RegExp, "its source"],
  [ArrayBuffer, "a text, such as base64"],
  [WeakMap, "plain data"],
  [WeakSet, "plain data"],
];

/** Why `value` is not JSON, naming the place as `name.key[2]`; undefined when it is. Undefined itself is fine only as a field. */
export function whyNotJson(value: unknown, name: string): string | undefined {
  try {
    return problemAt(value, { path: name, above: [] });
  } catch (error) {
    return `${name} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}

interface Place {
  path: string;
  above: object[];
}

function problemAt(value: unknown, place: Place): string | undefined {
  switch (typeof value) {
    case "string":
    case "boolean":
      return undefined;
    case "number":
      return Number.isFinite(value) ? undefined : `${place.path} is ${value}; give null or a text instead`;
    case "bigint":
      return `${place.path} is a BigInt (${String(value).slice(0, 40)}n); give Number(it) or String(it)`;
    case "undefined":
      return `${place.path} is undefined; give null instead`;
    case "function":
      return `${place.path} is a function; give data`;
    case "symbol":
      return `${place.path} is a symbol; give a text`;
  }
  return value === null ? undefined : problemInside(value as object, place);
}

function problemInside(value: object, place: Place): string | undefined {
  if (place.above.includes(value)) return `${place.path} holds itself; JSON has no cycles`;
  if (place.above.length >= MOST_DEPTH) return `${place.path} is nested deeper than ${MOST_DEPTH} levels`;
  const above = [...place.above, value];
  const toJSON = (value as { toJSON?: unknown }).toJSON;
  if (typeof toJSON === "function") {
    return problemAt(toJSON.call(value, ""), { path: place.path, above });
  }
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) {
      const problem = problemAt(value[at], { path: `${place.path}[${at}]`, above });
      if (problem) return problem;
    }
    return undefined;
  }
  const hollow = HOLLOW.find(([kind]) => value instanceof kind);
  if (hollow) return `${place.path} is a ${hollow[0].name}; give ${hollow[1]}`;
  if (ArrayBuffer.isView(value)) return `${place.path} is binary data; give a text, such as base64`;
  for (const [key, inner] of Object.entries(value)) {
    if (inner === undefined) continue;
    const path = /^[A-Za-z_$][\w$]*$/.test(key) ? `${place.path}.${key}` : `${place.path}[${JSON.stringify(key)}]`;
    const problem = problemAt(inner, { path, above });
    if (problem) return problem;
  }
  return undefined;
}
