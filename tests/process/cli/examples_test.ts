/** Each example does what its README says: the commands that stand there are the ones that are run, on its own jobs folder. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { resolvePath } from "../../../src/platform/paths.ts";
import { type Cli, cliWith, type Said } from "../../support/cli.ts";
import { CALM, type Cluster, withProcesses } from "../../support/cluster.ts";
import { waitFor } from "../../support/waiting.ts";

/** Runs the next command of the README, which must be the one that the test means. */
type Next = (command: string) => Promise<Said>;

function example(
  name: string,
  test: (cluster: Cluster, next: Next) => Promise<void>,
  env: Record<string, string> = {},
) {
  const folder = resolvePath(PROJECT_DIR, `examples/${name}`);
  Deno.test(`examples/${name} does what its README says`, () =>
    withProcesses(1, async (cluster) => {
      const commands = commandsIn(`${folder}/README.md`);
      const { database_url } = cluster.stores;
      const cli = cliWith({ DATABASE_URL: database_url });
      await test(cluster, async (meant) => {
        const command = commands.shift() ?? "";
        assert(command.startsWith(`deno ${meant}`), `the README goes on with "${command}"`);
        return await perform(command, cli, database_url);
      });
      assert.deepEqual(commands, [], "every command was run");
    }, { jobs_dir: `${folder}/jobs`, settings: CALM, env }));
}

