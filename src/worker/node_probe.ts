/**
 * What a worker measures of its node when it is asked: load, room, memory, and what the operator's scripts say. It only
 * measures; whether that is good enough is the leader's to say, by the settings of the day.
 */
import { statfs } from "node:fs/promises";
import type { CheckNodeResponse } from "../rpc/messages.ts";
import { shortageOf } from "../sandbox/resource_shortage.ts";
import { runScripts } from "../sandbox/check_scripts.ts";
import type { CheckPart } from "../nodes/check_part.ts";
import { stored } from "../locale/message.ts";

type Measured = Omit<CheckNodeResponse, "worker_id" | "node_id" | "bodies">;

/** Takes each part as it comes, for those who look on. */
type Note = (part: CheckPart) => Promise<void>;

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
  take(script_ms: number, note: Note = () => Promise.resolve()): Promise<Measured> {
    const limit_ms = Math.min(Math.max(script_ms, 1), MOST_MS);
    return this.#under_way ??= this.#measure(limit_ms, note).finally(() => this.#under_way = undefined);
  }

  async #measure(limit_ms: number, note: Note): Promise<Measured> {
    // One after another, and none after the answer; what cannot be noted is only not looked on.
    let noted = Promise.resolve();
    const say = (name: string, more: Partial<CheckPart>) => {
      const part = { name, ok: true, value: "", message: "", ms: 0, ...more };
      noted = noted.then(() => note(part)).catch(() => undefined);
    };
    const cores = navigator.hardwareConcurrency;
    const measured = {
      load_percent: Math.round((Deno.loadavg()[0] ?? 0) / cores * 100),
      cores,
      disk_free_mb: await freeMb(this.#state_dir),
      memory_free_mb: Math.floor(Deno.systemMemoryInfo().available / MB),
      lack: await lackIn(this.#state_dir),
    };
    say("connection", {});
    const { load_percent, disk_free_mb: free_mb } = measured;
    say("disk", { value: stored("nodes.check.free", { mb: free_mb }) });
    say("load", { value: stored("nodes.check.load", { percent: load_percent, cores }) });
    const scripts = this.#checks_dir === undefined ? [] : await runScripts(
      this.#checks_dir,
      limit_ms,
      ({ name, ...script }) => say(`script ${name}`, script),
    );
    await noted;
    return { ...measured, scripts };
  }
}

/** What keeps this process from making a folder there, as each body needs one, and a small file in it; empty: nothing. */
async function lackIn(folder: string): Promise<string> {
  let made: string | undefined;
  try {
    made = await Deno.makeTempDir({ dir: folder, prefix: "check-" });
    await Deno.writeFile(`${made}/file`, new Uint8Array(4096));
    return "";
  } catch (error) {
    return shortageOf(error) ?? ""; // also when it is not there: it is made only when it is needed
  } finally {
    if (made) await Deno.remove(made, { recursive: true }).catch(() => {});
  }
}

/** Of the folder, or of the first one above it that is there: it is made only when it is needed. */
export async function freeMb(folder: string): Promise<number> {
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
