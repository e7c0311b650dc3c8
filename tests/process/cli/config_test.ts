/** What the environment may say of TLS, and what it may not. */
import assert from "node:assert/strict";
import { makeAuthority } from "../../../src/rpc/certificates.ts";
import type { Finding } from "../../../src/ops/doctor.ts";
import { cliWith } from "../../support/cli.ts";
import { aCertifiedNode, aNode } from "../../support/cluster_peers.ts";
import { type Config, isLoopback, PROJECT_DIR, readConfig } from "../../../src/platform/config.ts";
import { processStarted } from "../../../src/platform/process_stat.ts";
import { addressText, withoutPassword } from "../../../src/platform/text.ts";

const STORES = {
  DATABASE_URL: "postgres://x",
  REDIS_URL: "redis://x",
  SCHEDULER_NODE_ID: "web-1",
  SCHEDULER_STATE_DIR: "/nowhere",
};
const read = (env: Record<string, string | undefined>): Config => readConfig({ ...STORES, ...env });

Deno.test("certificates are pinned unless an authority is named; with both, either is enough", () => {
  const files = { cert_file: "/etc/scheduler/tls/tls.crt", key_file: "/etc/scheduler/tls/tls.key", node_id: "web-1" };
  const pins_file = "/etc/scheduler/tls/pins.pem";
  assert.deepEqual(read({}).tls, { ...files, pins_file, ca_file: undefined });
  assert.deepEqual(read({ SCHEDULER_TLS: "mtls" }).tls, { ...files, pins_file, ca_file: undefined });
  const ca = { SCHEDULER_TLS_CA_FILE: "/ca.crt" };
  assert.deepEqual(read(ca).tls, { ...files, pins_file: undefined, ca_file: "/ca.crt" });
  assert.deepEqual(read({ ...ca, SCHEDULER_TLS_PINS_FILE: "/p" }).tls, {
    ...files,
    pins_file: "/p",
    ca_file: "/ca.crt",
  });
  assert.deepEqual(read({ SCHEDULER_TLS_POLL_MS: "500" }).tls, {
    ...files,
    pins_file,
    ca_file: undefined,
    poll_ms: 500,
  });
  const seldom = /SCHEDULER_TLS_POLL_MS must be a whole number from 100 to 5000: current value is "60000"/;
  assert.throws(() => read({ SCHEDULER_TLS_POLL_MS: "60000" }), seldom);
});

Deno.test("a mesh is asked for by its name, and nothing falls back to it", () => {
  assert.equal(read({ SCHEDULER_TLS: "mesh" }).tls, "mesh");
  for (const typo of ["Mesh", "mesh ", "none", "off", "false", "0", "tls"]) {
    assert.throws(() => read({ SCHEDULER_TLS: typo }), new RegExp(`must be mtls or mesh: current value is "${typo}"`));
  }
  for (const file of ["CERT", "KEY", "PINS", "CA"]) {
    const name = `SCHEDULER_TLS_${file}_FILE`;
    assert.throws(
      () => read({ SCHEDULER_TLS: "mesh", [name]: "/x" }),
      new RegExp(`but ${name} is set: unset one of the two`),
    );
  }
});

Deno.test("a worker listens on this machine alone unless told otherwise, in a mesh as well", () => {
  for (const env of [{}, { SCHEDULER_TLS: "mesh", SCHEDULER_GRPC_ADVERTISE: "10.0.0.9:7000" }]) {
    assert(isLoopback(read(env).grpc_host));
  }
  for (const host of ["127.0.0.1", "127.1.2.3", "::1", "localhost"]) assert(isLoopback(host), host);
  for (const host of ["0.0.0.0", "::", "10.0.0.9", "127.evil.example", "localhost.example"]) {
    assert(!isLoopback(host), host);
  }
});

Deno.test("an address of IPv6 is understood with and without brackets, and shown with them", () => {
  for (const advertised of ["[fd00::7]:7400", "fd00::7:7400"]) {
    const at = read({ SCHEDULER_GRPC_ADVERTISE: advertised }).grpc_advertise;
    assert.deepEqual(at, { host: "fd00::7", port: 7400 });
    assert.equal(at && addressText(at.host, at.port), "[fd00::7]:7400");
  }
  assert.equal(read({ SCHEDULER_GRPC_HOST: "[::1]" }).grpc_host, "::1");
  assert.equal(addressText("10.0.0.9", 7400), "10.0.0.9:7400");
  for (const every of ["0.0.0.0", "::", "[::]"]) {
    assert.throws(
      () => read({ SCHEDULER_GRPC_HOST: every }),
      /every address, so nobody could be told .* set SCHEDULER_GRPC_ADVERTISE/,
    );
    assert.equal(
      read({ SCHEDULER_GRPC_HOST: every, SCHEDULER_GRPC_ADVERTISE: "web-1:7400" }).grpc_advertise?.host,
      "web-1",
    );
  }
  for (const wrong of ["fd00::7", "[fd00::7]", "[fd00::7:7400", "[web-1]:7400", "7400"]) {
    assert.throws(() => read({ SCHEDULER_GRPC_ADVERTISE: wrong }), /SCHEDULER_GRPC_ADVERTISE must be host:port/, wrong);
  }
});

