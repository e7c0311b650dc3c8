/**
 * Which imports a job may have. A static import can read any file that the process can, with no permission
 * (`import key from "/etc/tls.key" with { type: "text" }`), so a job's graph may hold only files below the jobs folder,
 * links resolved, and what the imports of the project's deno.json name.
 */
import { relative, sep } from "node:path";
import { fromFileUrl, resolvePath, toFileUrl } from "../platform/paths.ts";
import { LINK } from "./job_files.ts";
import type { SyncProblem } from "./problem.ts";

interface Span {
  start: { line: number; character: number };
}

/** An import, as `deno info` tells it; type-only ones have no `code`. */
interface Dependency {
  specifier: string;
  code?: { specifier?: string; error?: string; span?: Span };
}

export interface Module {
  specifier: string;
  error?: string;
  local?: string;
  dependencies?: Dependency[];
}

export interface Folders {
  jobs_dir: string;
  project_dir: string;
}

export interface Roots extends Folders {
  /** With links resolved. */
  real_jobs_dir: string;
  real_project_dir: string;
}

/** What one walk found: absolute paths, the job's own first, and packages such as "zod@4.6.7". */
export type Walked = { ok: true; files: string[]; packages: string[] } | { ok: false; problems: SyncProblem[] };

/** One walk through the modules, from one job file. */
export class ModuleWalk {
  readonly #modules: Map<string, Module>;
  readonly #roots: Roots;
  readonly #problems: SyncProblem[] = [];
  readonly #files: string[] = [];
  readonly #packages = new Set<string>();
  readonly #seen = new Set<string>();

  constructor(modules: Map<string, Module>, roots: Roots) {
    this.#modules = modules;
    this.#roots = roots;
  }

