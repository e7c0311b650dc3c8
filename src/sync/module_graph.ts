/**
 * The code of a job: its file and everything that it imports, as `deno info` sees it, and one digest over all of that.
 * The digest is stored at sync, and a worker whose own files give another one refuses the run. Nothing is fetched and no
 * code is run here. What a job may import: module_walk.ts.
 *
 * In the digest: paths and contents of the files, names and versions of npm packages. Not in it: type-only imports, which
 * do not exist at run time; our own src/, which the version of the worker stands for; and what a body loads by a computed
 * name, which needs a `read` permission that the file must ask for.
 */
import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { relative } from "node:path";
import { after, Batcher, monotonicMs, wallClock } from "../platform/timers.ts";
import { resolvePath, toFileUrl } from "../platform/paths.ts";
import { messageOf } from "../platform/text.ts";
import { type Folders, isBelow, type Module, ModuleWalk, type Roots, unixPath } from "./module_walk.ts";
import { problemText, type SyncProblem } from "./problem.ts";

export interface Graph {
  /** Hex SHA-256. */
  digest: string;
  /** Absolute paths of the files in the digest; the job's own is the first. */
  files: string[];
  /** npm packages with their versions. */
  packages: string[];
}

export type GraphAnswer = { ok: true; graph: Graph } | { ok: false; problems: SyncProblem[] };

/**
 * Files whose names do not fit one argument are asked for in several: Linux takes 128 KiB. A letter of a name may become fifteen
 * on the way, since it is escaped in the file's URL and again in that of the entry.
 */
const ENTRY_CHARACTERS = 100_000;
/** It takes about 20 ms. */
const INFO_MS = 10_000;
/** First line of what is digested: raised when a stored definition means something else than before. */
const DIGEST_FORMAT = "dandori 1";

/** The graph of one job file. */
export async function moduleGraph(job_file: string, folders: Folders): Promise<GraphAnswer> {
  return (await moduleGraphs([job_file], folders)).get(job_file) as GraphAnswer;
}

/** The graphs of many job files, by absolute path; all of them cost little more than one, since `deno info` is asked once. */
export async function moduleGraphs(job_files: string[], folders: Folders): Promise<Map<string, GraphAnswer>> {
  const answers = new Map<string, GraphAnswer>();
  const roots = await rootsOf(folders);
  for (const files of inEntries(job_files)) {
    const modules = await askDeno(files, folders.project_dir);
    for (const file of files) answers.set(file, await graphOf(file, modules, roots));
  }
  return answers;
}

function inEntries(job_files: string[]): string[][] {
  const entries: string[][] = [];
  let characters = Infinity;
  for (const file of job_files) {
    const { length } = importOf(file);
    if (characters + length > ENTRY_CHARACTERS) {
      entries.push([]);
      characters = 0;
    }
    characters += length;
    entries.at(-1)?.push(file);
  }
  return entries;
}

/** The line of a file in the entry that is asked for, as it stands in a URL. */
function importOf(file: string): string {
  return encodeURIComponent(`import ${JSON.stringify(toFileUrl(file).href)};\n`);
}

export type Digest = { digest: string } | { problem: string };

interface Known {
  digest: string;
  files: { path: string; stamp: string; content: string }[];
  /** A file was written so shortly before it was read that a second write could bear the same time: trust contents only. */
  fresh: boolean;
  /** When the last look began that found nothing changed. */
  looked_ms: number;
  /** Looks that may be taken without asking how long ago the last one was, as of `asked_ms`. */
  looks_left: number;
  asked_ms: number;
}

/** Of a job that is started all the time one look serves for so long: each costs more than the start of a quick run. */
const LOOK_GAP_MS = 100;
const LOOK_BURST = 10;
const LOOK_REFILL_MS = 100;
/** Who asks for one file waits for all that are asked for with it. */
const GRAPHS_AT_ONCE = 100;

/** Kernels stamp files in steps of up to 10 ms, network file systems of up to a second. */
const FRESH_MS = 2_000;

/**
 * The digests of a worker's own job files, asked on every run: a stat of each file in the job's graph when nothing changed
 * (under load at most one each LOOK_GAP_MS), the contents when a stat differs, and `deno info` only when contents do. A graph is a function of the contents of its
 * files and of deno.json, so equal contents mean an equal digest.
 *
 * Not promised: that a file does not change between the answer and the start of the body. This guards against a worker
 * that runs on with other files than were synced; a deploy should replace the folder and restart the worker.
 */
