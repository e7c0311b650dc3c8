/** A form is ours when it comes from our own origin, and from nowhere else. */
import assert from "node:assert/strict";
import { type BaseUrl, isOwnOrigin } from "../../src/admin/base_url.ts";

Deno.test("a form of another origin, or of none, is not ours", () => {
  const here = { base: "", https: false, origin: undefined, proxies: 0 } as unknown as BaseUrl;
  const named = { ...here, https: true, origin: "https://jobs.example" };
  const sent = (origin: string | undefined) =>
    new Headers({ host: "127.0.0.1:8080", ...origin === undefined ? {} : { origin } });
  assert(isOwnOrigin(here, sent("http://127.0.0.1:8080")));
  assert(isOwnOrigin(named, sent("https://jobs.example")));
  for (const origin of [undefined, "null", "http://evil.example", "http://127.0.0.1:8081"]) {
    assert(!isOwnOrigin(here, sent(origin)), `${origin}`);
    assert(!isOwnOrigin(named, sent(origin)), `${origin}`);
  }
  assert(!isOwnOrigin(named, sent("http://127.0.0.1:8080")), "behind a proxy only the name that is configured counts");
});
