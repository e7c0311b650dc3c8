/** What each command says when the database, its schema, a file or an option is not what it needs. */
import assert from "node:assert/strict";
import { processStarted } from "../../../src/platform/process_stat.ts";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { toFileUrl } from "../../../src/platform/paths.ts";
import { eachLine, WORKER_ARGS } from "../../../src/dev/worker_supervisor.ts";
import { explanation } from "../../../src/ops/explain.ts";
import { connectDb } from "../../../src/postgres/connection.ts";
import { cliWith, type Said } from "../../support/cli.ts";
import { type Stores, withStores } from "../../support/stores.ts";

function withEmptyDatabase(test: (on: Stores & { empty_url: string }) => Promise<void>): Promise<void> {
  return withStores(async (stores) => {
    const name = `dandori_empty_${crypto.randomUUID().slice(0, 8)}`;
    await stores.sql`create database ${stores.sql(name)}`;
    try {
      const url = new URL(stores.database_url);
      url.pathname = `/${name}`;
      await test({ ...stores, empty_url: url.href });
    } finally {
      await stores.sql`drop database ${stores.sql(name)} with (force)`;
    }
  });
}

/** Where the certificate of node "a" is to be. */
function nodeCertificates() {
  const dir = Deno.makeTempDirSync();
  const env = {
    SCHEDULER_TLS_CERT_FILE: `${dir}/a/tls.crt`,
    SCHEDULER_TLS_KEY_FILE: `${dir}/a/tls.key`,
    SCHEDULER_TLS_PINS_FILE: `${dir}/pins.pem`,
  };
  return { dir, env, [Symbol.dispose]: () => Deno.removeSync(dir, { recursive: true }) };
}

function refuses(said: Said, code: number, message: RegExp): void {
  assert.equal(said.code, code, said.out + said.err);
  assert.match(said.err, message);
  assert(!/\n +at /.test(said.err), `no stack for a mistake of the user: ${said.err}`);
}

