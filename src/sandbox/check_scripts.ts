/**
 * An operator's check scripts: each executable in a folder is run by itself, without a shell, input or our environment, and
 * all that is left of its process group is killed when it ends or its time is over. Exit code 0 means yes.
 *
 * They are the operator's own programs and run as the worker's user: this is no sandbox for what is not trusted.
 */
import { monotonicMs, rest } from "../platform/timers.ts";
import { resolvePath } from "../platform/paths.ts";
import { harmless } from "../platform/text.ts";
import { emptyGroup } from "./process_table.ts";
import { stored } from "../locale/message.ts";

export interface ScriptEnd {
  name: string;
  ok: boolean;
  message: string;
  ms: number;
}

const MOST_SCRIPTS = 50;
const MOST_BYTES = 4_096;
const MOST_CHARACTERS = 300;
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** What a killed script's pipes may take to close. */
const PIPES_CLOSE_MS = 500;

/** Runs all of them at once; `ended` hears of each when it has ended. A folder that cannot be read is a failure as well: somebody relies on it. */
export async function runScripts(
  dir: string,
  limit_ms: number,
  ended: (script: ScriptEnd) => void = () => {},
): Promise<ScriptEnd[]> {
  const began_ms = monotonicMs();
  let names: string[];
  try {
    names = await executablesIn(dir);
  } catch (error) {
    const message = error instanceof Deno.errors.NotFound
      ? stored("nodes.script.no_folder", { dir })
      : stored("nodes.script.unreadable_folder", { dir, why: String(error) });
    return [{ name: "scripts", ok: false, message, ms: since(began_ms) }];
  }
  if (names.length > MOST_SCRIPTS) {
    const message = stored("nodes.script.too_many", { found: names.length, dir, most: MOST_SCRIPTS });
    return [{ name: "scripts", ok: false, message, ms: since(began_ms) }];
  }
  return await Promise.all(names.map(async (name) => {
    const script = await runScript(dir, name, limit_ms);
    ended(script);
    return script;
  }));
}

/** Files that somebody may execute, links followed; not those that begin with a dot. */
async function executablesIn(dir: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(dir)) {
    if (name.startsWith(".")) continue;
    const found = await Deno.stat(resolvePath(dir, name)).catch(() => undefined);
    if (found?.isFile && ((found.mode ?? 0) & 0o111) !== 0) names.push(name);
  }
  return names.sort();
}

async function runScript(dir: string, name: string, limit_ms: number): Promise<ScriptEnd> {
  const began_ms = monotonicMs();
  try {
    const child = new Deno.Command(resolvePath(dir, name), {
      cwd: dir,
      clearEnv: true,
      env: { PATH, LANG: "C.UTF-8" },
      detached: true, // a group of its own
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const over = new AbortController();
    const said = [child.stdout, child.stderr].map((stream) => firstLine(stream, over.signal));
    const in_time = await Promise.race([
      child.status.then(() => true),
      rest(limit_ms, over.signal).then(() => false),
    ]);
    await emptyGroup(child.pid, () => false);
    const { code, signal } = await child.status;
    await Promise.race([Promise.all(said), rest(PIPES_CLOSE_MS)]); // what left the group may hold the pipes open
    over.abort();
    const [out, err] = await Promise.all(said) as [string, string];
    const ok = in_time && code === 0;
    const ending = !in_time
      ? stored("nodes.script.late", { ms: limit_ms })
      : signal
      ? stored("nodes.script.signal", { signal })
      : stored("nodes.script.exited", { exit_code: code });
    const words = out || err;
    return { name, ok, message: words && in_time ? words : ok ? "" : ending, ms: since(began_ms) };
  } catch (error) {
    return {
      name,
      ok: false,
      message: stored("nodes.script.cannot_run", { why: (error as Error).message }),
      ms: since(began_ms),
    };
  }
}

/** The rest is read and dropped, so that a talkative script does not block. */
async function firstLine(stream: ReadableStream<Uint8Array>, stop: AbortSignal): Promise<string> {
  const reader = stream.getReader();
  const give_up = () => void reader.cancel().catch(() => undefined);
  stop.addEventListener("abort", give_up, { once: true });
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (let news = await reader.read(); !news.done; news = await reader.read()) {
      if (text.length < MOST_BYTES) text += decoder.decode(news.value, { stream: true });
    }
  } catch { /* what was read until here is enough */ }
  stop.removeEventListener("abort", give_up);
  const line = text.split("\n").map((one) => one.trim()).find((one) => one !== "") ?? "";
  return harmless(line).slice(0, MOST_CHARACTERS);
}

function since(began_ms: number): number {
  return Math.round(monotonicMs() - began_ms);
}