Deno.test("of an address everything may be shown but its password and what follows a question mark, wherever that stands", () => {
  for (
    const [url, shown] of [
      ["postgres://u:secret@h:5432/x?sslmode=require", "postgres://…@h:5432/x"],
      ["postgres://u:sec?ret@h/x", "postgres://…@h/x"],
      ["postgres://u:sec@ret@a:1,b:2/x", "postgres://…@a:1,b:2/x"],
      ["redis+sentinel://:secret@a,b/main?sentinel_password=secret", "redis+sentinel://…@a,b/main"],
    ] as const
  ) assert.equal(withoutPassword(url), shown);
});

Deno.test("nothing starts while the checks of certificates are turned off", async () => {
  assert.throws(
    () => read({ NODE_TLS_REJECT_UNAUTHORIZED: "0" }),
    /NODE_TLS_REJECT_UNAUTHORIZED=0 turns .* off: unset it/,
  );
  for (const flag of ["--unsafely-ignore-certificate-errors", "--unsafely-ignore-certificate-errors=db.example"]) {
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", flag, `${PROJECT_DIR}main.ts`, "worker"],
      env: { ...STORES, NO_COLOR: "1" },
      stdout: "null",
    }).output();
    const said = new TextDecoder().decode(stderr);
    assert.equal(code, 2, said);
    assert.match(said, new RegExp(`Cannot start: Deno was started with ${flag}, which turns the checks`));
  }
});

Deno.test("doctor says how peers are known, and warns of what is exposed or ends soon", async () => {
  const tls = async (env: Record<string, string>) => {
    const { out } = await cliWith({
      ...STORES,
      DATABASE_URL: "postgres://a@127.0.0.1:1/x",
      REDIS_URL: "none", // refused at once; one that is away is waited for
      ...env,
    })("doctor", "--json");
    return (JSON.parse(out) as Finding[]).find((one) => one.check === "tls");
  };
  const with_days = async (days: number) => {
    const { files } = await aNode("web-1", { days });
    return {
      SCHEDULER_TLS_CERT_FILE: files.cert_file,
      SCHEDULER_TLS_KEY_FILE: files.key_file,
      SCHEDULER_TLS_PINS_FILE: files.pins_file,
    };
  };
  const authority = await makeAuthority("company", { days: 5 });
  const { files } = await aCertifiedNode(authority, "web-1", { days: 90 });
  const certified = {
    SCHEDULER_TLS_CERT_FILE: files.cert_file,
    SCHEDULER_TLS_KEY_FILE: files.key_file,
    SCHEDULER_TLS_CA_FILE: files.ca_file,
  };
  const cases: [Record<string, string>, Finding["state"], RegExp][] = [
    [{ SCHEDULER_TLS: "mesh" }, "ok", /plain text on 127\.0\.0\.1/],
    [
      { SCHEDULER_TLS: "mesh", SCHEDULER_GRPC_HOST: "0.0.0.0", SCHEDULER_GRPC_ADVERTISE: "10.0.0.7:7400" },
      "warning",
      /plain text on 0\.0\.0\.0.*no loopback address/,
    ],
    [await with_days(90), "ok", /for 90 days, 1 pinned/],
    [await with_days(20), "warning", /for 20 days/],
    [await with_days(0.5), "problem", /for 0 days/],
    [certified, "warning", /1 in the CA file; the authority "CN=company" ends in 5 days/],
    [{ ...certified, SCHEDULER_NODE_ID: "web-7" }, "problem", /is for web-1, and the node meant is web-7/],
  ];
  const found = await Promise.all(cases.map(([env]) => tls(env)));
  for (const [place, [, state, detail]] of cases.entries()) {
    assert.equal(found[place]?.state, state, JSON.stringify(found[place]));
    assert.match(found[place]?.detail ?? "", detail);
    assert.equal(found[place]?.fix !== "", state !== "ok");
  }
});

Deno.test("the note of a dev that was killed is not believed once another process has its pid", () => {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-note-" });
  const found = (process_started?: string) => {
    const note = { pid: Deno.pid, process_started, database_url: "postgres://dev", redis_url: "redis://dev" };
    Deno.writeTextFileSync(`${dir}/dev.json`, JSON.stringify(note));
    return readConfig({ SCHEDULER_STATE_DIR: dir }).database_url;
  };
  try {
    assert.equal(found(processStarted(Deno.pid)), "postgres://dev");
    assert.throws(() => found("1"), /no `deno task dev` is running in this checkout/);
    assert.throws(() => found(undefined), /no `deno task dev` is running in this checkout/);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("callback addresses need a key that cannot be guessed, and the address of the admin server; the key is never shown", async () => {
  assert.equal(read({}).callback, undefined);
  const secret = (await cliWith({})("secret")).out.trim();
  assert.match(secret, /^[\w-]{43}$/);
  assert.notEqual((await cliWith({})("secret")).out.trim(), secret);
  const base = "https://jobs.example.com/dandori";
  const { callback } = read({ SCHEDULER_CALLBACK_SECRET: secret, SCHEDULER_ADMIN_URL: base });
  assert.deepEqual([callback?.secret, callback?.base.href], [secret, base]);
  assert.throws(
    () => read({ SCHEDULER_CALLBACK_SECRET: secret }),
    /SCHEDULER_CALLBACK_SECRET needs SCHEDULER_ADMIN_URL/,
  );
  assert.throws(
    () => read({ SCHEDULER_CALLBACK_SECRET: "guess-me", SCHEDULER_ADMIN_URL: base }),
    (error: Error) => /at least 32 characters/.test(error.message) && !error.message.includes("guess-me"),
  );
});
