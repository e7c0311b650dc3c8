/** Callback addresses: what one holds comes back, and nothing that was changed does. */
import assert from "node:assert/strict";
import { callbackAddress, callbackToken, readCallback } from "../../src/steps/callback_address.ts";

const SECRET = "k".repeat(43);
const CALLBACK = { job_run_id: 812, name: "mail.confirmed", expires_unix_ms: 1_800_000_000_000 };

Deno.test("what an address says comes back, also a name with dots and one without an end", () => {
  for (const callback of [CALLBACK, { job_run_id: 9_007_199_254_740_991, name: "a", expires_unix_ms: 0 }]) {
    assert.deepEqual(readCallback(SECRET, callbackToken(SECRET, callback)), callback);
  }
  const address = callbackAddress(new URL("https://jobs.example.com/dandori/"), SECRET, CALLBACK);
  assert.match(address, /^https:\/\/jobs\.example\.com\/dandori\/m\/812\.mail\.confirmed\.1800000000000\.[\w-]{43}$/);
});

Deno.test("whatever is changed in one, or signed with another key, is none", () => {
  const token = callbackToken(SECRET, CALLBACK);
  const other = callbackToken("x".repeat(43), CALLBACK);
  assert.equal(readCallback(SECRET, other), undefined);
  for (let place = 0; place < token.length; place++) {
    const changed = `${token.slice(0, place)}${token[place] === "1" ? "2" : "1"}${token.slice(place + 1)}`;
    assert.equal(readCallback(SECRET, changed), undefined, changed);
  }
  for (
    const bad of [
      "",
      ".",
      "812",
      token.slice(1),
      token.slice(0, -1),
      `${token}A`,
      `${token}.`,
      `${token.slice(0, -1)}é`,
    ]
  ) {
    assert.equal(readCallback(SECRET, bad), undefined, bad);
  }
});