Deno.test("without the schema every command says so, `schema` applies it, and again changes nothing", async () => {
  await withEmptyDatabase(async ({ empty_url, redis_url, prefix }) => {
    using certs = nodeCertificates();
    const stores = { DATABASE_URL: empty_url, REDIS_URL: redis_url, SCHEDULER_REDIS_PREFIX: prefix };
    const cli = cliWith({ ...stores, ...certs.env });
    assert.equal((await cli("certs", certs.dir, "--node", "a")).code, 0);
    const asked = [["worker"], ["run", "hello"], ["sync"], ["runs", "ls"], ["emit", "a.b"], ["nodes", "ls"]];
    for (const said of await Promise.all(asked.map((args) => cli(...args)))) {
      refuses(said, 1, /^error: Cannot find Dandori's tables .*; apply the schema: deno task schema$/m);
    }
    const findings = JSON.parse((await cli("doctor", "--json")).out) as { check: string; fix: string }[];
    assert.equal(findings.find((one) => one.check === "schema")?.fix, "apply the schema: deno task schema");
    assert(!findings.some((one) => one.check === "settings"), "what needs the schema is not looked at");
    assert.match(
      (await cli("schema")).out,
      /^database "dandori_empty_\w+" has schema version \d+: its tables were created; next: deno task sync$/m,
    );
    const again = JSON.parse((await cli("schema", "--json")).out);
    assert.deepEqual([again.created, again.applied], [false, []]);
    assert.equal((await cli("runs", "ls")).code, 0);
  });
});

Deno.test("doctor and workers tell a schema that is older, newer or another than that of their checkout", async () => {
  await withEmptyDatabase(async ({ empty_url, redis_url, prefix }) => {
    using certs = nodeCertificates();
    const stores = { DATABASE_URL: empty_url, REDIS_URL: redis_url, SCHEDULER_REDIS_PREFIX: prefix };
    const cli = cliWith({ ...stores, ...certs.env });
    assert.equal((await cli("certs", certs.dir, "--node", "a")).code, 0);
    const found = async () => {
      const findings = JSON.parse((await cli("doctor", "--json")).out) as {
        check: string;
        state: string;
        fix: string;
      }[];
      const { state, fix } = findings.find((one) => one.check === "schema") ?? {};
      return [state, fix];
    };
    await cli("schema");
    assert.deepEqual(await found(), ["ok", ""]);
    const sql = connectDb(empty_url, { name: "test", max: 1 });
    try {
      const later = (kind: string) =>
        sql`insert into schema_migration (version, name, kind, digest, applied_by)
            select max(version) + 1, 'later', ${kind}, '', 'test' from schema_migration`;
      await later("expand");
      assert.deepEqual(await found(), ["warning", "bring this checkout up to date"]);
      refuses(
        await cli("schema"),
        1,
        /Cannot apply the schema: the database has schema version \d+ \(later\), this checkout has \d+; bring/,
      );
      await later("contract");
      assert.deepEqual(await found(), ["problem", "bring this checkout up to date"]);
      refuses(
        await cli("worker"),
        1,
        /Cannot start a worker: the database has schema version \d+ \(later\), .*; bring this checkout/,
      );
      await sql`delete from schema_migration where name = 'later'`;
      await sql`update schema_migration set digest = 'another' where version = 1`;
      assert.match((await found())[1] ?? "", /^bring this checkout up to date; a database .* never released/);
      await sql`delete from schema_migration`;
      assert.deepEqual(await found(), ["problem", "apply what is missing: deno task schema"]);
      refuses(await cli("worker"), 1, /Cannot start a worker: .*; apply what is missing: deno task schema/);
    } finally {
      await sql.end({ timeout: 1 });
    }
  });
});

Deno.test("commands that only need Postgres do without REDIS_URL, and say what is wrong with DATABASE_URL", async () => {
  await withStores(async ({ database_url }) => {
    const state = { SCHEDULER_STATE_DIR: "/nonexistent", REDIS_URL: "" };
    assert.equal((await cliWith({ ...state, DATABASE_URL: database_url })("runs", "ls")).code, 0);
    const url = new URL(database_url);
    url.pathname = "/dandori_nowhere";
    const wrong: [string, RegExp][] = [
      [url.href, /Cannot use this database \(.*dandori_nowhere.*; create it, or correct its name in DATABASE_URL$/m],
      ["nonsense", /Cannot read DATABASE_URL: .*give postgres:/],
      ["postgres://a:sec%ret@127.0.0.1:1/x", /Cannot read DATABASE_URL: .*special characters as %XX/],
      ["postgres://a@127.0.0.1:1/x", /Cannot reach Postgres: .*ECONNREFUSED.*check DATABASE_URL$/m],
      ["", /DATABASE_URL is not set/],
    ];
    for (const [given, message] of wrong) {
      refuses(await cliWith({ ...state, DATABASE_URL: given })("runs", "ls"), 3, message);
    }
  });
});

Deno.test("a disk that is full, connections that are all taken, and a Redis that is away, are said to be that", async () => {
  const cli = cliWith({ SCHEDULER_STATE_DIR: "/proc/full" });
  const findings = JSON.parse((await cli("doctor", "--json")).out) as { check: string; state: string; fix: string }[];
  const disk = findings.find((one) => one.check === "disk");
  assert.deepEqual([disk?.state, /^make room, or set SCHEDULER_STATE_DIR/.test(disk?.fix ?? "")], ["problem", true]);
  const full = Object.assign(new Error('could not extend file "base/1"'), { code: "53100" });
  assert.match(explanation(full), /^Postgres cannot write: its disk is full \(could not extend.*; make room/);
  const taken = Object.assign(new Error('too many connections for role "app"'), { code: "53300" });
  assert.match(
    explanation(taken),
    /^Postgres has no connection left for this \(too many connections for role "app"\); end what/,
  );
  await withStores(async ({ database_url }) => {
    const dir = Deno.makeTempDirSync();
    const note = {
      pid: Deno.pid,
      process_started: processStarted(Deno.pid),
      database_url,
      redis_url: "redis://127.0.0.1:1",
      redis_prefix: "x:",
      node_ids: ["a"],
    };
    Deno.writeTextFileSync(`${dir}/dev.json`, JSON.stringify(note));
    refuses(
      await cliWith({ SCHEDULER_STATE_DIR: dir })("drill", "kill-leader"),
      3,
      /Cannot reach Redis at .*; start Redis or/,
    );
    Deno.removeSync(dir, { recursive: true });
  });
});

Deno.test("options out of range are refused before anything is asked for", async () => {
  const cli = cliWith({ SCHEDULER_JOBS_DIR: "/nonexistent", DATABASE_URL: "postgres://a@127.0.0.1:1/x" });
  const asked: [string[], number, RegExp][] = [
    [["runs", "ls", "--limit", "5000"], 2, /from 1 to 1000/],
    [["schedule", "preview", "--daily-at", "02:30", "--count", "5000"], 2, /from 1 to 1000/],
    [["schedule", "preview", "--hourly-at-minute", "x"], 2, /current value is "x"/],
    [["new", "my_job"], 1, /there is no such folder; create it, or set SCHEDULER_JOBS_DIR/],
    [
      ["admin", "--host", "192.0.2.1", "--port", "0"],
      1,
      /Cannot listen on 192\.0\.2\.1:0: this machine does not have the address/,
    ],
    [["certs", "/proc/nowhere", "--node", "a", "--days", "100000000"], 2, /from 1 to 36500/],
    [["certs", "/proc/nowhere", "--node", "a", "--host", ""], 2, /Cannot use --host "": give a host's name/],
    [["certs", "/proc/nowhere", "--node", "a"], 1, /Cannot write to \/proc\/nowhere/],
  ];
  for (const [args, code, message] of asked) refuses(await cli(...args), code, message);
});

Deno.test("a variable that is wrong exits with 2, one that says not where Postgres is with 3", async () => {
  const state = { SCHEDULER_STATE_DIR: "/nonexistent", REDIS_URL: "" };
  const wrong = { DATABASE_URL: "postgres://a@127.0.0.1:1/x", SCHEDULER_SLOTS: "many" };
  refuses(await cliWith({ ...state, ...wrong })("runs", "ls"), 2, /SCHEDULER_SLOTS must be a whole number/);
  refuses(await cliWith({ ...state, DATABASE_URL: "" })("runs", "ls"), 3, /DATABASE_URL is not set/);
});

Deno.test("certificates of nodes that come later reach the folders of those that were made before", async () => {
  const dir = Deno.makeTempDirSync();
  try {
    const cli = cliWith({});
    assert.equal((await cli("certs", dir, "--node", "a")).code, 0);
    assert.equal((await cli("certs", dir, "--node", "b")).code, 0);
    const [all, a, b] = ["pins.pem", "a/pins.pem", "b/pins.pem"].map((file) => Deno.readTextFileSync(`${dir}/${file}`));
    assert.deepEqual([a, b], [all, all]);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("signals are heard before anything of a command is loaded", async () => {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", "main.ts"],
    cwd: PROJECT_DIR,
    stderr: "null",
  }).output();
  const { roots, modules } = JSON.parse(new TextDecoder().decode(stdout)) as {
    roots: string[];
    modules: { specifier: string; dependencies?: { code?: { specifier: string } }[] }[];
  };
  const loaded = new Set(roots);
  for (const specifier of loaded) {
    const { dependencies = [] } = modules.find((one) => one.specifier === specifier) ?? {};
    for (const { code } of dependencies) if (code) loaded.add(code.specifier); // what is imported for its types is not loaded
  }
  const files = [...loaded].map((specifier) => specifier.replace(toFileUrl(PROJECT_DIR).href, ""));
  assert.deepEqual(files.sort(), [
    "main.ts",
    "src/platform/facts.ts",
    "src/platform/not_installed.ts",
    "src/platform/text.ts",
    "src/platform/timers.ts",
  ]);
});

Deno.test("a worker that is told to stop before it has reached anything ends well", async () => {
  using certs = nodeCertificates();
  const worker = new Deno.Command(Deno.execPath(), {
    args: WORKER_ARGS.filter((arg) => arg !== "--stop-with-stdin"),
    cwd: PROJECT_DIR,
    env: {
      DATABASE_URL: "postgres://a@127.0.0.1:1/x",
      REDIS_URL: "redis://127.0.0.1:1",
      SCHEDULER_TLS: "mesh",
      SCHEDULER_STATE_DIR: certs.dir,
    },
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const waits = Promise.withResolvers<void>();
  const lines = eachLine(worker.stdout, (line) => {
    if (line.includes("waiting for Postgres")) waits.resolve();
  });
  await waits.promise;
  worker.kill("SIGTERM");
  assert.equal((await worker.status).code, 0);
  await lines;
});
