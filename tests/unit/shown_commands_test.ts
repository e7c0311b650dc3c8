/** What docs and pages tell people to type is what the command line takes: the command, its options, and what they are given. */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { type Command, CommanderError } from "commander";
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { sourcesIn } from "../support/source_tree.ts";

interface Shown {
  path: string;
  line: string;
}

/** Tasks that are no command of ours. */
const NO_COMMANDS = Object.entries(JSON.parse(Deno.readTextFileSync(`${PROJECT_DIR}/deno.json`)).tasks)
  .flatMap(([name, does]) => / main\.ts /.test(String(does)) ? [] : [name]);

/** In a sentence a command may be named without what it works on. */
const MAY_MISS = ["commander.missingArgument", "commander.missingMandatoryOptionValue"];

Deno.test("the examples of the docs are command lines as they stand there", async () => {
  const blocks = docs().flatMap(({ path, text }) =>
    [...text.matchAll(/^( *)```(?:sh)?\n([\s\S]*?)^\1```$/gm)].map(([, , block = ""]) => ({ path, text: block }))
  );
  const shown = found(blocks, /^\s*(?:\$ )?(?:\w+=\S+ )*(?:deno task(?: -q)?|\.\/dandori) (.+)$/gm)
    .map(({ path, line }) => ({ path, line: line.replace(/\s(#|\||&&).*$/, "") }));
  await refuse(shown, { at_least: 80, may: [] });
});

Deno.test("what docs and pages name as a command is one, and is given nothing that it does not take", async () => {
  const pages = sourcesIn("src/admin").filter(({ path }) => path.endsWith(".tsx"));
  const shown = [...found(docs(), /`deno task ([^`]+)`/g), ...found(pages, /deno task ([a-z][^`"\\\n{]*)/g)];
  await refuse(shown, { at_least: 60, may: MAY_MISS });
});

Deno.test("keys that the docs have made inside the checkout get into neither git nor the image", () => {
  const folders = new Set(found(docs(), /deno task certs (?:\w+ )?\.\/(\w+)/g).map(({ line }) => line));
  assert(folders.size > 0);
  for (const list of [".gitignore", "deploy/Dockerfile.dockerignore"]) {
    const ignored = Deno.readTextFileSync(`${PROJECT_DIR}/${list}`).split("\n").map((line) => line.replace(/\/$/, ""));
    assert.deepEqual([...folders].filter((folder) => !ignored.includes(folder)), [], list);
  }
});

Deno.test("every link of the docs leads to a file or folder that is there", async () => {
  const links = docs().flatMap(({ path, text }) =>
    [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map(([, to = ""]) => ({ path, to }))
  ).filter(({ to }) => !/^(https?:|mailto:)/.test(to));
  assert(links.length > 50);
  const missing: string[] = [];
  for (const { path, to } of links) {
    const there = await Deno.stat(`${PROJECT_DIR}/${dirname(path)}/${to}`).catch(() => undefined);
    if (!there) missing.push(`${path} leads to ${to}`);
  }
  assert.deepEqual(missing, []);
});

function docs(): { path: string; text: string }[] {
  const names = [...Deno.readDirSync(`${PROJECT_DIR}/docs`)].map(({ name }) => `docs/${name}`);
  return ["README.md", "CONTRIBUTING.md", ...names.toSorted()].map((path) => ({
    path,
    text: Deno.readTextFileSync(`${PROJECT_DIR}/${path}`),
  }));
}

function found(texts: { path: string; text: string }[], sign: RegExp): Shown[] {
  return texts.flatMap(({ path, text }) => [...text.matchAll(sign)].map(([, line = ""]) => ({ path, line })));
}

async function refuse(shown: Shown[], { at_least, may }: { at_least: number; may: string[] }): Promise<void> {
  assert(shown.length >= at_least, `only ${shown.length} were found`);
  const wrong: string[] = [];
  for (const { path, line } of shown) {
    const words = [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, double, single, bare]) =>
      double ?? single ?? bare!
    );
    if (NO_COMMANDS.includes(words[0]!)) continue;
    try {
      await toothless(buildProgram({} as never)).parseAsync(words, { from: "user" });
    } catch (error) {
      const code = error instanceof CommanderError ? error.code : "";
      if (code !== "commander.help" && !may.includes(code)) wrong.push(`${path}: deno task ${line}\n  ${error}`);
    }
  }
  assert.deepEqual(wrong, []);
}

/** It reads a command line, and does nothing. */
function toothless(command: Command): Command {
  const silent = () => {};
  command.exitOverride().configureOutput({ writeErr: silent, writeOut: silent });
  if (command.commands.length === 0) command.action(silent);
  command.commands.forEach(toothless);
  return command;
}
