/** What is installed is all that is run with: no package registry is asked, and what is missing is named with the way to get it. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { eachLine, WORKER_ARGS } from "../../../src/dev/worker_supervisor.ts";
import { orderFor, ran } from "../../support/bodies.ts";
import { ProcessPool } from "../../../src/sandbox/process_pool.ts";
import { withStores } from "../../support/stores.ts";

interface Checkout {
  dir: string;
  env: Record<string, string>;
  /** What a registry was asked for. */
  asked: string[];
  /** With what is installed here taken away, until it is disposed. */
  bare(): Disposable;
}

/** A checkout whose deno.json names a package that nobody has installed, and a registry that has none. */
async function withCheckout(test: (on: Checkout) => Promise<void>): Promise<void> {
  const dir = Deno.makeTempDirSync();
  const asked: string[] = [];
  const registry = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, ({ url }) => {
    asked.push(new URL(url).pathname);
    return new Response("", { status: 404 });
  });
  try {
    for (const name of ["src", "proto", "jobs", "migrations"]) {
      await copyFolder(`${PROJECT_DIR}/${name}`, `${dir}/${name}`);
    }
    for (const name of ["main.ts", "schema.sql", "deno.lock", "dandori"]) {
      Deno.copyFileSync(`${PROJECT_DIR}/${name}`, `${dir}/${name}`);
    }
    const config = JSON.parse(Deno.readTextFileSync(`${PROJECT_DIR}/deno.json`));
    config.imports["not-there"] = "npm:not-there@1.0.0";
    Deno.writeTextFileSync(`${dir}/deno.json`, JSON.stringify(config));
    Deno.symlinkSync(`${PROJECT_DIR}/node_modules`, `${dir}/node_modules`);
    Deno.writeTextFileSync(
      `${dir}/jobs/wants.ts`,
      'import { defineJob } from "dandori";\nimport it from "not-there";\nexport default defineJob({ run: () => it });\n',
    );
    const env = { NPM_CONFIG_REGISTRY: `http://127.0.0.1:${registry.addr.port}/`, NO_COLOR: "1" };
    const bare = () => {
      Deno.removeSync(`${dir}/node_modules`);
      return { [Symbol.dispose]: () => Deno.symlinkSync(`${PROJECT_DIR}/node_modules`, `${dir}/node_modules`) };
    };
    await test({ dir, env, asked, bare });
  } finally {
    await registry.shutdown();
    Deno.removeSync(dir, { recursive: true });
  }
}

async function copyFolder(from: string, to: string): Promise<void> {
  Deno.mkdirSync(to);
  for await (const { name, isDirectory } of Deno.readDir(from)) {
    if (isDirectory) await copyFolder(`${from}/${name}`, `${to}/${name}`);
    else await Deno.copyFile(`${from}/${name}`, `${to}/${name}`);
  }
}

async function dandori({ dir, env }: Checkout, args: string[], more: Record<string, string> = {}) {
  const { code, stdout, stderr } = await new Deno.Command(`${dir}/dandori`, {
    args,
    env: { ...env, ...more },
    cwd: "/",
  }).output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, out: out ?? "", err: err ?? "" };
}

const MISSING =
  /the package npm:not-there@1\.0\.0 is not installed on this machine; run `deno install` in the checkout/;

Deno.test("a worker starts without asking a registry, also where a package is named that is not installed", () =>
  withStores(({ database_url, redis_url, prefix }) =>
    withCheckout(async (checkout) => {
      const stores = { DATABASE_URL: database_url, REDIS_URL: redis_url, SCHEDULER_REDIS_PREFIX: prefix };
      const worker = new Deno.Command(Deno.execPath(), {
        args: WORKER_ARGS.map((arg) => arg.endsWith("main.ts") ? `${checkout.dir}/main.ts` : arg),
        cwd: checkout.dir,
        env: { ...checkout.env, ...stores, SCHEDULER_TLS: "mesh", SCHEDULER_NODE_ID: "offline" },
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      const said: string[] = [];
      const ready = Promise.withResolvers<void>();
      const hear = (line: string) => {
        said.push(line);
        if (line.includes('"worker.ready"')) ready.resolve();
      };
      const ended = Promise.all([worker.status, eachLine(worker.stdout, hear), eachLine(worker.stderr, hear)]);
      await Promise.race([ready.promise, ended.then(() => assert.fail(said.join("\n")))]);
      const sync = await dandori(checkout, ["sync"], stores);
      assert.deepEqual([sync.code, MISSING.test(sync.out)], [1, true], sync.out + sync.err);
      await worker.stdin.close();
      await ended;
      assert.deepEqual(checkout.asked, []);
    })
  ));

Deno.test("a body whose package is not installed fails by that name, and says how to install it", () =>
  withCheckout(async ({ dir, asked, env }) => {
    const sandbox = new ProcessPool({
      project_dir: dir,
      state_dir: `${dir}/state`,
      spares: 0,
      env: { ...Deno.env.toObject(), ...env },
    });
    try {
      const { outcome } = await ran(sandbox, orderFor("add", {}, { job_file: `${dir}/jobs/wants.ts` }));
      assert(outcome.kind === "FAILED", JSON.stringify(outcome));
      assert.equal(outcome.error_name, "NotInstalled");
      assert.match(
        outcome.error_summary,
        /^Loading the job file failed: NotInstalled: the package npm:not-there@1\.0\.0 is not installed/,
      );
      assert.match(outcome.error_summary, MISSING);
      assert.doesNotMatch(outcome.error_summary, /auto/);
    } finally {
      await sandbox.close();
    }
    assert.deepEqual(asked, []);
  }));

Deno.test("without anything installed each command says what is missing, and asks nobody for it", () =>
  withCheckout(async (checkout) => {
    using _ = checkout.bare();
    for (const args of [["worker"], ["runs", "ls"]]) {
      const { code, out, err } = await dandori(checkout, args);
      assert.deepEqual([code, out], [1, ""]);
      assert.match(
        err,
        /^error: Cannot start: the package npm:\S+ is not installed on this machine; run `deno install` in the checkout\n$/,
      );
    }
    assert.deepEqual(checkout.asked, []);
  }));

Deno.test("the script prints what a command prints and nothing else, from any folder and by any name of it", () =>
  withStores(({ database_url }) =>
    withCheckout(async (checkout) => {
      const stores = { DATABASE_URL: database_url };
      const empty = "no runs yet; start one: deno task run NAME\n";
      assert.deepEqual(await dandori(checkout, ["runs", "ls"], stores), { code: 0, out: empty, err: "" });
      Deno.symlinkSync(`${checkout.dir}/dandori`, `${checkout.dir}/linked`);
      const { stdout, stderr } = await new Deno.Command(`${checkout.dir}/linked`, {
        args: ["runs", "ls", "--where", "job=a b", "--json"],
        env: { ...checkout.env, ...stores },
        cwd: "/",
      }).output();
      assert.deepEqual([JSON.parse(new TextDecoder().decode(stdout)).error.slice(0, 21), stderr.length], [
        'Cannot find job "a b"',
        0,
      ]);
    })
  ));
