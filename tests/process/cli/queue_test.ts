/** Waiting in real processes: serial keys under load, and what an operator stops, moves and lets go from the command line. */
import assert from "node:assert/strict";
import { cliWith, type Said } from "../../support/cli.ts";
import { type Cluster, withProcesses } from "../../support/cluster.ts";
import { waitFor } from "../../support/waiting.ts";

/** Who leads goes on leading, also on a machine that is busy. */
const STEADY = { leader_lease_seconds: 10, leader_stale_seconds: 10 };

const JOBS = {
  "device.ts": `
    import { defineJob } from "dandori";
    export default defineJob<{ device: number; what: string }>({
      serialKey: "device:{device}",
      isolation: { reuse: 1000 },
      run: async ({ args }) => {
        await new Promise((resolve) => setTimeout(resolve, args.what === "install" ? 20 : 1));
        return args.what;
      },
    });`,
  "free.ts": `
    import { defineJob } from "dandori";
    export default defineJob({ isolation: { reuse: 1000 }, run: () => "done" });`,
  "licensed.ts": `
    import { defineJob } from "dandori";
    export default defineJob({ resources: { license: 2 }, isolation: { reuse: 1000 }, run: () => "done" });`,
  "elsewhere.ts": `
    import { defineJob } from "dandori";
    export default defineJob({
      schedule: { cron: "* * * * * *" }, concurrency: "forbid", node: "gpu=h100", isolation: { reuse: 1000 }, run: () => "done",
    });`,
  "careful.ts": `
    import { defineJob } from "dandori";
    export default defineJob<{ fail?: boolean }>({
      serialKey: "careful", onFailure: "block", isolation: { reuse: 1000 },
      run({ args }) { if (args.fail) throw new Error("broken"); },
    });`,
};

/** Runs of it go on as soon as there is a file: until then each holds its slot. */
const heldBy = (admission: string) => `
  import { defineJob } from "dandori";
  export default defineJob<{ device: number; what: string }>({
    serialKey: "device:{device}", isolation: { reuse: 1000 }, permissions: { read: [${JSON.stringify(admission)}] },
    run: async ({ progress }) => {
      const from = Date.now();
      await progress(0.1);
      while (!await Deno.stat(${
  JSON.stringify(admission)
}).catch(() => null)) await new Promise((go) => setTimeout(go, 20));
      return { from, until: Date.now() };
    },
  });`;

Deno.test("install on 100 devices, then uninstall on one: never the other way round, in 20 slots, whatever runs beside it", async () => {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-gate-" });
  const jobs = { ...JOBS, "device.ts": heldBy(`${dir}/open`) };
  const slots = { env: { SCHEDULER_SLOTS: "10" }, settings: { leader_runs_jobs: "always" as const, ...STEADY } };
  const story = withProcesses(2, async (cluster) => {
    const { client, sql } = cluster;
    const devices = Array.from({ length: 100 }, (_, device) => device);
    const installs = await client.enqueueMany(
      "device",
      devices.map((device) => ({ args: { device, what: "install" } })),
    );
    const running = async () => (await sql`select progress from job_run where state = 'RUNNING'`);
    await waitFor("20 bodies", async () => (await running()).filter((run) => run.progress).length === 20 || undefined);
    // Of one that runs, of one that waits for a slot, and of the last one.
    const undone = [0, 42, 99];
    const uninstalls = await client.enqueueMany(
      "device",
      undone.map((device) => ({ args: { device, what: "uninstall" } })),
    );
    const beside = await client.enqueueMany("free", devices.map(() => ({ args: {} })));
    assert.equal((await running()).length, 20, "as many as there are slots");
    Deno.writeTextFileSync(`${dir}/open`, "");
    const all = [...installs, ...uninstalls, ...beside].map(({ id }) => id);
    for (const id of all) assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    const [most] = await sql<{ at_once: number }[]>`
      with body as (
        select (result->>'from')::bigint as began, (result->>'until')::bigint as ended from job_run where result ? 'from')
      select max(n)::int as at_once from body b, lateral (
        select count(*) as n from body o where o.began <= b.began and o.ended > b.began) s`;
    assert.equal(most?.at_once, 20);
    for (const [place, device] of undone.entries()) {
      const [order] = await sql<{ kept: boolean }[]>`
        select u.started_at >= i.finished_at and (u.result->>'from')::bigint >= (i.result->>'until')::bigint as kept
          from job_run i, job_run u
         where i.id = ${installs[device]?.id as number} and u.id = ${uninstalls[place]?.id as number}`;
      assert(order?.kept, `device ${device} was uninstalled before its install had ended`);
    }
    assert.equal((await sql`select from job_run where held`).length, 0);
  }, { jobs, ...slots });
  await story.finally(() => Deno.removeSync(dir, { recursive: true }));
});

type Cli = (...args: string[]) => Promise<Said>;

async function whyOf(cli: Cli, id: number): Promise<string> {
  return JSON.parse((await cli("explain", String(id), "--json")).out).wait_reason ?? "";
}