  async from(job_file: string): Promise<Walked> {
    await this.#enter(toFileUrl(job_file).href, { path: job_file });
    if (this.#problems.length > 0) return { ok: false, problems: this.#problems };
    return { ok: true, files: this.#files, packages: [...this.#packages].sort() };
  }

  /** A file module; `importer` says who wants it, and where, for what is wrong with it. */
  async #enter(specifier: string, file: { path: string; importer?: Importer }): Promise<void> {
    if (this.#seen.has(specifier)) return;
    this.#seen.add(specifier);
    const module = this.#modules.get(specifier);
    if (!module || module.error) return this.#broken(module?.error ?? "deno info does not know it", file);
    const link = file.importer && (await Deno.lstat(file.path)).isSymlink;
    if (link) return this.#refuse(file.importer as Importer, `leads to ${file.path}, which ${LINK.reason}`, LINK.fix);
    this.#files.push(file.path);
    for (const dependency of module.dependencies ?? []) {
      if (dependency.code) await this.#follow(dependency, file.path);
    }
  }

  async #follow(dependency: Dependency, path: string): Promise<void> {
    const { specifier: target, error, span } = dependency.code as NonNullable<Dependency["code"]>;
    const importer: Importer = { path, asked: dependency.specifier, span };
    if (target === undefined) {
      const reason = error && !error.includes("not in import map")
        ? firstLine(error)
        : "is a name that deno.json does not know";
      return this.#refuse(
        importer,
        reason,
        'add it to "imports" in deno.json, e.g. with `deno add --save-exact npm:NAME`',
      );
    }
    const scheme = target.slice(0, target.indexOf(":"));
    // What is neither a path nor a URL can only have come through the imports of deno.json.
    const by_name = !/^(\.{0,2}\/|[a-z][a-z0-9+.-]*:)/i.test(dependency.specifier);
    switch (scheme) {
      case "node":
        return;
      case "npm":
        return this.#package(target, { by_name, importer });
      case "file":
        return await this.#file(target, { by_name, importer });
      default:
        return this.#refuse(
          importer,
          `is code from ${scheme}:, of which no digest can be kept`,
          scheme === "data" || scheme === "blob"
            ? "put the code into a file below the jobs folder"
            : "copy the code below the jobs folder, or use an npm package",
        );
    }
  }

  #package(target: string, from: { by_name: boolean; importer: Importer }): void {
    const [, name, version] = /^npm:\/?((?:@[^/@]+\/)?[^/@]+)(?:@([^/]+))?/.exec(target) ?? [];
    if (!from.by_name) {
      this.#refuse(
        from.importer,
        "names an npm package by itself, so that each file could use another version",
        `add "${name}": "${target.replace("npm:/", "npm:")}" to "imports" in deno.json, and import "${name}"`,
      );
    } else if (version === undefined || !/^\d+\.\d+\.\d+[0-9A-Za-z.+-]*$/.test(version)) {
      this.#refuse(
        from.importer,
        `has no exact version in deno.json: ${target}`,
        `name one version of "${name}" in "imports", without ^ or ~, as \`deno add --save-exact\` does`,
      );
    } else {
      this.#packages.add(`${name}@${version}`);
    }
  }

  async #file(target: string, from: { by_name: boolean; importer: Importer }): Promise<void> {
    const path = fromFileUrl(target);
    const { jobs_dir, real_jobs_dir, real_project_dir } = this.#roots;
    // Where there is no file the path itself tells; whether one exists elsewhere is nobody's business.
    const real = await Deno.realPath(path).catch(() => path.replace(jobs_dir, real_jobs_dir));
    if (isBelow(real, real_jobs_dir)) return await this.#enter(target, { path, importer: from.importer });
    // Code that deno.json names is the project's, and so is what such code imports from within the project.
    const project_code = from.by_name || !isBelow(await Deno.realPath(from.importer.path), real_jobs_dir);
    if (!project_code || !isBelow(real, real_project_dir)) {
      const led = real === path ? "" : `, through a link to ${real}`;
      return this.#refuse(
        from.importer,
        `leads out of the jobs folder: ${path}${led}`,
        'move it below the jobs folder (folders that begin with "_" hold no jobs), or name it in "imports" of deno.json',
      );
    }
    if (!isBelow(real, resolvePath(real_project_dir, "src"))) {
      await this.#enter(target, { path, importer: from.importer });
    }
  }

  /** A module that cannot be read or parsed: told at its own place when the error has one, else at the import. */
  #broken(error: string, file: { path: string; importer?: Importer }): void {
    const [, line, column] = /:(\d+):(\d+)\s*$/.exec(error) ?? [];
    if (line === undefined && !file.importer) {
      this.#problems.push({
        file: this.#shown(file.path),
        reason: `cannot be read: ${firstLine(error)}`,
        fix: "add the file, or sync again if it was removed",
      });
      return;
    }
    if (line === undefined && file.importer) {
      const { path, importer } = file;
      return this.#refuse(importer, `finds nothing at ${path}`, "correct the path, or add the file");
    }
    this.#problems.push({
      file: this.#shown(file.path),
      ...(line === undefined ? {} : { line: Number(line), column: Number(column) }),
      reason: `does not parse: ${firstLine(error)}`,
      fix: "correct the file; `deno check` shows the place",
    });
  }

  #refuse(importer: Importer, reason: string, fix: string): void {
    const at = importer.span?.start;
    this.#problems.push({
      file: this.#shown(importer.path),
      ...(at ? { line: at.line + 1, column: at.character + 1 } : {}),
      reason: `import ${JSON.stringify(importer.asked)} ${reason}`,
      fix,
    });
  }

  #shown(path: string): string {
    return unixPath(relative(this.#roots.jobs_dir, path));
  }
}

interface Importer {
  path: string;
  /** The import as it is written. */
  asked: string;
  span?: Span;
}

/** Whether a path is within a folder; both absolute, and links already resolved where that matters. */
export function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

export function unixPath(path: string): string {
  return path.split(sep).join("/");
}

function firstLine(text: string): string {
  return text.split("\n")[0]?.replace(/^\w*Error: /, "") ?? text;
}
