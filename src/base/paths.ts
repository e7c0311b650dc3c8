/** Paths and file URLs, through Node's own functions, so that spaces and non-ASCII names survive; and files that may be missing. */
import { resolve } from "node:path";
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
