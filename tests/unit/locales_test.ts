/** Texts for people stand in `locales/`, in each language, with the same params, and each is said somewhere. */
import assert from "node:assert/strict";
import { paramsFile, paramsIn } from "../../locales/generate.ts";
import { LANGS, messageText, t, textsOf, type Viewer } from "../../src/locale/locale.ts";
import type { Message } from "../../src/locale/message.ts";
import { PROJECT_DIR } from "../../src/platform/config.ts";
import { sourcesIn } from "../support/source_tree.ts";

const EN: Viewer = { lang: "en" };
const JA: Viewer = { lang: "ja", zone: "Asia/Tokyo" };

/** With a part that is not known before: `jobs.option.${one}`. Of a room alone it would name all its texts. */
const COMPOSED = /`([a-z_]+\.[a-z_]+[._])\$\{/g;

Deno.test("each language has the same texts, in order, and each text can be read", () => {
  const [en, ja] = LANGS.map((lang) => Object.keys(textsOf(lang)));
  assert(en && ja);
  assert.deepEqual(en, en.toSorted(), "run deno task locales");
  assert.deepEqual(ja, ja.toSorted(), "run deno task locales");
  const missing = [
    ...en.filter((key) => !ja.includes(key)).map((key) => `locales/ja.json has no ${key}`),
    ...ja.filter((key) => !en.includes(key)).map((key) => `locales/en.json has no ${key}`),
  ];
  assert.deepEqual(missing, []);
  for (const lang of LANGS) for (const key of en) paramsIn(lang, key);
});

Deno.test("a text is about the same in each language", () => {
  const differing = Object.keys(textsOf("en")).flatMap((key) => {
    const [en, ja] = LANGS.map((lang) => [...paramsIn(lang, key).keys()].sort().join(", "));
    return en === ja ? [] : [`${key}: en takes ${en}; ja takes ${ja}`];
  });
  assert.deepEqual(differing, []);
});

Deno.test("locales/params.ts is what the texts say", () => {
  assert.equal(Deno.readTextFileSync(`${PROJECT_DIR}/locales/params.ts`), paramsFile(), "run deno task locales");
});

Deno.test("each text is used", () => {
  const schema = Deno.readTextFileSync(`${PROJECT_DIR}/schema.sql`);
  const code = [...sourcesIn("src").map(({ text }) => text), schema].join("\n");
  const named = new Set([...code.matchAll(/["'`]([a-z][a-z0-9_.]*\.[A-Za-z0-9_.]+)["'`]/g)].map(([, key]) => key));
  const composed = [...new Set([...code.matchAll(COMPOSED)].map(([, start]) => start as string))];
  const unused = Object.keys(textsOf("en")).filter((key) =>
    !named.has(key) && !composed.some((start) => key.startsWith(start) && key.length > start.length)
  );
  assert.deepEqual(unused, []);
});

Deno.test("what the schema says has a text", () => {
  const schema = Deno.readTextFileSync(`${PROJECT_DIR}/schema.sql`);
  const codes = [...schema.matchAll(/'code', '([a-z_.]+\.[a-z_.]+)'/g)].map(([, code]) => code as string);
  assert(codes.length > 0);
  assert.deepEqual(codes.filter((code) => !Object.hasOwn(textsOf("en"), code)), []);
});

Deno.test("what is counted, left out, nested and listed is said in each language", () => {
  assert.equal(t(EN, "nodes.failovers", { n: 1 }), "1 failover so far");
  assert.equal(t(EN, "nodes.failovers", { n: 2 }), "2 failovers so far");
  assert.equal(t(EN, "queue.paused_by", { who: "ann", why: null }), "paused by ann");
  assert.equal(t(EN, "queue.paused_by", { who: "ann", why: "constructor" }), "paused by ann: constructor");
  assert.equal(t(JA, "queue.paused_by", { who: "ann", why: "a {b}" }), "ann が一時停止：a {b}");
  const keys: Message = { code: "overview.stopped_keys", params: { n: 2 } };
  const what = [{ code: "overview.stopped_jobs", params: { n: 1 } }, keys];
  assert.equal(t(EN, "overview.stopped", { what }), "paused: 1 job, 2 serial keys");
  assert.equal(t(JA, "overview.stopped", { what }), "停止中：ジョブ 1、直列キー 2");
});

Deno.test("a message of another version is said as it is", () => {
  assert.equal(messageText(EN, { code: "of.tomorrow", params: { n: 1 } }), 'of.tomorrow {"n":1}');
  assert.equal(messageText(EN, { code: "constructor" }), "constructor");
  assert.equal(messageText(EN, { code: "nodes.failovers", params: {} }), "nodes.failovers {}");
});
