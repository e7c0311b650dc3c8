/** A new job file is brought to some machines and not to others, whose workers have job folders of their own. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { compareJobFiles } from "../../../src/ops/job_files_check.ts";
import { listAlerts } from "../../../src/alerts/alerts.ts";
import { listWorkers } from "../../../src/nodes/workers.ts";
import { readAttempts, readRun } from "../../../src/runs/run_view.ts";
import { type Cluster, withProcesses, type WorkerProcess } from "../../support/cluster.ts";
import { waitFor } from "../../support/waiting.ts";

const CALM = { worker_lease_seconds: 30, leader_lease_seconds: 5, leader_stale_seconds: 5, heartbeat_ttl_seconds: 5 };
const SETTINGS = { ...CALM, alert_no_code_seconds: 1, stat_interval_seconds: 0.5, alert_overdue_seconds: 2 };

const hello = (version: number) =>
  `import { defineJob } from "dandori";\nexport default defineJob({ run: () => Promise.resolve({ version: ${version} }) });\n`;

/** Three workers, each with a folder of its own that holds the first version, which is synced. `bring` copies another one there. */
async function withMachines(
  test: (cluster: Cluster, bring: (worker: WorkerProcess, version: number) => void) => Promise<void>,
): Promise<void> {
  await withProcesses(0, async (cluster) => {
    const folders = new Map<WorkerProcess, string>();
    for (let n = 1; n <= 3; n++) {
      const folder = `${cluster.jobs_dir}-${n}`;
      Deno.mkdirSync(folder);
      Deno.writeTextFileSync(`${folder}/hello.ts`, hello(1));
      folders.set(await cluster.startWorker({ env: { SCHEDULER_JOBS_DIR: folder } }), folder);
    }
    await test(cluster, (worker, version) => {
      Deno.writeTextFileSync(`${folders.get(worker)}/hello.ts`, hello(version));
    });
  }, { jobs: { "hello.ts": hello(1) }, more_workers: 3, settings: SETTINGS });
}

async function versionOf(cluster: Cluster): Promise<string> {
  const [row] = await cluster.sql<{ digest: string }[]>`select digest from job_definition where name = 'hello'`;
  return row?.digest.slice(0, 7) ?? "";
}

Deno.test("where only the leader has the new file it does the work, at once and in the first attempt", () =>
  withMachines(async (cluster, bring) => {
    const leader = await cluster.hears("leader.elected");
    bring(leader.worker, 2);
    await cluster.sync({ "hello.ts": hello(2) });
    const ids = await Promise.all([1, 2, 3, 4, 5].map(() => cluster.enqueue("hello")));
    for (const id of ids) {
      const run = await cluster.ends(id);
      assert.deepEqual([run.state, run.attempt, run.result], ["SUCCEEDED", 1, { version: 2 }]);
      assert.equal((await readAttempts(cluster.sql, id)).length, 0);
      const { worker_id } = await cluster.hears("run.started", { job_run_id: id });
      assert.equal(worker_id, leader.worker_id);
    }
    const refused = cluster.times("run.refused");
    await cluster.ends(await cluster.enqueue("hello"));
    assert.equal(cluster.times("run.refused"), refused, "who refused it was asked again");
    assert.equal(cluster.times("alert.opened"), 0);
  }));

Deno.test("where nobody has the new file the run says so, one alert opens, and it starts when somebody has it", () =>
  withMachines(async (cluster, bring) => {
    const { sql } = cluster;
    const leader = await cluster.hears("leader.elected");
    const old = await versionOf(cluster);
    await cluster.sync({ "hello.ts": hello(2) });
    const version = await versionOf(cluster);
    const id = await cluster.enqueue("hello");
    const none = `no worker has version ${version} of hello (3 have ${old})`;
    await waitFor("the run to say who has what", async () => {
      return (await readRun(sql, id))?.wait_reason?.startsWith(none) || undefined;
    });
    const opened = await cluster.hears("alert.opened", { kind: "code.missing" });
    assert.deepEqual([opened.subject, opened.message], [`hello ${version}`, none]);
    const { differ } = await compareJobFiles(sql, { jobs_dir: cluster.jobs_dir, project_dir: PROJECT_DIR });
    const workers = await listWorkers(sql);
    assert.deepEqual(
      differ,
      workers.map(({ worker_id, node_id }) => {
        return `${worker_id} on ${node_id}: hello has ${old}, synced is ${version}`;
      }),
      "the machine that synced has it",
    );
    const [waiting] = await sql`select state, attempt, interruptions from job_run where id = ${id}`;
    assert.deepEqual({ ...waiting }, { state: "PENDING", attempt: 1, interruptions: 0 });

    const [other] = cluster.workers.filter((worker) => worker !== leader.worker);
    assert(other);
    bring(other, 2);
    const run = await cluster.ends(id);
    assert.deepEqual([run.state, run.attempt, run.result], ["SUCCEEDED", 1, { version: 2 }]);
    assert.equal((await readAttempts(sql, id)).length, 0);
    const { worker_id } = await cluster.hears("run.started", { job_run_id: id });
    assert.equal(worker_id, other.worker_id);
    await cluster.hears("alert.closed", { kind: "code.missing" });
    const alerts = await listAlerts(sql);
    assert.deepEqual(alerts.map(({ kind }) => kind), ["code.missing"], "and nothing was overdue besides");
    assert.ok(cluster.times("run.refused") <= 3, "each of them was asked once at most");
  }));
