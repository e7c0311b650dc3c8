/**
 * A worker of which only the sandbox is there, as a process that tests kill or freeze. Starts the body and args that
 * are its arguments, and prints lines of JSON: first its body's pid, then what the body says, then the outcome.
 * A line on its stdin lets go of the body: it may run no longer. The last argument is the window of its guard, in seconds.
 */
import { ProcessPool } from "../../src/sandbox/process_pool.ts";
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { type BodyName, orderFor } from "./bodies.ts";

const [name, args, state_dir, window] = Deno.args as [BodyName, string, string, string];
const sandbox = new ProcessPool({
  project_dir: PROJECT_DIR,
  state_dir,
  spares: 0,
  env: Deno.env.toObject(),
  guard_window_seconds: Number(window),
});
let may_run = true;
sandbox.hold(() => may_run);
const permissions = name === "grandchild" ? { unsafe: { run: ["sh"] } } : {};
const body = sandbox.start(orderFor(name, args, { permissions, timeout_ms: 120_000 }), {
  onLog: (lines) => lines.forEach((line) => say({ line: line.message, fields: line.fields ?? null })),
  onProgress() {},
  onSteps() {},
});
say({ pid: body.pid });
body.outcome.then(async (outcome) => {
  say({ outcome });
  await sandbox.close();
  Deno.exit(0);
});
for await (const _ of Deno.stdin.readable) {
  may_run = false;
  say({ let_go: true });
}

function say(what: unknown): void {
  console.log(JSON.stringify(what));
}
