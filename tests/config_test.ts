/** What the environment may say of TLS, and what it may not. */
import assert from "node:assert/strict";
import { type Config, isLoopback, PROJECT_DIR, readConfig } from "../src/base/config.ts";

const STORES = {
  DATABASE_URL: "postgres://x",
  REDIS_URL: "redis://x",
  SCHEDULER_NODE_ID: "web-1",
  DANDORI_STATE_DIR: "/nowhere",
};
const read = (env: Record<string, string>): Config => readConfig({ ...STORES, ...env });

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

Deno.test("with certificates a worker listens where peers reach it, in a mesh on this machine alone", () => {
  const reach = { SCHEDULER_GRPC_HOST: "10.0.0.9" };
  assert.equal(read(reach).grpc_bind, "10.0.0.9");
  assert.equal(read({ ...reach, SCHEDULER_TLS: "mesh" }).grpc_bind, "127.0.0.1");
  assert.equal(read({ ...reach, SCHEDULER_TLS: "mesh", SCHEDULER_GRPC_BIND: "0.0.0.0" }).grpc_bind, "0.0.0.0");
  for (const host of ["127.0.0.1", "127.1.2.3", "::1", "localhost"]) assert(isLoopback(host), host);
  for (const host of ["0.0.0.0", "::", "10.0.0.9", "127.evil.example", "localhost.example"]) {
    assert(!isLoopback(host), host);
  }
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
    assert.equal(code, 3, said);
    assert.match(said, new RegExp(`Cannot start: Deno was started with ${flag}, which turns the checks`));
  }
});
