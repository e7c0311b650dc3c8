/** `deno task dev` from the outside: what it starts, what it does on a change, and that nothing of it is left behind. */
import { REDIS_SERVER } from "../../support/redis_server.ts";
import assert from "node:assert/strict";
import { every, rest } from "../../../src/platform/timers.ts";
import { isParentLauncher } from "../../../src/dev/parent_watch.ts";
import { printLine } from "../../../src/dev/console_log.ts";
import { type DevProcess, withDevFolder } from "../../support/dev_process.ts";
import { noneLeft, processesWith } from "../../support/processes.ts";

const GONE_WITHIN_MS = 20_000;

const job = (result: string) => `
  import { defineJob } from "dandori";
  export default defineJob({ run: () => (${result}) });`;

Deno.test("dev starts everything, follows the jobs folder, and a restart goes on where it stopped", async (t) => {
  await withDevFolder(async (folder) => {
    folder.writeJob("first.ts", job(`{ made: 1 }`));
    let dev = folder.start();
    let run_id = 0;
    await t.step("it says when it is ready, and what to try", async () => {
      const { text } = await dev.says(/^ready /);
      assert.match(text, /2 workers, 1 jobs?; .*task run first --wait/);
    });
    await t.step("the admin page is there, with a login that fits", () => logsIn(dev));
    await t.step("a command of the same checkout finds it", async () => {
      const { code, stdout, stderr } = await folder.run("run", "first", "--wait", "--json");
      assert.equal(code, 0, stderr);
      const run = JSON.parse(stdout) as { id: number; state: string; result: unknown };
      assert.deepEqual([run.state, run.result], ["SUCCEEDED", { made: 1 }]);
      run_id = run.id;
    });
    await t.step("a second dev is refused, and the first goes on", async () => {
      const { code, stderr } = await folder.run("dev");
      assert.notEqual(code, 0);
      assert.match(stderr, new RegExp(`running in this checkout already, as process ${dev.pid}`));
    });
    await t.step("a broken file is told of and changes nothing; mended, it is synced", async () => {
      folder.writeJob("second.ts", "export default {");
      const told = await dev.says(/second\.ts/);
      folder.writeJob("second.ts", job(`"mended"`));
      await dev.says(/applied/, { after: told });
      const { stdout } = await folder.run("run", "second", "--wait", "--json");
      assert.equal((JSON.parse(stdout) as { result: unknown }).result, "mended");
    });
    await t.step("a worker that dies is started again", async () => {
      const [worker] = processesWith(folder.dir).filter(({ command }) => command.includes("main.ts worker"));
      assert(worker);
      Deno.kill(worker.pid, "SIGKILL");
      const told = await dev.says(/worker ended with signal SIGKILL/);
      await dev.says(/ready as/, { after: told });
    });
    await t.step("so are Postgres and Redis, at the same address, and work goes on", async () => {
      for (const name of ["bin/postgres -D", ...(REDIS_SERVER ? ["(redis|valkey)-server 127.0.0.1"] : [])]) {
        const [server] = processesWith(folder.dir).filter(({ command }) => new RegExp(`^\\S*${name}`).test(command));
        assert(server, name);
        const after = dev.hearing.last;
        Deno.kill(server.pid, "SIGKILL");
        await dev.says(/is up again/, { after });
      }
      const { code, stdout, stderr } = await folder.run("run", "first", "--wait", "--json");
      assert.equal(code, 0, stderr + stdout + dev.printed);
    });
    await t.step("Ctrl-C ends all of it in good order, also when it comes twice, as below deno task", async () => {
      dev.kill("SIGINT");
      await rest(5);
      dev.kill("SIGINT");
      assert.equal((await dev.ended).code, 0, dev.printed);
      for (const node_id of ["dev-1", "dev-2"]) assert.match(dev.printed, new RegExp(`${node_id} +stopped`));
      assert.deepEqual(processesWith(folder.dir), []);
      assert.throws(() => Deno.statSync(`${folder.state_dir}/dev.json`), Deno.errors.NotFound);
    });
    await t.step("after a restart the run is still there", async () => {
      dev = folder.start();
      await dev.says(/^ready /);
      const { stdout } = await folder.run("runs", "show", String(run_id), "--json");
      assert.equal((JSON.parse(stdout) as { state: string }).state, "SUCCEEDED");
      dev.kill("SIGHUP");
      assert.equal((await dev.ended).code, 0, "a terminal that is closed ends it in good order, too");
      assert.throws(() => Deno.statSync(`${folder.state_dir}/dev.json`), Deno.errors.NotFound);
    });
  });
});

Deno.test("a dev that cannot have its folder says which, and what to set", async () => {
  await withDevFolder(async (folder) => {
    folder.writeJob("first.ts", job("1"));
    const dev = folder.start({ env: { SCHEDULER_STATE_DIR: `${folder.jobs_dir}/first.ts/state` } });
    assert.equal((await dev.ended).code, 1);
    assert.match(
      dev.printed,
      /Cannot write to \S+first\.ts\/state: .*; set SCHEDULER_STATE_DIR to a folder that can be/,
    );
  });
});

