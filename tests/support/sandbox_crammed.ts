/**
 * A worker of which only the sandbox is there, in a process that may open few files and has opened them all. Prints as
 * JSON what comes of a body, what a check of its node says, and what comes of a body when the files are closed again.
 */
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { CheckUp } from "../../src/worker/node_probe.ts";
import { ProcessPool } from "../../src/sandbox/process_pool.ts";
import { Heard, orderFor } from "./bodies.ts";

const [state_dir] = Deno.args as [string];
const sandbox = new ProcessPool({ project_dir: PROJECT_DIR, state_dir, spares: 0, env: Deno.env.toObject() });
const check_up = new CheckUp({ state_dir, checks_dir: undefined });
const files: Deno.FsFile[] = [];
try {
  for (;;) files.push(Deno.openSync("/dev/null"));
} catch {
  // all that it may
}
const crammed = await new Heard(sandbox, orderFor("add", { a: 1, b: 2 })).body.outcome;
const { lack } = await check_up.take(1_000);
for (const file of files) file.close();
const free = await new Heard(sandbox, orderFor("add", { a: 1, b: 2 })).body.outcome;
const { lack: none } = await check_up.take(1_000);
await sandbox.close();
console.log(JSON.stringify({ crammed, lack, free, none }));
Deno.exit(0);
