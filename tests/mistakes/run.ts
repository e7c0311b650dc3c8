/**
 * What `deno task mistakes` runs: plants mistakes one at a time in a copy of the tree, and demands of each that a test
 * which it names fails. Ten by a random seed, which is printed; those that are named; or `--all`, where types are checked
 * first and each test must also pass without its mistake. The closing line says how many were caught; the exit code is 1
 * if any was not.
 */
import { parseArgs } from "node:util";
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { counted } from "../../src/platform/text.ts";
import { connectDb } from "../../src/postgres/connection.ts";
import { applySchema } from "../../src/postgres/schema.ts";
import { readSchema } from "../../src/postgres/schema_files.ts";
import { startTestServices, type TestServices } from "../support/services.ts";
import { MISTAKES } from "./all.ts";
import type { Mistake } from "./mistake.ts";
import { choose, planted, type Plot, runTests, tryMistake, type Verdict, whyNotPlanted } from "./plant.ts";

const USAGE = "deno task mistakes [--all] [--seed N] [--count N] [--list] [ID ...]";
const COUNT = 10;
/** Of one mistake's tests; they take seconds, on a busy machine some tens. */
const LIMIT_MS = 150_000;
const NOT_COPIED = new Set([".git", ".dandori", "node_modules"]);

interface Request {
  mistakes: Mistake[];
  all: boolean;
  list: boolean;
}

function readRequest(args: string[]): Request {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      all: { type: "boolean", default: false },
      list: { type: "boolean", default: false },
      seed: { type: "string" },
      count: { type: "string", default: String(COUNT) },
    },
  });
  const { all, list } = values;
  if (positionals.length > 0) return { all, list, mistakes: positionals.map(mistakeOf) };
  if (all || list) return { all, list, mistakes: MISTAKES };
  const seed = wholeNumber("--seed", values.seed ?? String(Math.floor(Math.random() * 1e6)));
  console.log(`--seed ${seed}`);
  return { all, list, mistakes: choose(MISTAKES, seed).slice(0, wholeNumber("--count", values.count)) };
}

function mistakeOf(id: string): Mistake {
  const found = MISTAKES.find((mistake) => mistake.id === id);
  if (!found) throw new Error(`Cannot plant ${id}: no mistake has that name; deno task mistakes --list shows all`);
  return found;
}

function wholeNumber(option: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new Error(`Cannot use ${option} ${text}: it is not a whole number; ${USAGE}`);
  return Number(text);
}

/** Packages are shared by a link; everything else is copied, so that the tree itself is never touched. */
function copyTree(to: string): void {
  const copy = (folder: string) => {
    for (const { name, isDirectory, isFile } of Deno.readDirSync(PROJECT_DIR + folder)) {
      if (NOT_COPIED.has(name)) continue;
      if (isDirectory) {
        Deno.mkdirSync(`${to}/${folder}${name}`);
        copy(`${folder}${name}/`);
      } else if (isFile) Deno.copyFileSync(`${PROJECT_DIR}${folder}${name}`, `${to}/${folder}${name}`);
    }
  };
  copy("");
  Deno.symlinkSync(Deno.realPathSync(`${PROJECT_DIR}node_modules`), `${to}/node_modules`);
}

/** Types, of many mistakes at once: those of a round leave each other's places alone. */
async function checkTypes(mistakes: Mistake[], { dir }: Plot): Promise<string | undefined> {
  let rest = mistakes.filter(({ file }) => /\.tsx?$/.test(file));
  while (rest.length > 0) {
    const before = new Map<string, string>();
    const later: Mistake[] = [];
    for (const mistake of rest) {
      const file = `${dir}/${mistake.file}`;
      const text = Deno.readTextFileSync(file);
      if (!before.has(file)) before.set(file, text);
      if (whyNotPlanted(mistake, before.get(file) ?? "")) continue; // said of it when it is its turn
      if (whyNotPlanted(mistake, text)) later.push(mistake);
      else Deno.writeTextFileSync(file, planted(mistake, text));
    }
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["check", "--quiet", ...before.keys()],
      cwd: dir,
      env: { NO_COLOR: "1" },
    }).output();
    for (const [file, text] of before) Deno.writeTextFileSync(file, text);
    if (code !== 0) return new TextDecoder().decode(stderr);
    rest = later;
  }
}

