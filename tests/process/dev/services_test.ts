/** The servers that dev and the tests embed: they keep what they hold, and never outlive the process that started them. */
import { testWithRedisServer } from "../../support/redis_server.ts";
import assert from "node:assert/strict";
import { Redis } from "ioredis";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { Supervisor } from "../../../src/dev/supervisor.ts";
import { startPostgres } from "../../../src/dev/postgres.ts";
import { startRedis } from "../../../src/dev/redis.ts";
import { freePort } from "../../../src/ops/free_port.ts";
import { lastLines, type Service, startService } from "../../../src/dev/service.ts";
import { connectDb } from "../../../src/postgres/connection.ts";
import { DevFolder, pathWithout } from "../../support/dev_process.ts";
import { noneLeft, processesWith } from "../../support/processes.ts";

const GONE_WITHIN_MS = 20_000;

interface Folder {
  dir: string;
  state_dir: string;
  /** Has a service stopped at the end, if the test does not come to it. */
  kept(service: Service): Service;
}

async function withFolder(test: (folder: Folder) => Promise<void>): Promise<void> {
  const folder = new DevFolder(Deno.makeTempDirSync({ prefix: "dandori-services-" }));
  Deno.mkdirSync(folder.state_dir);
  const services: Service[] = [];
  const kept = (service: Service) => {
    services.push(service);
    return service;
  };
  try {
    await test({ dir: folder.dir, state_dir: folder.state_dir, kept });
  } finally {
    await Promise.all(services.map((service) => service.stop(2_000)));
    await noneLeft(folder.dir, GONE_WITHIN_MS);
    folder.remove();
  }
}

/** Runs a piece of a program in a process of its own, with src/ at hand. */
async function inProcess(code: string, env: Record<string, string> = {}): Promise<{ code: number; text: string }> {
  const { code: exit_code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", code],
    cwd: PROJECT_DIR,
    env: { NO_COLOR: "1", ...env },
  }).output();
  const text = new TextDecoder();
  return { code: exit_code, text: text.decode(stdout) + text.decode(stderr) };
}

async function query(url: string, text: string): Promise<unknown[]> {
  const sql = connectDb(url, { name: "test", max: 1 });
  try {
    return [...await sql.unsafe(text)];
  } finally {
    await sql.end();
  }
}

Deno.test("Postgres keeps its data, its port and its password over a restart", () =>
  withFolder(async ({ state_dir, kept }) => {
    const first = kept(await startPostgres({ state_dir }));
    await query(first.url, "create table kept as select 42 as answer");
    await first.stop();
    const second = kept(await startPostgres({ state_dir }));
    assert.equal(second.url, first.url);
    assert.deepEqual(await query(second.url, "select answer from kept"), [{ answer: 42 }]);
    await second.stop();
  }));

Deno.test("Postgres whose password is gone is not started with another one, and says where it was", () =>
  withFolder(async ({ state_dir, kept }) => {
    await kept(await startPostgres({ state_dir })).stop();
    const file = `${Deno.realPathSync(`${state_dir}/postgres`)}/address.json`;
    const address = Deno.readTextFileSync(file);
    for (const broken of ["", address.slice(0, 20), '{"port":"x"}']) {
      Deno.writeTextFileSync(file, broken);
      for (const _start of ["first", "second"]) {
        await assert.rejects(
          startPostgres({ state_dir }),
          /address\.json, with the password of its data, is gone or broken/,
        );
      }
    }
    Deno.writeTextFileSync(file, address);
    await kept(await startPostgres({ state_dir })).stop();
  }));

Deno.test("Postgres lets nobody in without the password, and its address is for this user only", () =>
  withFolder(async ({ state_dir, kept }) => {
    const service = kept(await startPostgres({ state_dir, throwaway: true }));
    const url = new URL(service.url);
    url.password = "wrong";
    await assert.rejects(query(url.href, "select 1"), /password authentication failed/);
    assert.equal((Deno.statSync(`${state_dir}/postgres/address.json`).mode ?? 0) & 0o777, 0o600);
    await service.stop();
  }));

Deno.test("Postgres' data are found from the state folder, also where its user may not enter that", () =>
  withFolder(async ({ state_dir, kept }) => {
    Deno.chmodSync(state_dir, 0o700);
    const service = kept(await startPostgres({ state_dir }));
    assert(Deno.statSync(`${state_dir}/postgres/data/PG_VERSION`).isFile);
    assert.equal(Deno.lstatSync(`${state_dir}/postgres`).isSymlink, Deno.uid() === 0);
    assert.notEqual(Deno.statSync(`${state_dir}/postgres/data`).uid, 0);
    await service.stop();
  }));

Deno.test("servers end by themselves when the process that started them is killed", () =>
  withFolder(async ({ dir, state_dir }) => {
    const { text } = await inProcess(`
      import { startPostgres } from "./src/dev/postgres.ts";
      import { startRedis } from "./src/dev/redis.ts";
      const options = { state_dir: ${JSON.stringify(state_dir)} };
      const services = await Promise.all([startPostgres(options), startRedis(options)]);
      console.log("up", services.length);
      Deno.kill(Deno.pid, "SIGKILL");
    `);
    assert.match(text, /up 2/);
    await noneLeft(dir, GONE_WITHIN_MS);
  }));