async function waitsBecause(cli: Cli, id: number, why: RegExp): Promise<void> {
  await waitFor(`run ${id} to wait because ${why}`, async () => why.test(await whyOf(cli, id)) || undefined);
}

const STEPS: Record<string, (cluster: Cluster, cli: Cli) => Promise<void>> = {
  "all dispatch is paused and resumed": async (cluster, cli) => {
    const { client } = cluster;
    for (const verb of ["pause", "resume"]) {
      for (const what of [[], ["--job", "free", "--all"], ["--job", "free", "--key", "k"]]) {
        const { code, err } = await cli("queue", verb, ...what);
        assert.equal(code, 2, `${verb} ${what}`);
        assert.match(err, new RegExp(`^error: Cannot ${verb}: .*--all for all dispatch`));
      }
    }
    assert.equal(JSON.parse((await cli("queue", "ls", "--json")).out).dispatch, "running");
    assert.match((await cli("queue", "pause", "--all")).out, /all dispatch is paused/);
    const { id } = await client.enqueue("free", {}); // at once: it holds from the moment at which it was said
    assert.match((await cli("queue", "pause", "--all")).out, /already paused/);
    await waitsBecause(cli, id, /all dispatch is paused; resume it: deno task queue resume --all/);
    await cli("queue", "resume", "--all");
    assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    assert.match((await cli("explain", String(id))).out, /is SUCCEEDED: ended at/);
  },

  "a job is paused, others go on": async (cluster, cli) => {
    const { client } = cluster;
    await cli("queue", "pause", "--job", "free", "--reason", "repairs");
    const { id } = await client.enqueue("free", {});
    const { id: other } = await client.enqueue("device", { device: 1, what: "x" });
    assert.equal((await cluster.ends(other)).state, "SUCCEEDED");
    await waitsBecause(cli, id, /job "free" is paused by cli:\S+: repairs; resume it/);
    assert.match((await cli("queue", "ls")).out, /free +240 +1 +0 .*paused by cli:\S+: repairs/);
    assert.match((await cli("jobs", "ls")).out, /free +paused by cli:\S+: repairs/);
    const findings = JSON.parse((await cli("doctor", "--json")).out);
    const { detail } = findings.find((one: { check: string }) => one.check === "stopped");
    assert.match(detail, /job "free" is paused by cli:\S+ \(repairs\), 1 runs wait/);
    await cli("queue", "resume", "--job", "free");
    assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    assert.equal((await cli("queue", "pause", "--job", "nonsense")).code, 1);
  },

  "a failure blocks its serial key until it is unblocked": async (cluster, cli) => {
    const { client } = cluster;
    const { id: bad } = await client.enqueue("careful", { fail: true });
    assert.equal((await cluster.ends(bad)).state, "FAILED");
    const { id } = await client.enqueue("careful", {});
    await waitsBecause(cli, id, new RegExp(`serial key "careful" is paused by system: run ${bad} ended FAILED`));
    await client.enqueue("careful", {}, { runAt: new Date(Date.now() + 3_600_000), serialKey: "later" });
    const { out } = await cli("queue", "ls");
    assert.match(out, /careful +1 .*system +run \d+ ended FAILED/);
    assert.match(out, /^careful .* 1 behind their serial key or beyond a limit; 1 not due yet$/m);
    await cluster.sql`delete from job_run where serial_key = 'later'`;
    await cli("queue", "unblock", "careful", "--reason", "looked at it");
    assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
  },

  "a run waits for a resource, and starts when there is enough": async (cluster, cli) => {
    const { client } = cluster;
    const refused = (why: RegExp) => assert.rejects(client.enqueue("licensed", {}), why);
    await refused(
      /Cannot enqueue "licensed": resource "license" is not known; add it: deno task resources set license 2/,
    );
    await cli("resources", "set", "license", "1");
    await refused(/a run takes 2 of resource "license", and there are 1; raise it/);
    const none = await cli("resources", "set", "license", "0");
    assert.deepEqual([none.code, /a capacity of 0: whatever takes it would wait for ever/.test(none.err)], [2, true]);
    await cli("resources", "set", "license", "2");
    await cli("queue", "pause", "--job", "licensed");
    const { id } = await client.enqueue("licensed", {});
    await cli("resources", "set", "license", "1");
    await cli("queue", "resume", "--job", "licensed");
    await waitsBecause(cli, id, /resource "license": 2 needed, 1 of 1 free/);
    await cli("resources", "rm", "license");
    await waitsBecause(cli, id, /resource "license" is not set; add it: deno task resources set license CAPACITY/);
    await cli("resources", "set", "license", "2");
    assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    assert.match((await cli("resources", "ls")).out, /license +2 +0/);
  },

  "a slot of a job whose labels no node carries waits and says so, until one does": async (cluster, cli) => {
    const slot = await waitFor("a slot", async () => {
      return (await cluster.sql<{ id: number }[]>`
        select r.id from job_run r join job_definition d on d.id = r.job_definition_id
         where d.name = 'elsewhere' and r.state = 'PENDING' and r.due_at <= clock_timestamp() limit 1`)[0];
    });
    await waitsBecause(cli, slot.id, /no worker is alive with labels gpu=h100/);
    const now = await cli("schedule", "run", "elsewhere");
    assert.match(now.err, /no node has the labels gpu=h100; there are node-1 \(no labels\)/);
    assert.equal(now.code, 2);
    await cli("nodes", "set", "node-1", "--label", "gpu=h100");
    assert.equal((await cluster.ends(slot.id)).state, "SUCCEEDED");
    await cli("schedule", "pause", "elsewhere");
  },

  "many runs are moved, canceled and run again by a filter": async (cluster, cli) => {
    const { client, sql } = cluster;
    await cli("queue", "pause", "--job", "free");
    const ids = await Promise.all([1, 2, 3].map(async () => (await client.enqueue("free", {})).id));
    const asked = await cli("runs", "reprioritize", "--where", "job=free", "--priority", "admin.high");
    assert.deepEqual([asked.code, /would reprioritize 3 runs; add --yes/.test(asked.err)], [2, true]);
    await cli("runs", "reprioritize", "--where", "job=free", "--priority", "admin.high", "--yes");
    await cli("runs", "reprioritize", String(ids[0]), "--priority", "7");
    const nobody = await cli("runs", "reprioritize", "999999", "--priority", "7");
    assert.deepEqual([nobody.code, /Cannot find run "999999": there is none/.test(nobody.err)], [1, true]);
    const moved = await sql`select priority from job_run where id = any(${ids}) order by id`;
    assert.deepEqual(moved.map((row) => row.priority), [7, 120, 120]);
    await cli("runs", "cancel", "--where", "job=free", "state=PENDING", "--yes");
    for (const id of ids) assert.equal((await cluster.ends(id)).state, "CANCELED");
    await cli("queue", "resume", "--job", "free");
    const again = JSON.parse(
      (await cli("runs", "retry", "--where", "job=free", "state=CANCELED", "--yes", "--json")).out,
    );
    assert.equal(again.ids.length, 3);
    for (const id of again.ids) assert.equal((await cluster.ends(id)).state, "SUCCEEDED");
    const linked = await sql`select rerun_of from job_run where id = any(${again.ids}) order by id`;
    assert.deepEqual(linked.map((row) => row.rerun_of), ids.toSorted((a, b) => a - b));
    const acts =
      await sql`select action, count(*)::int as n from admin_action_log where target_type = 'run' group by 1 order by 1`;
    assert.deepEqual(acts.map(({ action, n }) => [action, n]), [["run.cancel", 3], ["run.reprioritize", 4], [
      "run.retry",
      3,
    ]]);
    const edited = JSON.parse((await cli("runs", "retry", String(ids[0]), "--args", '{"other":1}', "--json")).out);
    assert.equal((await cluster.ends(edited.id)).state, "SUCCEEDED");
    assert.equal((await cli("runs", "cancel", "--where", "colour=red", "--yes")).code, 2);
    const counted = async (...where: string[]) =>
      JSON.parse((await cli("runs", "ls", "--where", "job=free", ...where, "--json")).out).length;
    await sql`update job_run set created_at = created_at - interval '2 hours' where id = ${ids[0] as number}`;
    const all = await counted();
    const parts = [await counted("until=1h"), await counted("since=3h", "until=3600s"), await counted("since=1h")];
    assert.deepEqual(parts, [1, 1, all - 1]);
    for (const never of ["1 week", "99999999d"]) {
      const { code, err } = await cli("runs", "ls", "--where", `since=${never}`);
      assert.deepEqual([code, /or how long ago, such as "10m" \(s, m, h, d\)/.test(err)], [2, true], err);
    }
    const before = await sql`select id, state, priority, cancel_requested_at from job_run order by id`;
    for (
      const args of [
        ["cancel", "1", "--where", "job=free"],
        ["retry", "1", "--where", "job=free"],
        ["retry", "--where", "job=free", "--args", "{}"],
        ["reprioritize", "1", "--where", "job=free", "--priority", "1"],
        ["retry", "--where", "job=free", "job=other"],
        ["retry"],
      ]
    ) {
      const said = await cli("runs", ...args, "--yes");
      assert.equal(said.code, 2, `${args.join(" ")}: which of both is meant? ${said.out}${said.err}`);
    }
    assert.deepEqual(await sql`select id, state, priority, cancel_requested_at from job_run order by id`, before);
  },
};

Deno.test("what an operator stops, moves and lets go", async (t) => {
  await withProcesses(1, async (cluster) => {
    const { stores, jobs_dir } = cluster;
    const cli = cliWith({
      DATABASE_URL: stores.database_url,
      REDIS_URL: stores.redis_url,
      SCHEDULER_JOBS_DIR: jobs_dir,
    });
    for (const [name, step] of Object.entries(STEPS)) await t.step(name, () => step(cluster, cli));
  }, { jobs: JOBS });
});
