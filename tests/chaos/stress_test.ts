/** The protocol under stress, a few seeds of it; `deno run -A tests/chaos/stress.ts --seed N` runs any. */
import assert from "node:assert/strict";
import { stress } from "./stress.ts";

/** Two that are always the same, so that a change is compared with what was, and one that never was. */
const SEEDS = [1, 2, crypto.getRandomValues(new Uint32Array(1))[0] as number];
const SECONDS = 8;

for (const seed of SEEDS) {
  Deno.test(`no invariant breaks under stress, seed ${seed === SEEDS[2] ? "of chance" : seed}`, async () => {
    const { violations, story, counts } = await stress({ seed, seconds: SECONDS });
    console.log(
      `seed ${seed}: ${counts.bodies} bodies, ${counts["worker.buried"] ?? 0} workers buried, ${
        counts["leader.elected"]
      } terms`,
    );
    assert(violations.length === 0, `\n${story}`);
    assert((counts.bodies ?? 0) > 30, "Hardly anything ran: a stress of nothing proves nothing");
  });
}

Deno.test("no invariant breaks where runs come one by one, and go the short way", async () => {
  const seed = crypto.getRandomValues(new Uint32Array(1))[0] as number;
  const { violations, story, counts } = await stress({ seed, seconds: SECONDS, quiet: true });
  console.log(`seed ${seed}: ${counts.bodies} bodies, ${counts["orders ahead of their assignment"] ?? 0} orders ahead`);
  assert(violations.length === 0, `\n${story}`);
  assert((counts.bodies ?? 0) > 5, "Hardly anything ran: a stress of nothing proves nothing");
});