function commandsIn(readme: string): string[] {
  const text = Deno.readTextFileSync(readme);
  const lines = text.trimEnd().split("\n");
  assert(lines.length <= 10, `${readme} has ${lines.length} lines: ten are enough`);
  const [, block = ""] = /```sh\n([^]*?)```/.exec(text) ?? [];
  return block.trim().split("\n").map((line) => line.replace(/\s+# .*$/, ""));
}

/** A task is main.ts with the same words (tests/unit/tidy_test.ts); an application is started as it stands. */
async function perform(command: string, cli: Cli, database_url: string): Promise<Said> {
  const [, way, ...words] = (command.match(/'[^']*'|"[^"]*"|\S+/g) ?? []).map((word) =>
    word.replace(/^(["'])(.*)\1$/, "$2")
  );
  if (way === "task") return await cli(...words);
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [way as string, ...words],
    cwd: PROJECT_DIR,
    env: { DATABASE_URL: database_url, NO_COLOR: "1" },
  }).output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)) as [string, string];
  assert.equal(code, 0, `${command}: ${err}`);
  return { code, out, err };
}

/** All runs of a job once they have ended, by id. */
async function endOf(cluster: Cluster, job_name: string) {
  return await waitFor(`the end of all runs of ${job_name}`, async () => {
    const runs = await cluster.sql`
      select r.id, r.state, r.attempt, r.args_json as args, r.result, r.error_name, r.finished_at
        from job_run r join job_definition d on d.id = r.job_definition_id where d.name = ${job_name} order by r.id`;
    return runs.length > 0 && runs.every(({ finished_at }) => finished_at) && runs;
  });
}

example("nightly_report", async (cluster, next) => {
  const preview = await next("task schedule preview");
  const fires = [...preview.out.matchAll(/^(\S+)Z /gm)].map(([, instant]) => instant);
  assert.deepEqual(fires, ["2026-12-27T17:30:00", "2027-01-03T17:30:00", "2027-01-04T17:30:00"]);

  assert.match((await next("task schedule backfill")).out, /3/);
  const reports = (await endOf(cluster, "nightly_report")).map(({ result }) => result);
  assert.deepEqual(reports, [
    { day: "2026-01-05", orders: 2, total: 4600 },
    { day: "2026-01-06", orders: 1, total: 980 },
    { day: "2026-01-07", orders: 3, total: 7050 },
  ]);
  assert.equal((await next("task runs ls")).out.match(/SUCCEEDED/g)?.length, 3);
});

example("orders", async (cluster, next) => {
  const app = await next("run -A examples/orders/app.ts");
  const [charge, ...others] = await endOf(cluster, "charge_order");
  assert.deepEqual([others.length, charge?.state, charge?.result], [0, "SUCCEEDED", {
    charge: `run-${charge?.id}`,
    yen: 1200,
  }]);
  assert.deepEqual(app.out.trim().split("\n"), [
    `taken { run: ${charge?.id}, isNew: true }`,
    `again { run: ${charge?.id}, isNew: false }`,
    "rolled back: order 2 is not paid",
  ]);
  const confirmed = await endOf(cluster, "confirm_order");
  assert.deepEqual(confirmed.map(({ result }) => result), [{ to: "ada@example.com", subject: "Your order 1" }]);
  assert.deepEqual([...await cluster.sql`select id from shop.orders`], [{ id: 1 }]);

  assert.equal((await next("task runs ls")).out.match(/SUCCEEDED/g)?.length, 2);
  assert.equal((await next("task events ls")).out.match(/order\.placed/g)?.length, 1);
});

example("device_commands", async (cluster, next) => {
  await next("run -A examples/device_commands/app.ts");
  const ended = (device: number) =>
    cluster.sql`select args_json->>'command' as command, state, attempt, error_name from job_run
                 where args_json->'device' = ${device}::text::jsonb and finished_at is not null order by finished_at`;
  const of_7 = await waitFor("three ends of device 7", async () => (await ended(7)).length === 3 && ended(7));
  assert.deepEqual(of_7.map(({ command, state, attempt }) => [command, state, attempt]), [
    ["lock", "SUCCEEDED", 1],
    ["report", "SUCCEEDED", 1],
    ["sync", "SUCCEEDED", 2],
  ]);
  const [refused] = await waitFor("the end of the refused one", async () => (await ended(8)).length > 0 && ended(8));
  assert.deepEqual(refused, { command: "explode", state: "FAILED", attempt: 1, error_name: "Fatal" });

  assert.match((await next("task runs ls")).out, /PENDING/);
  assert.match((await next("task queue ls")).out, /device:8/);
  assert.equal((await next("task queue unblock")).code, 0);
  assert.equal((await endOf(cluster, "send_command")).at(-1)?.state, "SUCCEEDED");
});

example("price_update", async (cluster, next) => {
  const app = await next("run -A examples/price_update/app.ts");
  const said = app.out.trim().split("\n");
  assert.equal(said[0], "RUNNING 0 done, 0 failed, 1 at once");
  assert.equal(said.at(-1), "FINISHED 996 done, 4 failed, 20 at once");
  const [bulk] = await cluster.sql`select id, priority from bulk`;
  assert.equal(bulk?.priority, 140);
  const updates = await endOf(cluster, "update_price");
  assert.equal(updates.length, 1000);
  assert.deepEqual(updates[0]?.result, { yen: 1080 });
  const [report, ...others] = await endOf(cluster, "price_report");
  assert.deepEqual([report?.result, others], [`bulk ${bulk?.id} is FINISHED: 996 of 1000 prices updated`, []]);

  assert.match((await next("task bulk ls")).out, /FINISHED/);
  assert.equal((await next("task runs ls")).out.match(/ FAILED /g)?.length, 4);
  assert.match((await next("task runs ls")).out, /SUCCEEDED/);
});

example("api_limits", async (cluster, next) => {
  await assert.rejects(
    cluster.enqueue("fetch_customers", { api: "http://127.0.0.1:9/", tenant: "acme", page: 0 }),
    /crm_seat/,
  );
  assert.equal((await next("task resources set")).code, 0);
  const { calls, most } = JSON.parse((await next("run -A examples/api_limits/app.ts")).out);
  assert.equal(calls, 12);
  assert(most.calls <= 3 && most.of_one_tenant <= 2, JSON.stringify(most));
  const runs = await endOf(cluster, "fetch_customers");
  assert.deepEqual(runs.map(({ state, result }) => [state, result]), runs.map(() => ["SUCCEEDED", { customers: 2 }]));

  assert.match((await next("task resources ls")).out, /crm_seat/);
  assert.equal((await next("task runs ls")).out.match(/SUCCEEDED/g)?.length, 12);
});

example("least_privilege", async (cluster, next) => {
  await next("run -A examples/least_privilege/app.ts");
  const [converted] = await endOf(cluster, "convert_prices");
  assert.deepEqual(converted?.result, { pen: "0.80 USD", notebook: "3.22 USD" });
  assert.match((await next("task runs ls")).out, /convert_prices/);

  const denied = await next("task run read_prices");
  assert.equal(denied.code, 1);
  assert.match(denied.out + denied.err, /permissions: \{ read: \["examples\/least_privilege\/data/);
  assert.deepEqual((await endOf(cluster, "read_prices")).map(({ attempt }) => attempt), [1]);
}, { SHOP_CURRENCY: "USD" });

/** The state of run `id`, once it is one of these. */
async function reaches(cluster: Cluster, id: number, ...states: string[]) {
  return await waitFor(`run ${id} to be ${states.join(" or ")}`, async () => {
    const [run] = await cluster.sql`select state, result, error_name from job_run where id = ${id}`;
    return run && states.includes(run.state) && run;
  });
}

example("onboarding", async (cluster, next) => {
  assert.match((await next("task run onboarding")).out, /run 1 created/);
  await reaches(cluster, 1, "SUSPENDED");
  assert.match((await next("task runs show")).out, /waiting for message "confirmed" until/);
  assert.equal((await next("task runs send")).code, 0);
  const { result } = await reaches(cluster, 1, "SUCCEEDED");
  assert.deepEqual(result, { account: "account-1", confirmed: "ada@example.com" });
  const { out } = await next("task runs steps");
  assert.deepEqual([...out.matchAll(/^\d+ +((?:step|message|sleep):(?:\S+ )*\S*)/gm)].map(([, key]) => key?.trim()), [
    "step:make account",
    "step:welcome mail",
    "message:confirmed",
    "sleep:",
    "step:tips mail",
  ]);
});

example("order_undo", async (cluster, next) => {
  assert.match((await next("task run place_order")).out, /SUCCEEDED/);
  const refused = await next("task run place_order");
  assert.notEqual(refused.code, 0);
  assert.equal((await reaches(cluster, 2, "FAILED")).error_name, "StepFailed");
  assert.match((await next("task runs steps")).out, /4 +undo:charge[^]*5 +undo:reserve/);
  assert.match((await next("task runs logs")).out, /refunded dandori-2-charge[^]*released dandori-2-reserve/);
});

example("nightly_pipeline", async (cluster, next) => {
  await next("task schedule run");
  const [report] = await endOf(cluster, "night_report");
  assert.deepEqual(report?.result, { reported: ["load_orders", "load_users"] });
  assert.equal((await next("task runs ls")).out.match(/SUCCEEDED/g)?.length, 4);
  assert.match((await next("task runs tree")).out, /of night_report {2}SUCCEEDED {2}after load_orders, load_users/);
  await next("task runs retry");
  await waitFor("the second report", async () => (await endOf(cluster, "night_report")).length === 2);
});

example("fan_out", async (cluster, next) => {
  await next("task run wipe_fleet");
  await reaches(cluster, 1, "SUSPENDED");
  assert.match((await next("task runs show")).out, /waiting for message "approval"/);
  await next("task runs send");
  assert.deepEqual((await reaches(cluster, 1, "SUCCEEDED")).result, { wiped: 23, failed: 2 });
  assert.match((await next("task bulk ls")).out, /wipe_device +- +FINISHED +25\/25 +2/);
});
