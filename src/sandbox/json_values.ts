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
    const problem = problemAt(value, []);
    return problem && `${name}${problem.at} ${problem.why}`;
  } catch (error) {
    return `${name} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** `at`: from the value that was looked at. It is made on the way back, so that what is JSON, as nearly all is, costs no texts. */
interface Problem {
  at: string;
  why: string;
}

const here = (why: string): Problem => ({ at: "", why });

/** `above`: what holds the value, from the outermost on. */
function problemAt(value: unknown, above: object[]): Problem | undefined {
  switch (typeof value) {
    case "string":
    case "boolean":
      return undefined;
    case "number":
      return Number.isFinite(value) ? undefined : here(`is ${value}; give null or a text instead`);
    case "bigint":
      if ("toJSON" in BigInt.prototype) return undefined; // the program says what becomes of them
      return here(`is a BigInt (${String(value).slice(0, 40)}n); give Number(it) or String(it)`);
    case "undefined":
      return here("is undefined; give null instead");
    case "function":
      return here("is a function; give data");
    case "symbol":
      return here("is a symbol; give a text");
  }
  if (value === null) return undefined;
  if (above.includes(value as object)) return here("holds itself; JSON has no cycles");
  if (above.length >= MOST_DEPTH) return here(`is nested deeper than ${MOST_DEPTH} levels`);
  above.push(value as object);
  const problem = problemInside(value as object, above);
  above.pop();
  return problem;
}

function problemInside(value: object, above: object[]): Problem | undefined {
  if (value instanceof Date && Number.isNaN(value.getTime())) {
    return here("is an invalid date; give null or a text instead");
  }
  const toJSON = (value as { toJSON?: unknown }).toJSON;
  const said: unknown = typeof toJSON === "function" ? toJSON.call(value, "") : value;
  if (said !== value) return problemAt(said, above);
  if (Array.isArray(value)) {
    for (let place = 0; place < value.length; place++) {
      const problem = problemAt(value[place], above);
      if (problem) return { ...problem, at: `[${place}]${problem.at}` };
    }
    return undefined;
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) {
    const hollow = HOLLOW.find(([kind]) => value instanceof kind);
    if (hollow) return here(`is a ${hollow[0].name}; give ${hollow[1]}`);
    if (ArrayBuffer.isView(value)) return here("is binary data; give a text, such as base64");
  }
  for (const key of Object.keys(value)) {
    const inner = (value as Record<string, unknown>)[key];
    if (inner === undefined) continue;
    const problem = problemAt(inner, above);
    if (!problem) continue;
    const step = /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
    return { ...problem, at: step + problem.at };
  }
  return undefined;
}
