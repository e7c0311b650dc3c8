/** Paths and file URLs, through Node's own functions, so that spaces and non-ASCII names survive; and files that may be missing. */
import { basename, dirname, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export function fromFileUrl(url: URL | string): string {
  return fileURLToPath(url);
}

export function toFileUrl(path: string): URL {
  return pathToFileURL(path);
}

export function resolvePath(...parts: string[]): string {
  return resolve(...parts);
}

/** The path, those its own links name one after the other, and the real one: all that a rule about texts of paths has to name. */
export function namesOf(path: string): string[] {
  const names = new Set<string>();
  for (let name: string | undefined = path; name !== undefined && !names.has(name); name = linkedFrom(name)) {
    names.add(name);
  }
  return [...names.add(realOf(path))];
}

function linkedFrom(path: string): string | undefined {
  try {
    return resolve(dirname(path), Deno.readLinkSync(path));
  } catch {
    return undefined; // no link, or nothing there yet
  }
}

/** Of what is not there yet: where it would be made. */
function realOf(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    const above = dirname(path);
    return above === path ? path : resolve(realOf(above), basename(path));
  }
}

/** False also where it cannot be looked at. */
export function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** Empty where there is no such file. */
export function readIfThere(file: string): string {
  try {
    return Deno.readTextFileSync(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}
