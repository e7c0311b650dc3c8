/** What SCHEDULER_FAILPOINT may say, and what a failpoint does then; what it is for is in tests/chaos/. */
import assert from "node:assert/strict";
import { ConfigError, PROJECT_DIR, readConfig } from "../../src/platform/config.ts";
import { failpoint, FAILPOINTS, failpointsIn, setFailpoints } from "../../src/platform/failpoint.ts";
import { type FactName, hear } from "../../src/platform/facts.ts";
import { isUnreachable } from "../../src/postgres/connection.ts";
import { parseSource, sourcesIn } from "../support/source_tree.ts";

const STORES = { DATABASE_URL: "postgres://x", REDIS_URL: "redis://x" };

Deno.test("what is not understood keeps the process from starting, and is told with all names", () => {
  const wrong = "after-spwan:1:stop, after-spawn:0:kill, after-spawn:1:boom, after-spawn:1:delay, after-spawn:1:kill:9";
  assert.throws(() => readConfig({ ...STORES, SCHEDULER_FAILPOINT: wrong }), (error) => {
    assert(error instanceof ConfigError);
    assert.match(
      error.message,
      /"after-spwan:1:stop": there is no failpoint "after-spwan"; there are after-redis-lock, /,
    );
    for (const name of Object.keys(FAILPOINTS)) assert(error.message.includes(name), name);
    assert.match(error.message, /"after-spawn:0:kill": the hit must be a whole number from 1: current value is "0"/);
    for (const word of ["after-spawn:1:boom", "after-spawn:1:delay", "after-spawn:1:kill:9"]) {
      assert(error.message.includes(`"${word}": the action must be stop, kill, error or delay:ms`), word);
    }
    return true;
  });
  assert.deepEqual(readConfig({ ...STORES, SCHEDULER_FAILPOINT: " after-spawn:2:delay:30 ," }).failpoints, [
    { name: "after-spawn", hit: 2, action: "delay", delay_ms: 30 },
  ]);
  assert.deepEqual(readConfig(STORES).failpoints, []);
});

Deno.test("a failpoint acts at its hit and at no other, and says so; nothing is set by itself", async () => {
  const heard: [FactName, unknown][] = [];
  const deaf = hear((name, fact) => void heard.push([name, fact]));
  try {
    assert.equal(failpoint("after-spawn"), undefined);
    setFailpoints(failpointsIn("after-spawn:2:error, after-spawn:3:delay:1", []));
    assert.equal(failpoint("after-spawn"), undefined);
    assert.equal(failpoint("during-drain"), undefined);
    assert.throws(() => failpoint("after-spawn"), (error) => isUnreachable(error));
    assert(failpoint("after-spawn") instanceof Promise);
    assert.equal(failpoint("after-spawn"), undefined);
    assert.deepEqual(heard, [
      ["failpoint.set", { failpoint: "after-spawn", hit: 2, action: "error" }],
      ["failpoint.set", { failpoint: "after-spawn", hit: 3, action: "delay:1" }],
      ["failpoint.hit", { failpoint: "after-spawn", hit: 2, action: "error" }],
      ["failpoint.hit", { failpoint: "after-spawn", hit: 3, action: "delay:1" }],
    ]);
  } finally {
    setFailpoints([]);
    deaf();
  }
  assert.equal(await failpoint("after-spawn"), undefined);
});

Deno.test("each failpoint stands in exactly one place, and where it can wait it is waited for", () => {
  const lines = sourcesIn("src").flatMap(({ text }) => text.split("\n")).filter((line) => line.includes("failpoint("));
  for (const [name, where] of Object.entries(FAILPOINTS)) {
    const calls = lines.filter((line) => new RegExp(`\\bfailpoint\\("${name}"\\)`).test(line));
    assert.equal(calls.length, 1, `${name} is called in ${calls.length} places`);
    assert.equal(/await failpoint/.test(calls[0] as string), !/[Cc]annot wait/.test(where), name);
  }
});

Deno.test("no place sets failpoints but the start of a worker", () => {
  const users = sourcesIn("src").filter(({ text, path }) =>
    text.includes("setFailpoints") && parseSource(path, text).uses.some(({ name }) => name === "setFailpoints")
  );
  assert.deepEqual(users.map(({ path }) => path), ["src/app/worker_process.ts"]);
  assert(!Deno.readTextFileSync(`${PROJECT_DIR}/docker-compose.yml`).includes("FAILPOINT"));
});
