/**
 * Which tests there are, and of which kind each is: the folder in which it stands says so.
 *
 *   unit     no server and no other process: seconds for all of them
 *   store    a database and a Redis of its own for each test
 *   process  starts programs: workers, bodies, commands, servers
 *   browser  a browser that looks at the admin page
 *   chaos    faults at every named place and under load
 */
import { PROJECT_DIR } from "../../src/platform/config.ts";

export const KINDS = ["unit", "store", "process", "browser", "chaos"] as const;
export type Kind = typeof KINDS[number];

export interface TestFile {
  /** From the project's folder. */
  path: string;
  kind: Kind;
}

const ROOT = "tests";
/** Their examples are tests as well, and ask no server. */
const WITH_EXAMPLES = ["src/job.ts", "src/client.ts"];

/** All tests, or what is named by kinds, folders and files. */
export function chooseTests(named: string[]): TestFile[] {
  const examples = WITH_EXAMPLES.map((path): TestFile => ({ path, kind: "unit" }));
  const all = [...testsIn(ROOT).map((path) => ({ path, kind: kindOf(path) })), ...examples];
  if (named.length === 0) return all;
  const chosen = new Map<string, TestFile>();
  for (const name of named) for (const file of choose(all, name)) chosen.set(file.path, file);
  return [...chosen.values()];
}

function choose(all: TestFile[], name: string): TestFile[] {
  const path = name.replace(`${PROJECT_DIR}/`, "").replace(/^\.\//, "").replace(/\/$/, "");
  const chosen = all.filter((file) => file.kind === name || file.path === path || file.path.startsWith(`${path}/`));
  if (chosen.length > 0) return chosen;
  if (isFile(name)) return [{ path: name, kind: "process" }]; // from elsewhere: it may do anything
  throw new Error(`Cannot test ${name}: no such file or folder; kinds of tests are ${KINDS.join(", ")}`);
}

function testsIn(folder: string): string[] {
  return [...Deno.readDirSync(`${PROJECT_DIR}/${folder}`)].flatMap(({ name, isDirectory }) => {
    const path = `${folder}/${name}`;
    return isDirectory ? testsIn(path) : name.endsWith("_test.ts") ? [path] : [];
  }).sort();
}

export function kindOf(path: string): Kind {
  const kind = KINDS.find((kind) => path.startsWith(`${ROOT}/${kind}/`));
  if (kind) return kind;
  throw new Error(`Cannot tell the kind of ${path}: move it below ${KINDS.map((one) => `${ROOT}/${one}/`).join(", ")}`);
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path.startsWith("/") ? path : `${PROJECT_DIR}/${path}`).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
