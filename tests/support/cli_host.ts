/** Runs command lines one after another, as main.ts would, each with the variables it is given; see cli.ts. */
import process from "node:process";
import { runCli } from "../../src/cli/program.ts";
import { eachLine } from "../../src/dev/worker_supervisor.ts";
import type { Order } from "./cli.ts";

const never = new AbortController().signal;
const own = Deno.env.toObject();
let last: Promise<void> = Promise.resolve();

await eachLine(Deno.stdin.readable, (line) => {
  last = last.then(() => obey(JSON.parse(line) as Order));
});

async function obey({ args, env, mark }: Order): Promise<void> {
  for (const [name, value] of Object.entries(env)) Deno.env.set(name, value);
  const code = await runCli(args, { stop: never, hurry: never });
  for (const name of Object.keys(env)) {
    if (own[name] === undefined) Deno.env.delete(name);
    else Deno.env.set(name, own[name]);
  }
  process.stdout.write(`${mark}${code}\n`);
  process.stderr.write(`${mark}\n`);
}
