/** The Map for what comes and goes all the time: it is one, whenever its tables are made anew. */
import assert from "node:assert/strict";
import { ChurnMap } from "../../src/platform/churn_map.ts";

Deno.test("a fleeting map is a map, however many have come and gone", () => {
  const map = new ChurnMap<number, string>();
  for (let n = 0; n < 10_000; n++) {
    map.set(n, `${n}`);
    if (n < 20) continue;
    assert.equal(map.delete(n - 20), true);
    assert.equal(map.delete(n - 20), false);
    assert.equal(map.size, 20);
  }
  assert.deepEqual([...map.values()], Array.from({ length: 20 }, (_, place) => `${9_980 + place}`));
  assert.equal(map.get(9_980), "9980");
  assert.equal(map.has(9_979), false);
});

Deno.test("all of a fleeting map come up while they are deleted one by one", () => {
  const map = new ChurnMap<number, number>();
  for (let n = 0; n < 2_000; n++) map.set(n, n);
  let seen = 0;
  for (const n of map.values()) {
    assert.equal(n, seen++);
    map.delete(n);
  }
  assert.equal(seen, 2_000);
  assert.equal(map.size, 0);
});
