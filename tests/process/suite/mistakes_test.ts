/** The planted mistakes can be planted, and the tool that plants them tells what was noticed from what was not. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { MISTAKES } from "../../mistakes/all.ts";
import type { Mistake } from "../../mistakes/mistake.ts";
import { choose, tryMistake, whyNotPlanted } from "../../mistakes/plant.ts";

Deno.test("each planted mistake still has its place, and tests that there are", () => {
  const texts = new Map<string, string>();
  const textOf = (path: string) => {
    const text = texts.get(path) ?? Deno.readTextFileSync(PROJECT_DIR + path);
    texts.set(path, text);
    return text;
  };
  const problems = MISTAKES.flatMap((mistake) => {
    const { id, file, tests, filter = "" } = mistake;
    const text = tests.map(textOf).join("\n").replaceAll('\\"', '"');
    const pattern = filter.startsWith("/") ? new RegExp(filter.slice(1, -1)) : undefined;
    const is_computed = /Deno\.test\(\s*(?:`|\{)/.test(text); // then only a run tells what its names are
    const known = is_computed || (pattern ? pattern.test(text) : text.includes(filter));
    return [
      whyNotPlanted(mistake, textOf(file)),
      tests.length === 0 ? "it names no test" : undefined,
      known ? undefined : `no test of ${tests.join(", ")} has the name ${filter}`,
    ].flatMap((problem) => problem ? [`${id}: ${problem}`] : []);
  });
  assert.equal(problems.join("\n"), "");
  const ids = MISTAKES.map(({ id }) => id);
  assert.deepEqual(ids, [...new Set(ids)]);
});

Deno.test("a seed chooses the same mistakes each time, and another seed others", () => {
  const mistakes = Array.from({ length: 50 }, (_, number) => ({ id: `m${number}` })) as Mistake[];
  const ids = (seed: number) => choose(mistakes, seed).map(({ id }) => id);
  assert.deepEqual(ids(7), ids(7));
  assert.notDeepEqual(ids(7), ids(8));
  assert.deepEqual(ids(7).toSorted(), mistakes.map(({ id }) => id).toSorted());
});

Deno.test("only a test that fails has caught a mistake", async () => {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-mistakes-" });
  const adds = "export const add = (a: number, b: number) => a + b;\n";
  const files = {
    "deno.json": "{}",
    "add.ts": adds,
    "add_test.ts": `import { add } from "./add.ts";
Deno.test("adds \\"two\\"", () => { if (add(1, 2) !== 3) throw new Error("no"); });
Deno.test("adds none", async () => { if (add(0, 0) !== 0) throw new Error("no"); if (add(0, 1) > 9) await new Promise(() => setInterval(() => {}, 1e6)); });\n`,
  };
  try {
    for (const [name, text] of Object.entries(files)) Deno.writeTextFileSync(`${dir}/${name}`, text);
    const verdictOf = async (find: string, replace: string, more: { filter?: string; limit_ms?: number } = {}) => {
      const { limit_ms = 60_000, filter } = more;
      const mistake = { id: "one", file: "add.ts", find, replace, tests: ["add_test.ts"], filter, why: "" };
      const { result, detail } = await tryMistake(mistake, { dir, env: {}, limit_ms });
      assert.equal(Deno.readTextFileSync(`${dir}/add.ts`), adds, "what was planted is taken out again");
      return `${result}: ${detail}`;
    };
    assert.equal(await verdictOf("a + b", "a - b"), 'caught: adds "two"');
    assert.equal(await verdictOf("a + b", "b + a"), "unnoticed: every test passed");
    assert.equal(await verdictOf("a + b", "a - b", { filter: "none" }), "unnoticed: every test passed");
    assert.equal(await verdictOf("a + b", "a - b", { filter: "no such" }), "broken: no test ran");
    assert.match(await verdictOf("a + b", "a +"), /^broken: no test failed, but .*error: .*Expression expected/i);
    assert.match(
      await verdictOf("const add", "const sum"),
      /^broken: no test failed, but .*does not provide an export/,
    );
    assert.match(await verdictOf("a + b", "a + b; throw 1"), /^broken: no test failed/);
    assert.match(
      await verdictOf("a + b", "a + b + 9 * Number(a + b === 1)", { filter: "none", limit_ms: 800 }),
      /^broken: its tests did not end within 0.8 s/,
    );
    assert.match(await verdictOf("nowhere", "x"), /^broken: .*occurs 0 times in add\.ts/);
    assert.match(await verdictOf("a", "x"), /^broken: .*occurs \d+ times in add\.ts/);
    assert.match(await verdictOf("a + b", "a + b"), /^broken: .*the same/);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});
