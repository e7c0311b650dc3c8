/** Ids that rise: UUIDs that Postgres and others take for such, all different, in the order in which they were made. */
import assert from "node:assert/strict";
import { rest } from "../src/base/loop.ts";
import { risingId } from "../src/base/rising_id.ts";

const MANY = 10_000;

Deno.test("a rising id is a UUID of version 7 that holds the time, and no two are the same", () => {
  const before_ms = Date.now();
  const ids = Array.from({ length: MANY }, risingId);
  const after_ms = Date.now();
  for (const id of ids) {
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const ms = Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
    assert(ms >= before_ms && ms <= after_ms, `${id} says ${ms}, made between ${before_ms} and ${after_ms}`);
  }
  assert.equal(new Set(ids.map((id) => id.slice(13))).size, MANY, "what is random differs by itself");
});

Deno.test("a rising id comes after those of earlier milliseconds", async () => {
  const earlier = risingId();
  await rest(2);
  assert(risingId() > earlier);
});
