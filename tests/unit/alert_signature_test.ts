/** The signature of alerts, against one that another program made. */
import assert from "node:assert/strict";
import { signature } from "../../src/alerts/alert_delivery.ts";

Deno.test("a signature is over time and body, to the letter as openssl makes it", async () => {
  // printf '1795291982.{"delivery":41}' | openssl dgst -sha256 -hmac key
  const made = "b2e9eb61c8c221288c6d30dec0d1b4d735b7b80f60e3e9f43f52821eec5ab031";
  const at = new Date(1_795_291_982_999);
  assert.equal(await signature("key", '{"delivery":41}', at), `t=1795291982,v1=${made}`);
});
