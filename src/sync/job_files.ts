/**
 * Which files below the jobs folder are jobs. Each file with the extension of a script is one, named after the file, but
 * for tests (`*_test.ts`) and whatever begins with `_` or `.`, files and folders: shared code lives in `_shared`, say.
 * Folders only sort; names are unique through all of them.
 */
import { messageOf } from "../platform/text.ts";
import { shown } from "../platform/shown.ts";
import type { SyncProblem } from "./problem.ts";

export interface JobFile {
  /** The job's name: the file's, without its extension. */
  name: string;
  /** Absolute. */
  path: string;
  /** Relative to the jobs folder, with "/" between its parts. */
  command_name: string;
}

const JOB_NAME = /^[a-z0-9][a-z0-9_.-]{0,63}$/;
const SCRIPT = /\.(ts|mts|tsx|js|mjs|jsx)$/;
const NO_JOB = /(^_|^\.(?!\.)|[._]test\.\w+$|\.d\.m?ts$)/;

/** All job files, in the order of their paths, and everything that is wrong with their names and places. */
export async function findJobFiles(jobs_dir: string): Promise<{ files: JobFile[]; problems: SyncProblem[] }> {
  const problems: SyncProblem[] = [];
  const found: JobFile[] = [];
  try {
    await Deno.stat(jobs_dir);
    await walk({ jobs_dir, found, problems }, "");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory)) throw error;
    problems.push({
      reason: `there is no jobs folder at ${jobs_dir}`,
      fix: "make it, or set SCHEDULER_JOBS_DIR to the folder of your job files",
    });
  }
  return { files: uniqueFiles(found, problems), problems };
}

interface Search {
  jobs_dir: string;
  found: JobFile[];
  problems: SyncProblem[];
}

/** Also for files that jobs import (module_walk.ts). Links to folders above a file do no harm. */
export const LINK = {
  reason: "is a link, and Deno loads no linked file without a permission to read it",
  fix: "put the file itself there",
};
const NO_FILE = { reason: "is no regular file", fix: "put a file here, or begin the name with _" };

async function walk(search: Search, folder: string): Promise<void> {
  for (const entry of await entriesOf(search, folder)) {
    const command_name = folder + entry.name;
    if (entry.isDirectory) {
      if (!/^[_.]/.test(entry.name) && entry.name !== "node_modules") await walk(search, `${command_name}/`);
      continue;
    }
    if (!SCRIPT.test(entry.name) || NO_JOB.test(entry.name)) continue;
    const problem = entry.isFile ? problemWithName(entry.name) : entry.isSymlink ? LINK : NO_FILE;
    if (problem) search.problems.push({ file: printable(command_name), ...problem });
    else search.found.push({ name: nameOf(entry.name), path: `${search.jobs_dir}/${command_name}`, command_name });
  }
}

/** What a folder holds, by name; one that cannot be read must not look like an empty one, which would remove its jobs. */
async function entriesOf(search: Search, folder: string): Promise<Deno.DirEntry[]> {
  try {
    const entries = await Array.fromAsync(Deno.readDir(`${search.jobs_dir}/${folder}`));
    return entries.sort((a, b) => a.name < b.name ? -1 : 1);
  } catch (error) {
    search.problems.push({
      file: printable(folder),
      reason: `the folder cannot be read: ${messageOf(error)}`,
      fix: "let the user who syncs read it, or begin its name with _",
    });
    return [];
  }
}

function problemWithName(file_name: string): Omit<SyncProblem, "file"> | undefined {
  if (JOB_NAME.test(nameOf(file_name))) return undefined;
  const wish = nameOf(file_name).toLowerCase().replace(/[^a-z0-9_.-]+/g, "_").replace(/^[_.-]+/, "").slice(0, 64);
  return {
    reason: `the file name ${
      shown(file_name)
    } makes no job name: 1 to 64 of a-z, 0-9, "_", "." and "-", a letter or digit first`,
    fix: wish ? `rename it to ${wish}${SCRIPT.exec(file_name)?.[0]}` : "rename it",
  };
}

/** Leaves out files that share a name, and says so once for each name. */
function uniqueFiles(found: JobFile[], problems: SyncProblem[]): JobFile[] {
  const by_name = Map.groupBy(found, (file) => file.name);
  for (const [name, files] of by_name) {
    if (files.length === 1) continue;
    const [first, ...others] = files.map((file) => file.command_name);
    problems.push({
      file: first,
      reason: `the job name "${name}" is taken by ${others.join(" and ")} too; folders are no part of a name`,
      fix: "rename all but one of them",
    });
  }
  return found.filter((file) => by_name.get(file.name)?.length === 1);
}

function nameOf(file_name: string): string {
  return file_name.replace(SCRIPT, "");
}

/** A name as it can be shown: control characters must not reach a terminal. */
function printable(text: string): string {
  return /\p{Cc}/u.test(text) ? JSON.stringify(text) : text;
}