export class Digests {
  readonly #folders: Folders;
  readonly #known = new Map<string, Known>();
  readonly #asked = new Map<string, Promise<Digest>>();
  readonly #looks = new Batcher<Known, boolean>(async (asked) => {
    const holds = new Map([...new Set(asked)].map((known) => [known, this.#look(known)]));
    await Promise.allSettled(holds.values());
    return asked.map((known) => holds.get(known) as Promise<boolean>);
  });

  /** Those who ask while `deno info` is asked share its next answer. */
  readonly #graphs = new Batcher<string, GraphAnswer>((files) => this.#graphsOf(files), { most: GRAPHS_AT_ONCE });

  constructor(folders: Folders) {
    this.#folders = folders;
  }

  /** The digest of a job file as it is now, at once where no look is due; `command_name` is its path below the jobs folder. */
  of(command_name: string): Digest | Promise<Digest> {
    const known = this.#known.get(command_name);
    if (known === undefined) return this.#ask(command_name);
    const holds = this.#holds(known);
    if (holds === true) return known;
    return holds.then((holds) => holds ? { digest: known.digest } : this.#ask(command_name));
  }

  /** What `of` said last; undefined: nothing yet. It may be out of date. */
  last(command_name: string): string | undefined {
    return this.#known.get(command_name)?.digest;
  }

  #ask(command_name: string): Promise<Digest> {
    const asked = this.#asked.get(command_name) ?? this.#read(command_name).finally(() => {
      this.#asked.delete(command_name);
    });
    this.#asked.set(command_name, asked);
    return asked;
  }

  /** Those who ask while one looks share the next look, which begins after all of them have asked. */
  #holds(known: Known): true | Promise<boolean> {
    const now_ms = monotonicMs();
    known.looks_left = Math.min(LOOK_BURST, known.looks_left + (now_ms - known.asked_ms) / LOOK_REFILL_MS);
    known.asked_ms = now_ms;
    if (known.looks_left < 1 && now_ms - known.looked_ms < LOOK_GAP_MS) return true;
    known.looks_left = Math.max(0, known.looks_left - 1);
    return this.#looks.add(known);
  }

  async #look(known: Known): Promise<boolean> {
    const began_ms = monotonicMs();
    const stamps = await Promise.all(known.files.map((file) => stampOf(file.path)));
    const same = known.files.every((file, place) => file.stamp === stamps[place]?.stamp);
    if (same && !known.fresh) {
      known.looked_ms = began_ms;
      return true;
    }
    const seen = await Promise.all(known.files.map((file) => lookAt(file.path).catch(() => undefined)));
    if (seen.some((file, place) => file?.content !== known.files[place]?.content)) return false;
    Object.assign(known, settled(seen.filter((file) => file !== undefined)));
    return true;
  }

  async #read(command_name: string): Promise<Digest> {
    const job_file = resolvePath(this.#folders.jobs_dir, command_name);
    this.#known.delete(command_name);
    if (!isBelow(job_file, resolvePath(this.#folders.jobs_dir))) {
      return { problem: `${command_name} leads out of the jobs folder` };
    }
    if (await stampOf(job_file) === undefined) return { problem: `${command_name} is missing` };
    try {
      const config = resolvePath(this.#folders.project_dir, "deno.json");
      const before = await lookAt(config);
      const answer = await this.#graphs.add(job_file);
      if (!answer.ok) {
        return { problem: answer.problems.map((problem) => problemText(problem)).join("; ").replaceAll("\n ", ",") };
      }
      return await this.#remember(command_name, answer.graph, before);
    } catch (error) {
      return { problem: `${command_name} cannot be read: ${messageOf(error)}` };
    }
  }

  /** One file at which `deno info` fails must not keep the others from being read. */
  async #graphsOf(files: string[]): Promise<GraphAnswer[]> {
    try {
      const answers = await moduleGraphs(files, this.#folders);
      return files.map((file) => answers.get(file) as GraphAnswer);
    } catch (error) {
      if (files.length === 1) return [unreadable(files[0] as string, error, this.#folders.jobs_dir)];
      const answers: GraphAnswer[] = [];
      for (const file of files) answers.push(...await this.#graphsOf([file]));
      return answers;
    }
  }

  /** Keeps an answer, once asking again has shown that nothing changed while it was made. */
  async #remember(command_name: string, graph: Graph, config: Look): Promise<Digest> {
    const files = await Promise.all(graph.files.map(lookAt));
    const again = await this.#graphs.add(graph.files[0] as string);
    if (!again.ok || again.graph.digest !== graph.digest) {
      return { problem: `${command_name} changes while it is read` };
    }
    const asked_ms = monotonicMs();
    const looks = { looked_ms: -Infinity, looks_left: LOOK_BURST, asked_ms };
    this.#known.set(command_name, { digest: graph.digest, ...looks, ...settled([config, ...files]) });
    return { digest: graph.digest };
  }
}

interface Look {
  path: string;
  stamp: string;
  modified_ms: number;
  content: string;
}

function settled(files: Look[]): Pick<Known, "files" | "fresh"> {
  const now = wallClock().getTime();
  return { files, fresh: files.some((file) => Math.abs(now - file.modified_ms) < FRESH_MS) };
}

async function lookAt(path: string): Promise<Look> {
  const { stamp, modified_ms } = await stampOf(path) ?? { stamp: "", modified_ms: 0 };
  return { path, stamp, modified_ms, content: await contentHash(path) };
}

async function stampOf(path: string): Promise<{ stamp: string; modified_ms: number } | undefined> {
  try {
    const { mtimeNs, ctimeNs, size, ino, dev } = await stat(path, { bigint: true });
    return { stamp: [mtimeNs, ctimeNs, size, ino, dev].join(), modified_ms: Number(ctimeNs / 1_000_000n) };
  } catch {
    return undefined;
  }
}

async function rootsOf(folders: Folders): Promise<Roots> {
  return {
    jobs_dir: resolvePath(folders.jobs_dir),
    project_dir: resolvePath(folders.project_dir),
    real_jobs_dir: await Deno.realPath(folders.jobs_dir),
    real_project_dir: await Deno.realPath(folders.project_dir),
  };
}

/** All modules that some files lead to. A file that is broken is a module with an error; it does not spoil the others. */
async function askDeno(files: string[], project_dir: string): Promise<Map<string, Module>> {
  const config = resolvePath(project_dir, "deno.json");
  // deno info installs npm packages that it meets into node_modules unless told not to.
  const flags = ["--json", "--no-lock", "--no-npm", "--no-remote", "--config", config];
  const asked = new Deno.Command(Deno.execPath(), {
    args: ["info", ...flags, `data:application/typescript,${files.map(importOf).join("")}`],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    env: { NO_COLOR: "1" },
  }).spawn();
  // A file that never ends, such as a pipe or a device, would be read for ever.
  const cancel = after(INFO_MS, () => asked.kill("SIGKILL"));
  const { code, signal, stdout, stderr } = await asked.output().finally(cancel);
  const told = new TextDecoder();
  if (code !== 0) {
    const why = signal === null
      ? `ended with ${code}: ${told.decode(stderr).trim()}`
      : `was stopped (${signal}) after ${INFO_MS} ms; is there a pipe or a device among the files?`;
    throw new Error(`Cannot read the imports of the job files: deno info ${why}`);
  }
  const info = JSON.parse(told.decode(stdout)) as { modules: Module[]; redirects?: Record<string, string> };
  const modules = new Map(info.modules.map((module) => [module.specifier, module]));
  for (const [from, to] of Object.entries(info.redirects ?? {})) {
    const module = modules.get(to);
    if (module) modules.set(from, module);
  }
  return modules;
}

async function graphOf(job_file: string, modules: Map<string, Module>, roots: Roots): Promise<GraphAnswer> {
  try {
    const walked = await new ModuleWalk(modules, roots).from(job_file);
    if (!walked.ok) return walked;
    const { files, packages } = walked;
    return { ok: true, graph: { digest: await digestOf(files, packages, roots), files, packages } };
  } catch (error) {
    return unreadable(job_file, error, roots.jobs_dir);
  }
}

function unreadable(job_file: string, error: unknown, jobs_dir: string): GraphAnswer {
  const reason = `it, or a file that it imports, cannot be read: ${messageOf(error)}`;
  const file = unixPath(relative(resolvePath(jobs_dir), job_file));
  return { ok: false, problems: [{ file, reason, fix: "sync again if the files were just changing" }] };
}

async function digestOf(files: string[], packages: string[], { jobs_dir, project_dir }: Folders): Promise<string> {
  const named = files.map((path) => ({
    path,
    name: isBelow(path, jobs_dir)
      ? `job ${unixPath(relative(jobs_dir, path))}`
      : `project ${unixPath(relative(project_dir, path))}`,
  }));
  const hash = createHash("sha256").update(`${DIGEST_FORMAT}\0${named[0]?.name}\0`);
  for (const file of named.sort((a, b) => a.name < b.name ? -1 : 1)) {
    hash.update(`${file.name}\0${await contentHash(file.path)}\0`);
  }
  for (const name of packages) hash.update(`npm ${name}\0`);
  return hash.digest("hex");
}

async function contentHash(path: string): Promise<string> {
  return createHash("sha256").update(await Deno.readFile(path)).digest("hex");
}
