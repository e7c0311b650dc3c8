/** What a body may do: nothing that is not named. And what it is told when it tries. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { toFileUrl } from "../../../src/platform/paths.ts";
import type { Permissions } from "../../../src/job.ts";
import {
  grantedEnv,
  isUnsafe,
  lineThatGrants,
  mayCall,
  permissionFlags,
  permissionsKey,
  problemsInPermissions,
} from "../../../src/sandbox/permissions.ts";
import { orderFor, ran, withSandbox } from "../../support/bodies.ts";

const GRANTED: Permissions = { env: ["GREETING"] };
const ENV = 'env: ["GREETING"]';

const DENIED: Record<string, string> = {
  net: `permissions: { ${ENV}, net: ["example.com:8443"] }`,
  read: `permissions: { ${ENV}, read: ["/etc/hostname"] }`,
  environ: `permissions: { ${ENV}, read: ["/proc/self/environ"] }`,
  write: `permissions: { ${ENV}, write: ["/tmp/dandori-test-denied"] }`,
  env: 'permissions: { env: ["GREETING", "CANARY_SECRET"] }',
  "all env": 'permissions: { env: ["GREETING", "EACH_VARIABLE_BY_NAME"] }',
  run: `permissions: { ${ENV}, unsafe: { run: ["sh"] } }`,
  sys: `permissions: { ${ENV}, sys: ["hostname"] }`,
  import: `permissions: { ${ENV}, import: ["example.com:443"] }`,
};

Deno.test("what was not granted fails the run for good, and the error ends with the line to add", async (test) => {
  for (const [args, line] of Object.entries(DENIED)) {
    await test.step(args, () =>
      withSandbox(async (sandbox) => {
        const { outcome } = await ran(sandbox, orderFor("asks", args, { permissions: GRANTED }));
        assert(outcome.kind === "FAILED", JSON.stringify(outcome));
        assert.equal(outcome.error_name, "NotCapable");
        assert.equal(outcome.retry, "never");
        assert.match(outcome.error_summary, /^NotCapable: Requires \w+ access/);
        assert.equal(outcome.error_summary.split("\n").at(-1), line);
        assert.doesNotMatch(outcome.error_summary, /canary-7d1f/);
      }));
  }
});

Deno.test("the line that an error names does grant", () =>
  withSandbox(async (sandbox) => {
    const permissions = { ...GRANTED, read: ["/etc/hostname"] };
    const { outcome } = await ran(sandbox, orderFor("asks", "read", { permissions }));
    assert.equal(outcome.kind, "SUCCEEDED");
  }));

Deno.test("a body has the variables that were named, and a relative path means the same to it as in its permissions", () =>
  withSandbox(async (sandbox) => {
    const greeting = await ran(sandbox, orderFor("asks", "granted env", { permissions: GRANTED }));
    assert.deepEqual(greeting.outcome, { kind: "SUCCEEDED", result: "good morning", exit_code: 0 });
    const permissions = { ...GRANTED, read: ["deno.json"] };
    const { outcome } = await ran(sandbox, orderFor("asks", "relative read", { permissions }));
    assert.deepEqual(outcome, { kind: "SUCCEEDED", result: true, exit_code: 0 });
  }));

Deno.test("a body finds no store that it would share with others without asking", () =>
  withSandbox(async (sandbox) => {
    const { outcome } = await ran(sandbox, orderFor("asks", "stores"));
    assert.deepEqual(outcome, { kind: "SUCCEEDED", result: ["undefined", "undefined"], exit_code: 0 });
  }));

Deno.test("no variable of the worker reaches a body's process, not even out of its sight", () =>
  withSandbox(async (sandbox) => {
    let environ = "";
    const running = sandbox.start(orderFor("ends", "wait for a signal", { permissions: GRANTED }), {
      onLog: () => environ ||= Deno.readTextFileSync(`/proc/${running.pid}/environ`),
      onProgress() {},
      onSteps() {},
    });
    const cancelSoon = setInterval(() => environ && running.cancel("seen"), 10);
    await running.outcome;
    clearInterval(cancelSoon);
    const names = environ.split("\0").map((entry) => entry.split("=")[0]).filter(Boolean).sort();
    assert(names.includes("GREETING"));
    const known = ["DENO_DIR", "GREETING", "HOME", "NO_COLOR", "PATH", "PWD", "OLDPWD", "XDG_CACHE_HOME"];
    assert.deepEqual(names.filter((name) => !known.includes(name as string)), []);
  }));

Deno.test("secret paths stay closed to a body that may read everything", () =>
  withSandbox(async (sandbox) => {
    const { outcome } = await ran(sandbox, orderFor("asks", "read", { permissions: { read: true } }));
    assert(outcome.kind === "FAILED", JSON.stringify(outcome));
    assert.equal(outcome.error_name, "NotCapable");
    assert.doesNotMatch(outcome.error_summary, /permissions:/);
  }, { secret_paths: ["/etc/hostname"] }));

Deno.test("what a secret path leads to is closed by each of its names, as Kubernetes mounts a key", async () => {
  const dir = await Deno.makeTempDir();
  Deno.mkdirSync(`${dir}/..1`);
  Deno.writeTextFileSync(`${dir}/..1/tls.key`, "the key");
  Deno.symlinkSync("..1", `${dir}/..data`);
  Deno.symlinkSync("..data/tls.key", `${dir}/tls.key`);
  Deno.symlinkSync("..1", `${dir}/state`);
  const paths = ["tls.key", "..data/tls.key", "..1/tls.key", "..1/made_later"].map((name) => `${dir}/${name}`);
  try {
    await withSandbox(async (sandbox) => {
      const { outcome } = await ran(sandbox, orderFor("asks", paths, { permissions: { read: true } }));
      const result = paths.map(() => "NotCapable");
      assert.deepEqual(outcome, { kind: "SUCCEEDED", result, exit_code: 0 });
    }, { secret_paths: [`${dir}/tls.key`, `${dir}/state/made_later`] });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a process that holds more than it was granted refuses to load the job", async () => {
  const side = new URL("../../../src/sandbox/child/host.ts", import.meta.url).href;
  const job = toFileUrl(`${PROJECT_DIR}/tests/support/bodies/counts.ts`).href;
  const entry = `import { host } from "${side}"; host(() => import("${job}"));`;
  const start = (flag: string, granted: string[]) => {
    const child = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-prompt",
        "--no-lock",
        `--config=${PROJECT_DIR}/deno.json`,
        flag,
        `data:application/typescript,${encodeURIComponent(entry)}`,
      ],
      cwd: PROJECT_DIR,
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const writer = child.stdin.getWriter();
    writer.write(
      new TextEncoder().encode(`${JSON.stringify({ kind: "hello", nonce: "0123456789abcdef", granted })}\n`),
    );
    writer.close();
    return child.output();
  };
  const cases = [["-A", [], "read, write, net, env, sys, run, ffi, import"], ["--allow-net", ["read"], "net"]] as const;
  for (const [flag, granted, excess] of cases) {
    const { code, stdout } = await start(flag, [...granted]);
    const said = new TextDecoder().decode(stdout);
    assert.equal(code, 1);
    assert.match(said, /PermissionExcess/);
    assert(said.includes(`all of ${excess}`), said);
    assert.doesNotMatch(said, /loaded/);
  }
  const { code, stdout } = await start("--deny-import", []);
  assert.equal(code, 0);
  assert.match(new TextDecoder().decode(stdout), /loaded/);
});

Deno.test("flags grant exactly what is named", () => {
  const at = { project_dir: "/project", temp_dir: "/tmp/own" };
  assert.deepEqual(permissionFlags({}, at), ["--allow-read=/tmp/own", "--allow-write=/tmp/own", "--deny-import"]);
  assert.deepEqual(
    permissionFlags({
      net: ["a:1", "b"],
      read: ["data", "/etc/x"],
      write: true,
      env: ["A"],
      sys: [],
      import: ["c"],
      unsafe: { run: ["sh"], ffi: true },
    }, at),
    [
      "--allow-read=/tmp/own,/project/data,/etc/x",
      "--allow-write",
      "--allow-net=a:1,b",
      "--allow-env=A",
      "--allow-run=sh",
      "--allow-ffi",
      "--allow-import=c",
    ],
  );
  assert.deepEqual(permissionFlags({}, { ...at, temp_dir: undefined, secret_paths: ["/k"] }), [
    "--deny-import",
    "--deny-read=/k",
    "--deny-write=/k",
  ]);
  assert.deepEqual(grantedEnv({ env: ["A", "LD_PRELOAD", "C"] }, { A: "1", B: "2", LD_PRELOAD: "x.so" }), { A: "1" });
});

Deno.test("a job that is given programs or libraries can do what Deno does not see", () => {
  for (const unsafe of [{ run: ["sh"] }, { run: true as const }, { ffi: ["x.so"] }, { ffi: true as const }]) {
    assert(isUnsafe({ unsafe }), JSON.stringify(unsafe));
  }
  for (const unsafe of [undefined, {}, { run: [] }, { ffi: [] }]) assert(!isUnsafe({ unsafe }), JSON.stringify(unsafe));
});

Deno.test("each thing that is wrong with permissions is named", () => {
  assert.deepEqual(problemsInPermissions({ net: ["a:1"], read: true, env: ["A"], unsafe: { run: ["sh"] } }), []);
  const wrong: [unknown, RegExp][] = [
    ["all", /must be an object/],
    [{ run: ["sh"] }, /stands under unsafe: permissions: \{ unsafe: \{ run/],
    [{ network: [] }, /permissions\.network is unknown; known are net/],
    [{ net: "a" }, /permissions\.net must be a list of texts, or true for all/],
    [{ env: true }, /permissions\.env must be a list of texts: current value is true/],
    [{ env: ["A*"] }, /holds "A\*"/],
    [{ env: ["LD_PRELOAD"] }, /steers the body's own process/],
    [{ net: ["https://a/b"] }, /without scheme and path/],
    [{ read: ["a,b"] }, /has no comma/],
    [{ unsafe: { shell: true } }, /permissions\.unsafe\.shell is unknown/],
    [{ call: ["mail_*", "Mail"] }, /permissions\.call holds "Mail"; give names of jobs/],
  ];
  for (const [permissions, problem] of wrong) {
    const problems = problemsInPermissions(permissions);
    assert.equal(problems.length, 1, JSON.stringify(problems));
    assert.match(problems[0] as string, problem);
  }
});

Deno.test("a body may start the jobs that it names, and those whose names begin as a pattern does", () => {
  const may = (call: readonly string[] | true | undefined) =>
    ["mail", "mail_send", "email"].filter((name) => mayCall({ call }, name));
  assert.deepEqual(may(undefined), []);
  assert.deepEqual(may(["mail"]), ["mail"]);
  assert.deepEqual(may(["mail_*", "x"]), ["mail_send"]);
  assert.deepEqual(may(["mail*"]), ["mail", "mail_send"]);
  assert.deepEqual(may(["*"]), ["mail", "mail_send", "email"]);
  assert.deepEqual(may(true), ["mail", "mail_send", "email"]);
});

Deno.test("a path below the project is suggested as the project knows it", () => {
  const denied = 'Requires read access to "/project/data/a.csv", run again with the --allow-read flag';
  assert.equal(lineThatGrants(denied, {}, "/project/"), 'permissions: { read: ["data/a.csv"] }');
  assert.equal(lineThatGrants(denied, { read: true }, "/project"), undefined);
});

Deno.test("no line is suggested that a sync would refuse", () => {
  const lines = [
    'all access to "/proc/self/fd"',
    "admin access",
    'read access to "/data/a,b"',
    'env access to "LD_PRELOAD"',
  ]
    .map((what) => lineThatGrants(`Requires ${what}, run again with the flag`, { read: ["/proc"] }, "/project"));
  assert.deepEqual(lines, [undefined, undefined, undefined, undefined]);
});

Deno.test("the key of permissions does not depend on their order, and tells every difference", () => {
  assert.equal(permissionsKey({ net: ["a", "b"], env: ["X"] }), permissionsKey({ env: ["X"], net: ["b", "a"] }));
  assert.notEqual(permissionsKey({ net: ["a"] }), permissionsKey({ net: true }));
  assert.notEqual(permissionsKey({ unsafe: { run: ["a"] } }), permissionsKey({ unsafe: { ffi: ["a"] } }));
  assert.equal(permissionsKey({ call: ["a"] }), permissionsKey({}), "its process is the same");
});
