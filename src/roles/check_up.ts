/**
 * What a worker measures of its node when it is asked: load, room, memory, and what the operator's scripts say. It only
 * measures; whether that is good enough is the leader's to say, by the settings of the day.
 */
import { statfs } from "node:fs/promises";
import type { CheckNodeResponse } from "../cluster/protocol.ts";
import { runScripts } from "../sandbox/scripts.ts";

type Measured = Omit<CheckNodeResponse, "worker_id" | "node_id" | "bodies">;

const MB = 1_000_000;
/** Whatever the request says. */
const MOST_MS = 300_000;

export class CheckUp {
  readonly #state_dir: string;
  readonly #checks_dir: string | undefined;
  #under_way: Promise<Measured> | undefined;

  constructor(where: { state_dir: string; checks_dir: string | undefined }) {
    this.#state_dir = where.state_dir;
    this.#checks_dir = where.checks_dir;
  }

  /** Whoever asks while it is under way gets the same answer, so that nobody can pile up scripts by asking. */
  take(script_ms: number): Promise<Measured> {
    const limit_ms = Math.min(Math.max(script_ms, 1), MOST_MS);
    return this.#under_way ??= this.#measure(limit_ms).finally(() => this.#under_way = undefined);
  }

  async #measure(limit_ms: number): Promise<Measured> {
    const scripts = this.#checks_dir === undefined ? [] : await runScripts(this.#checks_dir, limit_ms);
    const cores = navigator.hardwareConcurrency;
    return {
      load_percent: Math.round((Deno.loadavg()[0] ?? 0) / cores * 100),
      cores,
      disk_free_mb: await freeMb(this.#state_dir),
      memory_free_mb: Math.floor(Deno.systemMemoryInfo().available / MB),
      scripts,
    };
  }
}

/** Of the folder, or of the first one above it that is there: it is made only when it is needed. */
async function freeMb(folder: string): Promise<number> {
  for (let path = folder; path !== ""; path = path.slice(0, path.lastIndexOf("/"))) {
    try {
      const { bavail, bsize } = await statfs(path);
      return Math.floor(bavail * bsize / MB);
    } catch (error) {
      if ((error as { code?: string }).code !== "ENOENT") return -1;
    }
  }
  return -1;
}