/** A schema that cannot be applied would fail every test. */
async function whyNotApplied(mistake: Mistake, { database_url }: TestServices): Promise<string | undefined> {
  const text = Deno.readTextFileSync(`${PROJECT_DIR}/${mistake.file}`);
  if (whyNotPlanted(mistake, text)) return;
  const name = `dandori_mistake_${crypto.randomUUID().slice(0, 8)}`;
  const url = new URL(database_url);
  url.pathname = `/${name}`;
  const admin = connectDb(database_url, { name: "mistakes", max: 1 });
  await admin`create database ${admin(name)}`;
  const sql = connectDb(url.href, { name: "mistakes", max: 1 });
  try {
    await applySchema(sql, { ...readSchema(), text: planted(mistake, text) });
  } catch (error) {
    return `the schema cannot be applied: ${error}`;
  } finally {
    await sql.end({ timeout: 2 });
    await admin`drop database ${admin(name)} with (force)`;
    await admin.end({ timeout: 2 });
  }
}

/** Also that its tests pass without it, once for those that share them. */
async function tryAndVerify(
  mistake: Mistake,
  { plot, services, healthy }: { plot: Plot; services: TestServices; healthy?: Map<string, Promise<Verdict>> },
): Promise<Verdict> {
  const problem = mistake.file === "schema.sql" ? await whyNotApplied(mistake, services) : undefined;
  if (problem) return { result: "broken", detail: problem };
  const verdict = await tryMistake(mistake, plot);
  if (verdict.result !== "caught" || !healthy) return verdict;
  const key = JSON.stringify([mistake.tests, mistake.filter]);
  const clean = healthy.get(key) ?? runTests(mistake, plot);
  healthy.set(key, clean);
  const { result, detail } = await clean;
  return result === "unnoticed"
    ? verdict
    : { result: "broken", detail: `its tests fail without it as well: ${detail}` };
}

/**
 * Each mistake in the next plot that is free. A test file is run once at a time, as in the whole suite: two of one file could find each other's
 * processes by the names of their workers.
 */
async function eachInTurn(
  mistakes: Mistake[],
  plots: Plot[],
  act: (mistake: Mistake, plot: Plot) => Promise<void>,
): Promise<void> {
  const rest = [...mistakes];
  const free = [...plots];
  const busy = new Set<string>();
  const inflight = new Set<Promise<void>>();
  while (rest.length > 0) {
    const place = free.length === 0 ? -1 : rest.findIndex(({ tests }) => !tests.some((test) => busy.has(test)));
    if (place < 0) {
      await Promise.race(inflight);
      continue;
    }
    const [mistake] = rest.splice(place, 1) as [Mistake];
    const plot = free.pop() as Plot;
    for (const test of mistake.tests) busy.add(test);
    const done = act(mistake, plot).finally(() => {
      for (const test of mistake.tests) busy.delete(test);
      free.push(plot);
      inflight.delete(done);
    });
    inflight.add(done);
  }
  await Promise.all(inflight);
}

async function plantAll({ mistakes, all }: Request): Promise<number> {
  const services = await startTestServices();
  const folder = Deno.makeTempDirSync({ prefix: "dandori-mistakes-" });
  addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
  const env = { DATABASE_URL: services.database_url, REDIS_URL: services.redis_url };
  const plots = Array.from({ length: Math.min(4, navigator.hardwareConcurrency) }, (_, number): Plot => {
    const dir = `${folder}/${number}`;
    Deno.mkdirSync(dir);
    copyTree(dir);
    return { dir, env, limit_ms: LIMIT_MS };
  });
  const started = performance.now();
  const wrong_types = all ? await checkTypes(mistakes, plots[0] as Plot) : undefined;
  if (wrong_types) console.log(`A mistake has to pass the type check:\n${wrong_types}`);
  const counts = { caught: 0, unnoticed: 0, broken: 0 };
  const healthy = all ? new Map<string, Promise<Verdict>>() : undefined;
  await eachInTurn(mistakes, plots, async (mistake, plot) => {
    const since = performance.now();
    const { result, detail } = await tryAndVerify(mistake, { plot, services, healthy });
    counts[result]++;
    const word = result === "caught" ? "caught" : result.toUpperCase();
    console.log(`${word.padEnd(9)}  ${secondsSince(since).padStart(5)} s  ${mistake.id}: ${detail}`);
    if (result !== "caught") {
      console.log(`           ${mistake.file}: ${mistake.why} Tests: ${mistake.tests.join(", ")}`);
    }
  });
  await services.stop();
  console.log(
    `${counted(mistakes.length, "mistake")}: ${counts.caught} caught, ${counts.unnoticed} unnoticed, ` +
      `${counts.broken} broken, in ${secondsSince(started)} s`,
  );
  return counts.caught === mistakes.length && !wrong_types ? 0 : 1;
}

function secondsSince(since: number): string {
  return ((performance.now() - since) / 1000).toFixed(1);
}

if (import.meta.main) {
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => Deno.exit(130));
  try {
    const request = readRequest(Deno.args);
    if (request.list) { for (const { id, file, why } of request.mistakes) console.log(`${id}  ${file}: ${why}`); }
    Deno.exit(request.list ? 0 : await plantAll(request));
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    Deno.exit(2);
  }
}
