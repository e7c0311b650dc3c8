/**
 * The program: signals, the exit code, and nothing else. Commands are in src/cli/, and loaded once signals are heard: a process that
 * is told to stop while it starts ends well, too. Deno loads whatever is imported by a literal name before the first line runs.
 */
import { monotonicMs } from "./src/base/loop.ts";

/** A Ctrl-C comes twice: from the terminal, and from `deno task`, which passes on what it gets itself. */
const ONE_KEYSTROKE_MS = 500;

const stop = new AbortController();
const hurry = new AbortController();
let stopped_at_ms = 0;

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  Deno.addSignalListener(signal, () => {
    if (!stop.signal.aborted) {
      stopped_at_ms = monotonicMs();
      stop.abort(signal);
    } else if (monotonicMs() - stopped_at_ms > ONE_KEYSTROKE_MS) hurry.abort(signal);
  });
}
// A promise nobody waited for is a bug; going on in an unknown state is worse than starting again.
globalThis.addEventListener("unhandledrejection", (event) => {
  console.error("fatal: a failure that nothing handles:", event.reason);
  Deno.exit(70);
});

const program = new URL("./src/cli/program.ts", import.meta.url).href;
const { runCli } = await import(program) as typeof import("./src/cli/program.ts");
Deno.exit(await runCli(Deno.args, { stop: stop.signal, hurry: hurry.signal }));
