/** The command line as other tools rely on it: JSON, exit codes, and errors that say what to do. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { within } from "../../../src/platform/timers.ts";
import { type Cli, cliAlone, cliWith } from "../../support/cli.ts";
import { type Cluster, withProcesses } from "../../support/cluster.ts";

const JOBS = {
  "double.ts": `
    import { defineJob } from "dandori";
    import { z } from "zod";
    export default defineJob({
      schedule: { dailyAt: "02:30", timezone: "Europe/Berlin" },
      args: z.object({ n: z.number().default(1) }),
      run({ args, log }) {
        log.info("doubling \\u001b[31m" + args.n);
        if (args.n < 0) throw new RangeError("too small");
        return args.n * 2;
      },
    });`,
  "ticker.ts": `
    import { defineJob } from "dandori";
    export default defineJob({
      async run({ log, signal }) {
        while (!signal.aborted) {
          log.info("tick");
          await new Promise((next) => setTimeout(next, 20));
        }
      },
    });`,
  "painter.ts": `
    import { defineJob } from "dandori";
    export default defineJob({ run: () => "\u009b31m red" });`,
};

function startMain(args: string[], database_url: string, before = ""): Deno.ChildProcess {
  return new Deno.Command("/bin/sh", {
    args: ["-c", `${before}exec "$0" run -A main.ts "$@"`, Deno.execPath(), ...args],
    cwd: PROJECT_DIR,
    env: { DATABASE_URL: database_url },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

type Step = (cluster: Cluster, cli: Cli, alone: Cli) => Promise<void>;

const STEPS: Record<string, Step> = {
  "run --wait --json prints the finished run and exits 0": async (_, __, alone) => {
    const { code, out } = await alone("run", "double", "--args", '{"n":21}', "--wait", "--json");
    assert.equal(code, 0);
    const run = JSON.parse(out);
    assert.deepEqual([run.state, run.result, run.exit_code, run.error_summary], ["SUCCEEDED", 42, 0, null]);
    assert(run.id > 0 && run.started_at < run.finished_at);
    assert(run.attempt >= 1); // more where the machine is so busy that the leader took it back before it had started
  },

  "run --wait of a run that fails exits 1 and still prints it": async (_, __, alone) => {
    const { code, out } = await alone("run", "double", "--args", '{"n":-1}', "--wait", "--json");
    const run = JSON.parse(out);
    assert.deepEqual([code, run.state, run.error_name], [1, "FAILED", "RangeError"]);
    assert.match(run.error_summary, /too small[\s\S]*double\.ts:\d+/);
  },

  "what others wrote moves no terminal, be it a result, a reason to wait or a part of an error": async (
    cluster,
    cli,
  ) => {
    const key = "\u009b2J\u001b[31m";
    const ended = await cli("run", "painter", "--wait");
    assert.match(ended.out, /SUCCEEDED .*: "\ufffd31m red"/);
    const { sql } = cluster.stores;
    await sql`update node set labels = jsonb_build_object('gpu', ${key}::text)`;
    const nowhere = await cli("run", "double", "--node", "gpu=none");
    assert.match(nowhere.err, /gpu=\ufffd2J/);
    await sql`update node set labels = '{}'`;
    const said = [ended, nowhere];
    for (const act of ["pause", "resume"]) said.push(await cli("queue", act, "--key", key), await cli("doctor"));
    for (const act of [["set", key, "3"], ["rm", key]]) said.push(await cli("resources", ...act));
    said.push(await cli("run", "double", "--args", JSON.stringify({ n: 1, note: key }), "--serial-key", key));
    const listed = await cli("runs", "ls", "--json");
    said.push(listed, await cli("runs", "ls"));
    assert.equal(JSON.parse(listed.out)[0].args.note, key, "as JSON it is whole, though written otherwise");
    assert.match(said[3]?.out ?? "", /serial key "\ufffd2J\ufffd\[31m" is stopped/);
    // deno-lint-ignore no-control-regex
    for (const { out, err } of said) assert.doesNotMatch(out + err, /[\x1b\x80-\x9f]/);
  },

  "a list of the runs of a job that never was is refused, and of one without runs it is empty": async (_, cli) => {
    const unknown = await cli("runs", "ls", "--job", "dubble");
    assert.equal(unknown.code, 1);
    assert.match(unknown.err, /Cannot find job "dubble": .*did you mean "double"\?/);
    const none = await cli("runs", "ls", "--job", "double", "--state", "canceled", "--json");
    assert.deepEqual([none.code, JSON.parse(none.out)], [0, []]);
  },

  "args that do not fit, no JSON, and a job that is not there are refused at the door": async (_, cli) => {
    const unfit = await cli("run", "double", "--args", '{"n":"x"}');
    assert.deepEqual([unfit.code, unfit.out], [2, ""]);
    assert.match(unfit.err, /Cannot enqueue "double": its args do not fit: n: /);
    const never = await cli("run", "double", "--args", '{"n":1}', "--at", "0000-01-01T00:00:00Z");
    assert.deepEqual([never.code, /instant of the years 1 to 9999/.test(never.err)], [2, true], never.err);
    const no_json = await cli("run", "double", "--args", "{n:1}");
    assert.equal(no_json.code, 2);
    const nobody = await cli("run", "nobody", "--json");
    assert.equal(nobody.code, 1);
    assert.match(JSON.parse(nobody.out).error, /no such job, known are double/);
  },

  "what cannot be meant exits 2, what is not so now exits 1, and neither changes anything": async (_, cli) => {
    const meant = [
      ["run", ""],
      ["run", "double", "--key", ""],
      ["run", "double", "--serial-key", ""],
      ["emit", ""],
      ["emit", "a.b", "--dedupe-key", ""],
      ["hooks", "add", "Bad Name", "--event", "a.b"],
      ["hooks", "add", "ok", "--event", ""],
      ["queue", "pause", "--key", ""],
      ["resources", "set", "", "3"],
      ["resources", "set", "license", ""],
      ["admin", "--port", ""],
      ["bulk", "start", "double", "--sql", "select 1"],
      ["bulk", "set", "1", "--parallel", "0"],
    ];
    for (const args of meant) {
      const { code, out, err } = await cli(...args);
      assert.deepEqual(
        [code, out, /^error: Cannot (?!.*bundled)/.test(err)],
        [2, "", true],
        `${args.join(" ")}: ${err}`,
      );
    }
    const refused = [["hooks", "rm", "nobody"], ["resources", "rm", "nothing"], ["queue", "pause", "--job", "nobody"]];
    for (const args of refused) assert.equal((await cli(...args)).code, 1, args.join(" "));
    assert.deepEqual(JSON.parse((await cli("queue", "ls", "--json")).out).stopped_serial_keys, []);
    assert.deepEqual(JSON.parse((await cli("resources", "ls", "--json")).out), []);
  },

  "runs close": async (_cluster, cli) => {
    const given = ["--at", "2100-01-01T00:00:00Z", "--serial-key", "k", "--node", "node-1", "--json"];
    const { id } = JSON.parse((await cli("run", "double", ...given)).out);
    assert.match((await cli("runs", "show", `${id}`)).out, /serial key +k\nnode +node-1\n/);
    assert.equal((await cli("runs", "close", `${id}`)).code, 2, "it needs a reason");
    const asked = await cli("runs", "close", `${id}`, "--reason", "gone");
    assert.equal(asked.code, 2);
    assert.match(asked.err, /would mark run \d+ of double, now PENDING, as FAILED .* add --yes/);
    assert.equal((await cli("runs", "close", `${id}`, "--reason", "gone", "--yes")).code, 0);
    assert.match((await cli("runs", "show", `${id}`)).out, /error +closed by cli:\S+: gone/);
    const again = await cli("runs", "close", `${id}`, "--reason", "gone");
    assert.equal(again.code, 1);
    assert.match(again.err, /Cannot close run "\d+": it has ended as FAILED/);
    assert.equal((await cli("runs", "close", "999999", "--reason", "gone", "--yes")).code, 1);
  },

  "runs show, logs, cancel, retry and ls": async (cluster, cli) => {
    const { id } = JSON.parse((await cli("run", "double", "--at", "2100-01-01T00:00:00Z", "--json")).out);
    assert.equal(JSON.parse((await cli("runs", "show", `${id}`, "--json")).out).state, "PENDING");
    assert.equal((await cli("runs", "retry", `${id}`)).code, 1);
    assert.equal((await cli("runs", "cancel", `${id}`, "--reason", "no")).code, 0);
    assert.equal((await cluster.ends(id)).state, "CANCELED");
    assert.match((await cli("runs", "cancel", `${id}`)).err, /it has ended as CANCELED/);
    const again = JSON.parse((await cli("runs", "retry", `${id}`, "--json")).out);
    assert.equal(again.rerun_of, id);
    assert.equal((await cluster.ends(again.id)).state, "SUCCEEDED");
    const logs = await cli("runs", "logs", `${again.id}`, "-f");
    assert.match(logs.out, /info +doubling .*1/);
    assert(!logs.out.includes("\x1b"), "escape sequences of a body do not reach the terminal");
    const listed = JSON.parse((await cli("runs", "ls", "--state", "canceled", "--json")).out);
    assert.deepEqual(listed.map((run: { id: number }) => run.id), [id]);
    const nowhere = await cli("run", "double", "--node", "nowhere");
    assert.equal(nowhere.code, 2);
    assert.match(nowhere.err, /Cannot enqueue "double": no node has the name "nowhere"; there are node-1/);
    assert.equal((await cli("run", "double", "--node", "")).code, 2);
    assert.equal((await cli("run", "double", "--priority", "boss")).code, 2);
    assert.equal((await cli("runs", "show", "999999")).code, 1);
    assert.equal((await cli("runs", "show", "x")).code, 2);
  },

  "who follows ends when nobody reads any more, as after | head": async ({ stores: { database_url } }, cli) => {
    const { id } = JSON.parse((await cli("run", "ticker", "--json")).out);
    for (const [args, code] of [[["runs", "logs", `${id}`, "-f"], 0], [["run", "ticker", "--wait"], 1]] as const) {
      const child = startMain([...args], database_url);
      const reader = child.stdout.getReader();
      assert.match(new TextDecoder().decode((await reader.read()).value), /tick/);
      await reader.cancel();
      assert.equal((await within(20_000, args.join(" "), child.status)).code, code);
    }
    await cli("runs", "cancel", "--where", "job=ticker", "--yes");
  },

  "a signal ends a command that Postgres keeps waiting": async (_, cli) => {
    using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const child = startMain(["runs", "ls"], `postgres://a:b@127.0.0.1:${silent.addr.port}/x`);
    using _asked = await silent.accept();
    child.kill("SIGINT");
    assert.equal(
      (await within(20_000, "a command that is told to stop", child.output())).code,
      1,
      "no time-out, which is 3",
    );
    assert.equal((await cli("runs", "ls")).code, 0);
  },

  "a terminal that closes ends who follows, but not under nohup": async ({ stores: { database_url } }, cli) => {
    const { id } = JSON.parse((await cli("run", "ticker", "--json")).out);
    const follow = ["runs", "logs", `${id}`, "-f"];
    const [plain, nohup] = [startMain(follow, database_url), startMain(follow, database_url, "trap '' HUP; ")];
    const printed = nohup.stdout.getReader();
    const first = plain.stdout.getReader();
    await Promise.all([printed.read(), first.read()]);
    for (const child of [plain, nohup]) child.kill("SIGHUP");
    await Promise.all([first.cancel(), plain.status.then(({ code }) => assert.equal(code, 0))]);
    await cli("runs", "cancel", `${id}`);
    while (!(await printed.read()).done);
    assert.equal((await nohup.status).code, 0);
  },

  "emit, nodes ls, schedule preview and doctor": async (cluster, cli) => {
    const event = JSON.parse((await cli("emit", "a.b", "--payload", "{}", "--dedupe-key", "k", "--json")).out);
    assert.deepEqual(JSON.parse((await cli("emit", "a.b", "--dedupe-key", "k", "--json")).out), event);
    assert.match((await cli("emit", "nobody")).err, /no job is triggered by "nobody"/);
    const [worker] = JSON.parse((await cli("nodes", "ls", "--json")).out).workers;
    assert.deepEqual(
      [worker.worker_id, worker.node_id, worker.pid, worker.role, worker.state, worker.load],
      [cluster.workers[0]?.worker_id, "node-1", cluster.workers[0]?.pid, "leader", "ACTIVE", 0],
    );
    const preview = await cli(
      "schedule",
      "preview",
      "double",
      "--from",
      "2026-03-28T12:00:00Z",
      "--count",
      "2",
      "--json",
    );
    assert.deepEqual(JSON.parse(preview.out), ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]);
    assert.match(preview.err, /warning: /);
    assert.equal((await cli("schedule", "preview", "--cron", "61 * * * *")).code, 2);
    const findings = JSON.parse((await cli("doctor", "--json")).out) as { check: string; state: string }[];
    assert.equal(findings.find((one) => one.check === "postgres")?.state, "ok");
    assert.equal(findings.find((one) => one.check === "workers")?.state, "ok");
    assert.equal(findings.find((one) => one.check === "transactions")?.state, "ok");
  },

  "sync --check exits 2 on a difference, and a broken file changes nothing": async (cluster, cli) => {
    assert.equal((await cli("sync", "--check")).code, 0);
    Deno.writeTextFileSync(`${cluster.jobs_dir}/broken.ts`, "export default 7;\n");
    const broken = await cli("sync");
    assert.equal(broken.code, 1);
    assert.match(broken.out, /broken\.ts.*\n *fix: /);
    Deno.removeSync(`${cluster.jobs_dir}/broken.ts`);
    Deno.writeTextFileSync(
      `${cluster.jobs_dir}/more.ts`,
      'import { defineJob } from "dandori"; export default defineJob({ run() {} });',
    );
    assert.equal((await cli("sync", "--check")).code, 2);
    assert.equal((await cli("sync", "--plan")).code, 0);
    assert.equal((await cli("sync", "--check")).code, 2, "a plan changes nothing");
    assert.equal((await cli("sync")).code, 0);
    assert.equal((await cli("sync", "--check")).code, 0);
  },

  "help teaches, and what is not understood exits 2": async (_, cli, alone) => {
    const help = await alone("--help");
    assert.equal(help.code, 0);
    for (
      const name of [
        "dev",
        "worker",
        "schema",
        "sync",
        "new",
        "run",
        "emit",
        "runs",
        "schedule",
        "nodes",
        "doctor",
        "certs",
      ]
    ) {
      assert.match(help.out, new RegExp(`^  ${name} `, "m"));
    }
    for (const args of [["--help"], ["nonsense"], ["runs", "show", "999999", "--json"], ["jobs", "ls", "--json"]]) {
      assert.deepEqual(
        await cli(...args),
        await alone(...args),
        "a program is the same alone and among other commands",
      );
    }
    assert.equal((await alone("nonsense")).code, 2);
    assert.match((await cli("--version")).out, /^\d+\.\d+\.\d+$/m);
    assert.equal((await cli("run")).code, 2);
    const misunderstood = [["runs", "show"], ["runs", "ls", "--colour"], ["runs", "ls", "1"], ["nonsense"], [
      "runs",
      "ls",
      "--job",
      "a",
      "--where",
      "job=b",
    ]];
    for (const args of misunderstood) {
      const { code, out } = await cli(...args, "--json");
      assert.deepEqual([code, typeof JSON.parse(out).error], [2, "string"], args.join(" "));
    }
  },
};

Deno.test("the commands and their contract", async (t) => {
  await withProcesses(1, async (cluster) => {
    const { stores, jobs_dir } = cluster;
    const env = { DATABASE_URL: stores.database_url, REDIS_URL: stores.redis_url, SCHEDULER_JOBS_DIR: jobs_dir };
    const [cli, alone] = [cliWith(env), cliAlone(env)];
    for (const [name, step] of Object.entries(STEPS)) await t.step(name, () => step(cluster, cli, alone));
  }, { jobs: JOBS });
});
