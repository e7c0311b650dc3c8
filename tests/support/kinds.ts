/**
 * Which tests there are, and of which kind: by its folder, else by what a file and the support files that it imports do.
 *
 *   unit     no server and no other process: seconds for all of them
 *   store    a database and a Redis of its own for each test
 *   process  starts programs: workers, bodies, commands, servers
 *   browser  a browser that looks at the admin page
 *   chaos    faults at every named place and under load
 */
import { dirname, join } from "node:path";
import { PROJECT_DIR } from "../../src/platform/config.ts";

export const KINDS = ["unit", "store", "process", "browser", "chaos"] as const;
export type Kind = typeof KINDS[number];

export interface TestFile {
  /** From the project's folder. */
  path: string;
  kind: Kind;
}

const ROOT = "tests";
/** Their examples are tests as well. */
const WITH_EXAMPLES = ["src/job.ts", "src/client.ts"];
const SERVICES = "tests/support/services.ts";
const BROWSER = "tests/support/browser.ts";
const STARTS_PROGRAMS = /new Deno\.Command\(|\/src\/(sandbox\/(pool|scripts)|dev\/(dev|postgres|redis|service))\.ts"/;

/** All tests, or what is named by kinds, folders and files. */
export function chooseTests(named: string[]): TestFile[] {
  const all = [...testsIn(ROOT), ...WITH_EXAMPLES].map((path) => ({ path, kind: kindOf(path) }));
  if (named.length === 0) return all;
  const chosen = new Map<string, TestFile>();
  for (const name of named) for (const file of choose(all, name)) chosen.set(file.path, file);
  return [...chosen.values()];
}

function choose(all: TestFile[], name: string): TestFile[] {
  const path = name.replace(`${PROJECT_DIR}/`, "").replace(/^\.\//, "").replace(/\/$/, "");
  const chosen = all.filter((file) => file.kind === name || file.path === path || file.path.startsWith(`${path}/`));
  if (chosen.length > 0) return chosen;
  if (isFile(name)) return [{ path: name, kind: kindOf(name) }];
  throw new Error(`Cannot test ${name}: no such file or folder; kinds of tests are ${KINDS.join(", ")}`);
}

function testsIn(folder: string): string[] {
  return [...Deno.readDirSync(`${PROJECT_DIR}/${folder}`)].flatMap(({ name, isDirectory }) => {
    const path = `${folder}/${name}`;
    return isDirectory ? testsIn(path) : name.endsWith("_test.ts") ? [path] : [];
  }).sort();
}

function kindOf(path: string): Kind {
  const folder = KINDS.find((kind) => path.startsWith(`${ROOT}/${kind}/`));
  if (folder) return folder;
  const reached = reachedFrom(path);
  if (reached.has(BROWSER)) return "browser";
  reached.delete(SERVICES); // it starts programs, for all
  if ([...reached.values()].some((text) => STARTS_PROGRAMS.test(text))) return "process";
  return reached.size < reachedFrom(path).size ? "store" : "unit";
}

/** The texts of a file and of those below tests/ that it imports. */
function reachedFrom(path: string): Map<string, string> {
  const reached = new Map([[path, textOf(path)]]);
  for (const [from, text] of reached) {
    for (const [, name] of text.matchAll(/^(?:import|export|\}).* from "(\.[^"]+)";$/gm)) {
      const to = join(dirname(from), name as string);
      if (to.startsWith(`${ROOT}/`) && !reached.has(to)) reached.set(to, textOf(to));
    }
  }
  return reached;
}

/** Sources of jobs within a test import what is not there. */
function textOf(path: string): string {
  return isFile(path) ? Deno.readTextFileSync(path.startsWith("/") ? path : `${PROJECT_DIR}/${path}`) : "";
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path.startsWith("/") ? path : `${PROJECT_DIR}/${path}`).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