Deno.test("a dev that cannot reach the Postgres it was given says so, and shows nothing of its password", async () => {
  await withDevFolder(async (folder) => {
    const dev = folder.start({ env: { DATABASE_URL: "postgres://a:top@secret@127.0.0.1:1/x?password=secret" } });
    assert.equal((await dev.ended).code, 3, dev.printed);
    assert.match(dev.printed, /postgres: given, postgres:\/\/…@127\.0\.0\.1:1\/x$/m);
    assert.doesNotMatch(dev.printed, /secret/);
  });
});

async function logsIn(dev: DevProcess): Promise<void> {
  const { text } = await dev.says(/^admin /);
  const [, url = "", name = "", password = ""] = /(http:\S+) .* log in as (\S+), password (\S+)/.exec(text) ?? [];
  const headers = { origin: new URL(url).origin };
  const body = new URLSearchParams({ name, password, back: "/runs" });
  const answer = await fetch(`${url}login`, { method: "POST", body, headers, redirect: "manual" });
  await answer.body?.cancel();
  assert.deepEqual([answer.status, answer.headers.get("location")], [303, "/runs"]);
}

Deno.test("a dev that is killed takes everything along, and the next one starts as if nothing had been", async () => {
  await withDevFolder(async (folder) => {
    folder.writeJob("first.ts", job("1"));
    const killed = folder.start();
    await killed.says(/^ready /);
    killed.kill("SIGKILL");
    await noneLeft(folder.dir, GONE_WITHIN_MS);
    const next = folder.start();
    await next.says(/^ready /);
    next.kill("SIGTERM");
    await next.ended;
    assert.deepEqual(processesWith(folder.dir), []);
  });
});

Deno.test("a second signal does not wait for bodies, and leaves none of them", async () => {
  await withDevFolder(async (folder) => {
    folder.writeJob("endless.ts", job("new Promise(() => setInterval(() => {}, 1000))"));
    const dev = folder.start();
    await dev.says(/^ready /);
    await folder.run("run", "endless");
    await dev.says(/run \d+ endless started/);
    dev.kill("SIGINT");
    await dev.says(/draining/);
    const ended = new AbortController();
    const signalling = every(100, () => Promise.resolve(dev.kill("SIGINT")), { name: "signals", stop: ended.signal });
    await dev.ended;
    ended.abort();
    await signalling;
    assert.doesNotMatch(dev.printed, /worker did not stop within/);
    await noneLeft(folder.dir, GONE_WITHIN_MS);
  });
});

Deno.test("dev stops when the program that started it is killed", async () => {
  await withDevFolder(async (folder) => {
    const task = folder.start({ task: true });
    await task.says(/^ready /);
    task.kill("SIGKILL");
    await task.says(/stopped; the next start goes on from here/);
    await noneLeft(folder.dir, GONE_WITHIN_MS);
  });
});

Deno.test("launchers are told from scripts that start dev in the background", () => {
  const launchers = [
    ["deno", "task", "dev"],
    ["/opt/deno/deno", "task", "dev"],
    ["npm exec deno@2.9.6 task dev"],
    ["sh", "-c", "'deno' task dev"],
    ["node", "/x/node_modules/.bin/deno", "task", "dev"],
    ["node", "/usr/bin/../lib/node_modules/npm/bin/npx-cli.js", "--yes", "deno@2.9.6", "task", "dev"],
  ];
  const others = [
    ["-bash"],
    ["sh", "-c", "deno task dev & sleep 5"],
    ["bash", "start.sh"],
    ["node", "server.js", "deno"],
    ["systemd"],
    [],
  ];
  for (const argv of launchers) assert(isParentLauncher(argv), argv.join(" "));
  for (const argv of others) assert(!isParentLauncher(argv), argv.join(" "));
});

Deno.test("facts are told in words, anything else as it is, and nothing moves the cursor", () => {
  const fact = { fact: "run.finished", at: "x", job_run_id: 7, attempt: 2, job_name: "hello", worker_id: "w" };
  const line = JSON.stringify({ ...fact, outcome: "SUCCEEDED", state: "SUCCEEDED", duration_ms: 12.4 });
  assert.equal(printLine(line), "run 7 hello SUCCEEDED after 12 ms, attempt 2");
  assert.equal(printLine(`{"fact":"process.started","role":"worker","pid":1}`), undefined);
  assert.equal(printLine(`{"fact":"redis.away","server":"a","error":"b"}`), "redis.away server=a error=b");
  assert.equal(printLine("panic \x1b[2J"), "panic \uFFFD[2J");
  assert.equal(printLine("\x1b[0m\x1b[31merror\x1b[0m: no such file"), "error: no such file", "colours are left out");
  assert.equal(printLine("\x1b[36mBlocking\x1b[0m waiting for file lock on node_modules directory"), undefined);
  assert.equal(
    printLine(`{"fact":"node.status","node_id":"n1","status":"unavailable","was":"available","problem":"disk: full"}`),
    "node n1 is unavailable: disk: full",
  );
  assert.equal(printLine("null"), "null");
});
