/** The program: signals, the exit code, and nothing else. Commands are in src/cli/. */
import { runCli } from "./src/cli/program.ts";

const stop = new AbortController();
const hurry = new AbortController();

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  Deno.addSignalListener(signal, () => stop.signal.aborted ? hurry.abort(signal) : stop.abort(signal));
}
// A promise nobody waited for is a bug; going on in an unknown state is worse than starting again.
globalThis.addEventListener("unhandledrejection", (event) => {
  console.error("fatal: a failure that nothing handles:", event.reason);
  Deno.exit(70);
});

Deno.exit(await runCli(Deno.args, { stop: stop.signal, hurry: hurry.signal }));