testWithRedisServer(
  "servers that were left behind after all are ended, and their data are used",
  () =>
    withFolder(async ({ dir, state_dir, kept }) => {
      const options = { state_dir };
      const before = (await Promise.all([startPostgres(options), startRedis(options)])).map(kept);
      const guards = processesWith(dir).filter(({ command }) => command.includes("dandori-guard"));
      for (const { pid } of guards) Deno.kill(pid, "SIGKILL");
      await Promise.all(before.map(({ ended }) => ended));
      assert.deepEqual(await query(before[0]?.url ?? "", "select 1 as alive"), [{ alive: 1 }]);
      const after = (await Promise.all([startPostgres(options), startRedis(options)])).map(kept);
      assert.deepEqual(after.map(({ url }) => url), before.map(({ url }) => url));
      await Promise.all([...after, ...before].map((service) => service.stop()));
    }),
);

testWithRedisServer(
  "Redis keeps what it holds over a restart in good order, behind a password",
  () =>
    withFolder(async ({ state_dir, kept }) => {
      const first = kept(await startRedis({ state_dir }));
      const redis = new Redis(first.url);
      await redis.set("kept", "42");
      redis.disconnect();
      const stranger = new Redis(`redis://${new URL(first.url).host}`, {
        enableReadyCheck: false,
        maxRetriesPerRequest: 0,
      });
      stranger.on("error", () => {}); // told by the call
      await assert.rejects(stranger.get("kept"), /NOAUTH/);
      stranger.disconnect();
      await first.stop();
      const second = kept(await startRedis({ state_dir }));
      assert.equal(second.url, first.url);
      const again = new Redis(second.url);
      assert.equal(await again.get("kept"), "42");
      again.disconnect();
      await second.stop();
    }),
);

Deno.test("without a Redis on PATH a stand-in is used and said to be one; where a real one is demanded, it is an error", () =>
  withFolder(async ({ dir, state_dir }) => {
    const PATH = pathWithout(`${dir}/bin`, ["redis-server", "valkey-server"]);
    const start = (real_only: boolean) => `
      import { hear } from "./src/platform/facts.ts";
      import { startRedis } from "./src/dev/redis.ts";
      hear((name, fact) => console.log(name, fact.detail));
      const service = await startRedis({ state_dir: ${JSON.stringify(state_dir)}, real_only: ${real_only} });
      console.log("up:", service.detail);
      await service.stop();`;
    assert.match((await inProcess(start(false), { PATH })).text, /DEVELOPMENT ONLY[^]*up: js-redis-server/);
    const refused = await inProcess(start(true), { PATH });
    assert.notEqual(refused.code, 0);
    assert.match(refused.text, /neither redis-server nor valkey-server is on PATH; install it with `apt-get/);
  }));

Deno.test("a server that ends before it is ready is reported with what it printed", () =>
  withFolder(({ dir, state_dir }) =>
    assert.rejects(
      startService({
        name: "doomed",
        command: ["/bin/sh", "-c", "echo no room left >&2; exit 3"],
        end_signal: "TERM",
        log_file: `${state_dir}/doomed.log`,
        env: {},
        cwd: dir,
      }, { url: "", detail: "", probe: () => Promise.resolve(false) }),
      /Cannot start doomed: it ended with exit code 3\n {2}\| no room left/,
    )
  ));

Deno.test("a server that does not end when asked is killed", () =>
  withFolder(async ({ dir, state_dir, kept }) => {
    const service = kept(
      await startService({
        name: "deaf",
        command: ["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"],
        end_signal: "TERM",
        log_file: `${state_dir}/deaf.log`,
        env: {},
        cwd: dir,
      }, {
        url: "",
        detail: "",
        probe: () => Promise.resolve(lastLines(`${state_dir}/deaf.log`).includes("deaf")),
      }),
    );
    await service.stop(200);
    assert.equal(await service.ended, "signal SIGKILL");
    await noneLeft(dir, GONE_WITHIN_MS);
  }));

Deno.test("a port that is taken is not given out, nor one that the system may give to a connection", () => {
  const preferred = freePort();
  assert.equal(freePort(preferred), preferred);
  using _listener = Deno.listen({ hostname: "127.0.0.1", port: preferred });
  const [first = 49_152] = /\d+/.exec(Deno.readTextFileSync("/proc/sys/net/ipv4/ip_local_port_range")) ?? [];
  for (let n = 0; n < 100; n++) {
    const port = freePort(preferred);
    assert(port !== preferred && port < Number(first), `${port}`);
  }
});

Deno.test("a server that ends again and again is started ever more slowly, and told to end it is not started any more", async () => {
  const said: string[] = [];
  let starts = 0;
  const slow = Promise.withResolvers<void>();
  const ended: Service = {
    name: "brief",
    url: "brief://",
    detail: "",
    ended: Promise.resolve("exit code 1"),
    stop: () => Promise.resolve(),
  };
  const start = () => {
    starts++;
    return Promise.resolve(ended);
  };
  const say = (text: string) => {
    said.push(text);
    if (text.endsWith("in 2 s")) slow.resolve();
  };
  const keeper = new Supervisor(ended, { start, say, failed: slow.reject });
  await slow.promise;
  await keeper.end();
  const waits = said.flatMap((text) => /ended with exit code 1; it is started again in (\S+) s/.exec(text)?.[1] ?? []);
  assert.deepEqual([waits, starts], [["0.5", "1", "2"], 2]);
});
