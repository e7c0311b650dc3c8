/** The temp folders of bodies: one folder for each worker, in it one for each process that asks for it, and nothing left of either. */
import { rest } from "../platform/timers.ts";
import { resolvePath } from "../platform/paths.ts";
import { isThere } from "./process_table.ts";
import { hostname } from "node:os";

/** Makes it, readable to its owner only, and removes those whose worker is gone. @throws Error where it cannot be made. */
export function makeTempRoot(state_dir: string): string {
  const parent = resolvePath(state_dir, "bodies");
  if (parent.includes(",")) {
    throw new Error(`Cannot make temp folders in "${parent}": Deno's permissions take no path with a comma; move it`);
  }
  Deno.mkdirSync(parent, { recursive: true, mode: 0o700 });
  const host = hostname().replace(/[^A-Za-z0-9.-]/g, "_");
  sweep(parent, host);
  const root = resolvePath(parent, `${host}_${Deno.pid}_${crypto.randomUUID().slice(0, 8)}`);
  Deno.mkdirSync(root, { mode: 0o700 });
  return root;
}

/** Only this host's: several may share the folder, and the others' processes cannot be seen from here. */
function sweep(parent: string, host: string): void {
  for (const entry of Deno.readDirSync(parent)) {
    const [, of_host, pid] = /^(.+)_(\d+)_[0-9a-f]{8}$/.exec(entry.name) ?? [];
    if (of_host !== host || Number(pid) === Deno.pid || isThere(Number(pid))) continue;
    Deno.remove(resolvePath(parent, entry.name), { recursive: true }).catch(() => {}); // the next one tries again
  }
}

/**
 * Most are not there, since their body asked for none, which a thread of Deno's pool takes longer to say than the kernel. A
 * body can have made its folder hard to remove; what stays is removed with the worker's.
 */
export async function removeFolder(path: string): Promise<void> {
  if (!mayBeThere(path)) return;
  for (let tries = 0; tries < 3; tries++) {
    try {
      return await Deno.remove(path, { recursive: true });
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      await rest(10);
    }
  }
}

function mayBeThere(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch (error) {
    return !(error instanceof Deno.errors.NotFound);
  }
}
