/** A few seconds of `deno task chaos`, so that every commit shows that it works; it is run for longer by hand. */
import assert from "node:assert/strict";
import { testWithRedisServer } from "../support/redis_server.ts";
import { chaos } from "./live.ts";

testWithRedisServer("a few faults under load break no invariant", async () => {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-chaos-" });
  const stop = new AbortController().signal;
  const { report, story } = await chaos({ seed: 3, minutes: 0.25, workers: 3, dir, stop, say: () => {} });
  assert.deepEqual(report.violations, [], story);
  assert(report.faults > 0 && report.bodies > 50, JSON.stringify(report));
  Deno.removeSync(dir, { recursive: true });
});
