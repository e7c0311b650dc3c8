/**
 * The programs that started us: `npx` starts a shell, that starts `deno task`, that starts `dev`. A signal to the first
 * of them ends it, or the shell, without a word to us; a Ctrl-C reaches us, a `kill` of npx does not. So `dev` watches
 * them, and stops when one is gone, as if the signal had been for it.
 */
import { every } from "../platform/timers.ts";

interface Launcher {
  pid: number;
  /** With the pid it names one process for ever. */
  started: string;
}

const LOOK_EVERY_MS = 500;

/** Calls `gone` once when one of our launchers has ended. Resolves when that was said, or `stop` fired. */
export async function watchParents(stop: AbortSignal, gone: () => void): Promise<void> {
  const launchers = findLaunchers(Deno.ppid);
  if (launchers.length === 0) return;
  const done = new AbortController();
  await every(LOOK_EVERY_MS, () => {
    if (!launchers.every(isAlive)) {
      done.abort();
      gone();
    }
    return Promise.resolve();
  }, { name: "launchers", stop: AbortSignal.any([stop, done.signal]) });
}

function findLaunchers(pid: number): Launcher[] {
  const launchers: Launcher[] = [];
  for (let stat = statOf(pid); stat && isParentLauncher(argumentsOf(pid)); stat = statOf(pid)) {
    launchers.push({ pid, started: stat.started });
    pid = stat.parent;
  }
  return launchers;
}

/** Deno itself, what npx shows as its title, and its shell. Not somebody's script that starts us in the background. */
export function isParentLauncher(argv: string[]): boolean {
  const [program = "", flag, script = ""] = argv;
  const name = program.split("/").at(-1) ?? "";
  if (name === "deno" || /^(npm exec|npx) (.* )?deno(@\S*)? /.test(program)) return true;
  if (name === "node") return argv.some((arg) => /(npx-cli\.js|deno\/bin\.cjs|\.bin\/deno)$/.test(arg));
  return ["sh", "bash", "dash"].includes(name) && flag === "-c" && /^["']?deno["']? [^&;|\n]*$/.test(script);
}

function isAlive({ pid, started }: Launcher): boolean {
  const stat = statOf(pid);
  return stat?.started === started && stat.state !== "Z";
}

/** Linux only; elsewhere nothing is known, and nobody is watched. */
function statOf(pid: number): { parent: number; started: string; state: string } | undefined {
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    const [state = "", parent, ...rest] = stat.slice(stat.lastIndexOf(")") + 2).split(" "); // the name may hold anything
    return { state, parent: Number(parent), started: rest[17] ?? "" };
  } catch {
    return undefined;
  }
}

function argumentsOf(pid: number): string[] {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
  } catch {
    return [];
  }
}
