/**
 * The Redis of development and of tests: `redis-server` or `valkey-server` where one is on PATH, else js-redis-server,
 * which is no substitute for it in anything but trying things out.
 */
import { environment, PROJECT_DIR } from "../platform/config.ts";
import { observe } from "../platform/facts.ts";
import { fromFileUrl, readIfThere } from "../platform/paths.ts";
import { freePort } from "../ops/free_port.ts";
import { commandLine } from "../sandbox/process_table.ts";
import { endLeftover, keepAddress, readKept, type SavedAddress, type Service, startService } from "./service.ts";

export interface RedisOptions {
  /** A folder that exists; what Redis keeps goes below it. */
  state_dir: string;
  /** For tests: nothing is kept. */
  throwaway?: boolean;
  /** Refuse js-redis-server, and say so. */
  real_only?: boolean;
  stop?: AbortSignal;
}

const SERVERS = ["redis-server", "valkey-server"];
const HOW_TO_INSTALL = "install it with `apt-get install redis-server`, or set REDIS_URL to one of your own";

/** Where a real server is, if there is one. */
export function redisServerOnPath(): string | undefined {
  return onPath(SERVERS);
}

export async function startRedis(options: RedisOptions): Promise<Service> {
  const program = redisServerOnPath();
  if (program) return await startReal(program, options);
  if (options.real_only) {
    throw new Error(`Cannot start Redis: neither ${SERVERS.join(" nor ")} is on PATH; ${HOW_TO_INSTALL}`);
  }
  return await startStandIn(options);
}

async function startReal(program: string, options: RedisOptions): Promise<Service> {
  const home = `${options.state_dir}/redis`;
  Deno.mkdirSync(home, { recursive: true, mode: 0o700 });
  await endEarlier(home);
  const kept = keepAddress(`${home}/address.json`);
  Deno.writeTextFileSync(`${home}/redis.conf`, configFor({ ...kept, home, keep: !options.throwaway }), { mode: 0o600 });
  const name = program.split("/").at(-1) as string;
  return startService({
    name,
    command: [program, `${home}/redis.conf`],
    end_signal: "TERM",
    log_file: `${home}/redis.log`,
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
    cwd: home,
    remove_after: options.throwaway ? home : undefined,
  }, {
    url: `redis://:${kept.password}@127.0.0.1:${kept.port}`,
    detail: `${name}, port ${kept.port}`,
    probe: () => answersPing(kept),
    stop: options.stop,
  });
}

/** Through a file, since a password on the command line is open to every user of the machine. */
function configFor(on: SavedAddress & { home: string; keep: boolean }): string {
  return [
    "bind 127.0.0.1",
    `port ${on.port}`,
    `requirepass ${on.password}`,
    `dir ${JSON.stringify(on.home)}`,
    `pidfile ${JSON.stringify(`${on.home}/redis.pid`)}`,
    on.keep ? "save 60 1" : 'save ""',
    "daemonize no",
    "",
  ].join("\n");
}

/** Ends the server of an earlier start, if it is still there. The pid may be another's by now, so its title must fit. */
async function endEarlier(home: string): Promise<void> {
  const kept = readKept(`${home}/address.json`);
  const pid = Number(readIfThere(`${home}/redis.pid`));
  if (!kept || !pid) return;
  const title = commandLine(pid) ?? "";
  if (!SERVERS.some((server) => title.includes(server)) || !title.includes(`127.0.0.1:${kept.port}`)) return;
  observe("dev.service", { service: "redis", state: "ending", detail: `process ${pid}, left by an earlier start` });
  await endLeftover(pid, "SIGTERM");
}

function startStandIn(options: RedisOptions): Promise<Service> {
  const home = `${options.state_dir}/redis`;
  Deno.mkdirSync(home, { recursive: true, mode: 0o700 });
  const port = freePort(readKept(`${home}/address.json`)?.port);
  observe("dev.service", {
    service: "redis",
    state: "stand-in",
    detail:
      `DEVELOPMENT ONLY: no ${SERVERS.join(" or ")} on PATH, so js-redis-server takes its place; it keeps nothing ` +
      `and is no Redis; ${HOW_TO_INSTALL}`,
  });
  const env = environment();
  return startService({
    name: "js-redis-server",
    command: [
      Deno.execPath(),
      "run",
      "--no-prompt",
      `--allow-net=127.0.0.1:${port}`,
      "--allow-env",
      `--allow-read=${PROJECT_DIR}`,
      fromFileUrl(new URL("./js_redis.ts", import.meta.url)),
      String(port),
    ],
    end_signal: "TERM",
    log_file: `${home}/redis.log`,
    env: Object.fromEntries(["PATH", "HOME", "DENO_DIR"].flatMap((name) => env[name] ? [[name, env[name]]] : [])),
    cwd: PROJECT_DIR,
  }, {
    url: `redis://127.0.0.1:${port}`,
    detail: `js-redis-server, port ${port}, development only`,
    probe: () => answersPing({ port, password: "" }),
    stop: options.stop,
  });
}

/** The first of some programs that PATH leads to. */
function onPath(names: string[]): string | undefined {
  const folders = (environment().PATH ?? "").split(":").filter((folder) => folder.startsWith("/"));
  for (const name of names) {
    for (const folder of folders) if (isProgram(`${folder}/${name}`)) return `${folder}/${name}`;
  }
}

function isProgram(file: string): boolean {
  try {
    const { isFile, mode } = Deno.statSync(file);
    return isFile && ((mode ?? 0) & 0o111) !== 0;
  } catch {
    return false;
  }
}

/** Asks in Redis' plain-line form, so that no client is needed here. */
async function answersPing({ port, password }: SavedAddress): Promise<boolean> {
  try {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port });
    const question = `${password ? `AUTH ${password}\r\n` : ""}PING\r\n`;
    await connection.write(new TextEncoder().encode(question));
    let heard = "";
    const buffer = new Uint8Array(512);
    while (!heard.includes("+PONG\r\n") && !heard.includes("-")) { // "-" starts a refusal, e.g. while it loads its data
      const length = await connection.read(buffer);
      if (length === null) return false;
      heard += new TextDecoder().decode(buffer.subarray(0, length));
    }
    return heard.includes("+PONG");
  } catch {
    return false; // not listening yet
  }
}
