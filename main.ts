/**
 * The program: signals, the exit code, and nothing else. Commands are in src/cli/, and loaded once signals are heard: a process that
 * is told to stop while it starts ends well, too. Deno loads whatever is imported by a literal name before the first line runs.
 */
import { after, monotonicMs } from "./src/platform/timers.ts";
import { notInstalledText } from "./src/platform/not_installed.ts";

/** A Ctrl-C comes twice: from the terminal, and from `deno task`, which passes on what it gets itself. */
const ONE_KEYSTROKE_MS = 500;

/** For a command that heeds no signal: so long is what is read from Postgres waited for. */
const UNHEEDED_MS = 2_000;

const stop = new AbortController();
const hurry = new AbortController();
let stopped_at_ms = 0;
let heeded = false;

/** Under nohup, where a terminal that closes is to end nothing. To be read first: Deno's listeners take that back. */
const outlives_terminal = isIgnored(1);

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  Deno.addSignalListener(signal, () => {
    if (signal === "SIGHUP" && outlives_terminal) return;
    if (!stop.signal.aborted) {
      stopped_at_ms = monotonicMs();
      stop.abort(signal);
      after(UNHEEDED_MS, endUnheeded);
    } else if (monotonicMs() - stopped_at_ms > ONE_KEYSTROKE_MS) {
      hurry.abort(signal);
      endUnheeded();
    }
  });
}
// A promise nobody waited for is a bug; going on in an unknown state is worse than starting again.
globalThis.addEventListener("unhandledrejection", (event) => {
  console.error("fatal: a failure that nothing handles:", event.reason);
  Deno.exit(70);
});

const program = new URL("./src/cli/program.ts", import.meta.url).href;
const { runCli } = await (import(program) as Promise<typeof import("./src/cli/program.ts")>).catch(endNotInstalled);
const signals = {
  get stop() {
    heeded = true;
    return stop.signal;
  },
  hurry: hurry.signal,
};
Deno.exit(await runCli(Deno.args, signals));

/** Most commands end by themselves in a moment, and ask for no signal; unless Postgres, or a lock in it, keeps them. */
function endUnheeded(): void {
  if (heeded) return;
  console.error("stopped; what was asked for may have been done all the same");
  Deno.exit(1);
}

/** @throws what is no lack of a package */
function endNotInstalled(error: unknown): never {
  const text = notInstalledText(String(error));
  if (text === undefined) throw error;
  console.error(`error: Cannot start: ${text}`);
  Deno.exit(1);
}

function isIgnored(signal: number): boolean {
  try {
    const [, mask = "0"] = /^SigIgn:\s*([0-9a-f]+)/m.exec(Deno.readTextFileSync("/proc/self/status")) ?? [];
    return (BigInt(`0x${mask}`) >> BigInt(signal - 1) & 1n) === 1n;
  } catch {
    return false; // no /proc
  }
}
