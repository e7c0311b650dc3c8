/** The whole path in real processes: a job file becomes a finished run. */
import assert from "node:assert/strict";
import { requestCancel } from "../../../src/runs/requests.ts";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import { CALM, type Cluster, withProcesses } from "../../support/cluster.ts";
import { waitFor } from "../../support/waiting.ts";

const JOBS = {
  "add.ts": `
    import { defineJob } from "dandori";
    import { z } from "zod";
    export default defineJob({
      args: z.object({ a: z.number(), b: z.number().default(1) }),
      on: "numbers.given",
      async run({ args, log, progress }) {
        log.info("adding", { a: args.a });
        await progress(0.5, "half way");
        return { sum: args.a + args.b };
      },
    });`,
  "flaky.ts": `
    import { defineJob, Fatal } from "dandori";
    export default defineJob<{ fatal?: boolean }>({
      retry: { max: 2, backoffSeconds: 0.05, jitter: 0 },
      run({ args, attempt }) {
        if (args.fatal) throw new Fatal("pointless");
        if (attempt < 3) throw new TypeError("attempt " + attempt);
        return attempt;
      },
    });`,
  "stubborn.ts": `
    import { defineJob } from "dandori";
    export default defineJob({
      killGraceSeconds: 0,
      timeoutSeconds: 60,
      run() { for (;;); },
    });`,
  "each_second.ts": `
    import { defineJob } from "dandori";
    export default defineJob({ schedule: { cron: "* * * * * *", misfire: { all: true } }, run: ({ scheduledFor }) => scheduledFor });`,
};

async function runOf({ sql }: Cluster, event_id: number): Promise<number> {
  const find = async () => (await sql<{ id: number }[]>`select id from job_run where event_id = ${event_id}`)[0];
  return (await waitFor("the event's run", find)).id;
}

Deno.test("enqueued, emitted, scheduled, retried and refused runs end as they should", async () => {
  await withProcesses(2, async (cluster) => {
    const { sql, client } = cluster;

    const id = await cluster.enqueue("add", { a: 2 });
    const run = await cluster.ends(id);
    assert.deepEqual([run.state, run.result, run.attempt, run.exit_code], ["SUCCEEDED", { sum: 3 }, 1, 0]);
    const started = await cluster.hears("run.started", { job_run_id: id });
    const elected = await cluster.hears("leader.elected", { epoch: started.epoch });
    assert.notEqual(started.worker_id, elected.worker_id, "a leader with a crew does not work itself");
    await cluster.hears("run.finished", { job_run_id: id, outcome: "SUCCEEDED", state: "SUCCEEDED" });
    const view = await readRun(sql, id);
    assert.equal(view?.progress, 0.5);
    assert((view?.fence ?? 0) > 0 && view?.leader_epoch === elected.epoch);
    const logs = await sql`select level, message, fields from job_run_log where job_run_id = ${id} and level = 'info'`;
    assert.deepEqual([...logs], [{ level: "info", message: "adding", fields: { a: 2 } }]);

    await assert.rejects(cluster.enqueue("add", { a: "two" }), /its args do not fit: a: .*number/);
    const unfit = await client.emit("numbers.given", { a: "two" }); // whoever emits knows of no job
    const bad = await cluster.ends(await runOf(cluster, unfit.id));
    assert.deepEqual([bad.state, bad.attempt, bad.error_name], ["FAILED", 1, "InvalidArgs"]);
    assert.match(bad.error_summary ?? "", /\ba\b.*number/s);

    const event = await client.emit("numbers.given", { a: 40, b: 2 }, { dedupeKey: "once" });
    assert.deepEqual(await client.emit("numbers.given", { a: 0 }, { dedupeKey: "once" }), event);
    assert.deepEqual((await cluster.ends(await runOf(cluster, event.id))).result, { sum: 42 });

    const flaky = await cluster.ends(await cluster.enqueue("flaky"));
    assert.deepEqual([flaky.state, flaky.attempt, flaky.result], ["SUCCEEDED", 3, 3]);
    const attempts = await readAttempts(sql, flaky.id);
    assert.deepEqual(attempts.map((one) => [one.attempt, one.outcome, one.error_name]), [
      [1, "FAILED", "TypeError"],
      [2, "FAILED", "TypeError"],
    ]);
    const fatal = await cluster.ends(await cluster.enqueue("flaky", { fatal: true }));
    assert.deepEqual([fatal.state, fatal.attempt, fatal.error_name], ["FAILED", 1, "Fatal"]);

    const slots = await waitFor("three slots", async () => {
      const first = await sql`
        select state, scheduled_for, result from job_run where source = 'schedule' order by scheduled_for limit 3`;
      return first.length === 3 && first.every(({ state }) => state === "SUCCEEDED") ? first : undefined;
    });
    const seconds = slots.map((slot) => slot.scheduled_for.getTime() / 1000);
    const first = seconds[0] ?? 0;
    assert.deepEqual(seconds, [first, first + 1, first + 2], "each slot once, none missing");
    assert.equal(slots[0]?.result, slots[0]?.scheduled_for.toISOString());
  }, { jobs: JOBS, settings: CALM });
});

Deno.test("a run is canceled while it waits, and while its body spins", async () => {
  await withProcesses(1, async (cluster) => {
    const { sql, client } = cluster;
    const me = { actor: "test", reason: "not needed any more" };
    const later = (await client.enqueue("add", { a: 1 }, { runAt: new Date(Date.now() + 3_600_000) })).id;
    assert.deepEqual(await requestCancel(sql, later, me), { state: "PENDING", requested: true });
    const waiting = await cluster.ends(later);
    assert.deepEqual([waiting.state, waiting.error_name], ["CANCELED", "Canceled"]);

    const id = await cluster.enqueue("stubborn");
    const { worker_id } = await cluster.hears("run.started", { job_run_id: id });
    const leader = await cluster.hears("leader.elected");
    assert.equal(worker_id, leader.worker_id, "a leader that is alone works itself");
    assert.deepEqual(await requestCancel(sql, id, me), { state: "RUNNING", requested: true });
    const ended = await cluster.ends(id);
    assert.equal(ended.state, "CANCELED");
    const acts =
      await sql`select actor, action, target_id, reason from admin_action_log where action = 'run.cancel' order by id`;
    assert.deepEqual(acts.map((act) => act.target_id), [String(later), String(id)]);
    assert.deepEqual(await requestCancel(sql, id, me), { state: "CANCELED", requested: false });
  }, { jobs: JOBS, settings: CALM });
});

Deno.test("a worker refuses code that differs from what was synced, and takes it after the next sync", async () => {
  await withProcesses(1, async (cluster) => {
    const source = (text: string) =>
      `import { defineJob } from "dandori"; export default defineJob({ run: () => ${JSON.stringify(text)} });`;
    await cluster.sync({ "told.ts": source("old") });
    Deno.writeTextFileSync(`${cluster.jobs_dir}/told.ts`, source("new"));
    const id = await cluster.enqueue("told");
    const refused = await cluster.hears("run.refused", { job_run_id: id });
    assert.equal(refused.result, "REJECTED_INVALID");
    assert.match(refused.message, /Code mismatch/);
    await cluster.sync();
    assert.equal((await cluster.ends(id)).result, "new");
  }, { jobs: JOBS, settings: CALM });
});
