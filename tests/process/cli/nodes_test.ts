/** Nodes in real processes: their checks decide who gets work, and whoever waits is told which check said no. */
import assert from "node:assert/strict";
import { cliWith } from "../../support/cli.ts";
import { type Cluster, withProcesses } from "../../support/cluster.ts";
import { waitFor } from "../../support/waiting.ts";
import { waitLine } from "../../../src/locale/wait_text.ts";
import { ENGLISH, english } from "../../../src/locale/english.ts";
import type { Waits } from "../../../src/runs/wait_reason.ts";

/** Who leads goes on leading, also on a machine that is busy. */
const STEADY = { leader_lease_seconds: 10, leader_stale_seconds: 10 };

/** A folder of one script, which is content while there is a file beside it. */
async function withLicense(
  test: (license: { dir: string; free(): void; taken(): void }) => Promise<void>,
): Promise<void> {
  const dir = Deno.makeTempDirSync({ prefix: "dandori-checks-" });
  try {
    Deno.writeTextFileSync(`${dir}/license`, "#!/bin/sh\n[ -f free ] || { echo no license is free; exit 1; }\n", {
      mode: 0o755,
    });
    await test({
      dir,
      free: () => Deno.writeTextFileSync(`${dir}/free`, ""),
      taken: () => Deno.removeSync(`${dir}/free`),
    });
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
}

async function reasonOf(cluster: Cluster, id: number): Promise<string | undefined> {
  const [row] = await cluster.sql<
    { reason: Waits | null }[]
  >`select wait_reason(r) as reason from job_run r where id = ${id}`;
  return row?.reason ? waitLine(ENGLISH, row.reason) : undefined;
}

async function startedOn(cluster: Cluster, id: number): Promise<string> {
  const { worker } = await cluster.hears("run.started", { job_run_id: id });
  return worker.node_id;
}

Deno.test("a node whose script says no gets no work, says why, and gets it again when the script is content", async () => {
  await withLicense(async (license) => {
    const often = { node_retry_seconds: 0.2, node_recheck_seconds: 0.2, node_check_seconds: 0.2 };
    await withProcesses(1, async (cluster) => {
      await cluster.startWorker({ node_id: "gpu-1", env: { SCHEDULER_CHECKS_DIR: license.dir } });
      const pinned = (await cluster.client.enqueue("append_one_row", {}, { node: "gpu-1" })).id;
      const why = "unavailable: gpu-1 (script license: no license is free)";
      await waitFor("the reason", async () => await reasonOf(cluster, pinned) === why || undefined);
      const free = await cluster.enqueue("append_one_row");
      assert.equal(await startedOn(cluster, free), "node-1", "work that may go elsewhere does, be it to the leader");
      assert.equal(await reasonOf(cluster, pinned), why);

      license.free();
      assert.equal((await cluster.ends(pinned)).state, "SUCCEEDED");
      assert.equal(await startedOn(cluster, pinned), "gpu-1");
      license.taken();
      await cluster.hears("node.status", { node_id: "gpu-1", status: "unavailable" });
    }, { settings: { ...STEADY, ...often } });
  });
});

Deno.test("work of a node that dies goes on elsewhere, and what is pinned to it waits until it is back", async () => {
  await withProcesses(3, async (cluster) => {
    const { sql } = cluster;
    const leader = await cluster.hears("leader.elected");
    const ill = cluster.workers.find((one) => one.worker_id !== leader.worker_id);
    const leads = cluster.workers.find((one) => one.worker_id === leader.worker_id);
    assert(ill && leads);
    const on_leader = (await cluster.client.enqueue("append_one_row", {}, { node: leads.node_id })).id;
    assert.equal(
      await startedOn(cluster, on_leader),
      leads.node_id,
      "who leads serves those whom nobody else ever will",
    );
    const on_it = (await cluster.client.enqueue("append_one_row", { hold_ms: 60_000 }, { node: ill.node_id })).id;
    assert.equal(await startedOn(cluster, on_it), ill.node_id);
    await sql`update job_run set node = null where id = ${on_it}`; // free to go elsewhere from its next attempt on
    await sql`update job_definition set max_interruptions = 10`;
    ill.kill("SIGKILL");
    const pinned = (await cluster.client.enqueue("append_one_row", {}, { node: ill.node_id })).id;

    const again = await cluster.hears("run.started", { job_run_id: on_it, attempt: 2 });
    assert.notEqual(again.worker.node_id, ill.node_id);
    const free = await cluster.enqueue("append_one_row");
    assert.equal((await cluster.ends(free)).state, "SUCCEEDED", "what is pinned is in nobody's way");
    await waitFor("the node to be unavailable", async () => {
      const [node] =
        await sql`select status, check_result->>'problem' as problem from node where node_id = ${ill.node_id}`;
      return (node?.status === "unavailable" && english(node.problem) === "connection: no worker of it is alive") ||
        undefined;
    });
    const why =
      `no worker is alive on node "${ill.node_id}"; start one there, or as it: SCHEDULER_NODE_ID=${ill.node_id} deno task worker`;
    await waitFor("the reason", async () => await reasonOf(cluster, pinned) === why || undefined);

    await cluster.startWorker({ node_id: ill.node_id });
    assert.equal((await cluster.ends(pinned)).state, "SUCCEEDED");
    assert.equal(await startedOn(cluster, pinned), ill.node_id);
  }, { settings: STEADY });
});

Deno.test("a worker that tells other machines an address of its own says what to set", async () => {
  await withProcesses(2, async (cluster) => {
    const { sql } = cluster;
    const leader = await cluster.hears("leader.elected");
    const far = cluster.workers.find((one) => one.worker_id !== leader.worker_id);
    assert(far);
    await cluster.hears("node.status", { node_id: far.node_id, status: "available" });
    await sql`update worker set grpc_port = 1 where worker_id = ${far.worker_id}`;
    const problem = async () => {
      const at = await sql<
        { now: Date }[]
      >`update node set next_check_at = now() where node_id = ${far.node_id} returning now()`;
      return await waitFor("a check that fails", async () => {
        const [node] = await sql`
          select check_result->>'problem' as problem from node where node_id = ${far.node_id} and checked_at > ${
          at[0]?.now ?? 0
        }`;
        return /^connection: .*no worker answers: .*/.exec(english(node?.problem ?? ""))?.[0];
      });
    };
    assert.doesNotMatch(await problem(), /peers are told/, "on one machine it is no mistake");
    await sql`update worker set host = 'another' where worker_id = ${far.worker_id}`;
    const hint = /^connection: peers are told 127\.0\.0\.1:\d+, .*: set SCHEDULER_GRPC_HOST there, no worker answers: /;
    let found = await problem();
    if (!hint.test(found)) found = await problem(); // of a check that had begun before
    assert.match(found, hint);
  }, { settings: STEADY });
});

Deno.test("from the command line nodes are shown, tested and changed, with an audit", async () => {
  await withLicense(async (license) => {
    license.free();
    await withProcesses(1, async (cluster) => {
      const { sql, client } = cluster;
      const { database_url, redis_url, prefix } = cluster.stores;
      const cli = cliWith({ DATABASE_URL: database_url, REDIS_URL: redis_url, SCHEDULER_REDIS_PREFIX: prefix });
      await cluster.hears("node.status", { node_id: "node-1", status: "available" });
      assert.match((await cli("nodes", "ls")).out, /^node-1 +available .*Z/m);
      await sql`insert into node (node_id, status) values ('node-8', 'unavailable')`;
      const listed = JSON.parse((await cli("nodes", "ls", "--json")).out);
      const names = (of: { node_id: string }[]) => of.map(({ node_id }) => node_id).toSorted();
      assert.deepEqual([names(listed.nodes), names(listed.workers)], [["node-1", "node-8"], ["node-1"]]);
      assert.equal((await cli("nodes", "rm", "node-8")).code, 0);
      assert.match((await cli("nodes", "test", "node-9")).err, /Cannot find node "node-9": there are node-1/);

      const tested = await cli("nodes", "test", "node-1");
      assert.equal(tested.code, 0, tested.err);
      assert.match(tested.out, /^script license +ok/m);
      license.taken();
      const failed = await cli("nodes", "test", "node-1", "--json");
      assert.equal(failed.code, 1);
      assert.equal(JSON.parse(failed.out).problem, "script license: no license is free");
      assert.match((await cli("nodes", "show", "node-1")).out, /^script license +FAILED +- +no license is free/m);
      license.free();
      assert.equal((await cli("nodes", "test", "node-1")).code, 0);

      const set = (...more: string[]) => cli("nodes", "set", "node-1", ...more, "--reason", "new disk", "--json");
      const changed = JSON.parse((await set("--max-concurrent", "2", "--label", "gpu=a100", "zone=tokyo")).out);
      assert.deepEqual([changed.max_concurrent, changed.labels], [2, { gpu: "a100", zone: "tokyo" }]);
      const labelled = (await client.enqueue("append_one_row", {}, { node: "gpu=a100" })).id;
      assert.equal((await cluster.ends(labelled)).state, "SUCCEEDED");
      assert.deepEqual(JSON.parse((await set("--label", "zone=")).out).labels, { gpu: "a100" });

      assert.equal(JSON.parse((await set("--maintenance", "on")).out).is_active, false);
      const waits = await cluster.enqueue("append_one_row");
      await waitFor("the reason", async () => {
        return /^in maintenance: node-1 by .+: new disk; end that: /.test(
          await reasonOf(cluster, waits) ?? "",
        ) ||
          undefined;
      });
      license.taken();
      const ill = await cli("nodes", "test", "node-1");
      assert.deepEqual(
        [ill.code, /^node-1 is unavailable: .+ \(in maintenance\)$/m.test(ill.out)],
        [1, true],
        ill.out,
      );
      await set("--maintenance", "off", "--max-concurrent", "none");
      await waitFor("the check after the maintenance", async () => {
        return await reasonOf(cluster, waits) === "unavailable: node-1 (script license: no license is free)" ||
          undefined;
      });
      license.free();
      assert.equal((await cli("nodes", "test", "node-1")).code, 0);
      assert.equal((await cluster.ends(waits)).state, "SUCCEEDED");
      const audit =
        await sql`select before_json, after_json, reason from admin_action_log where action = 'node.set' order by id`;
      assert.deepEqual(audit.map((act) => act.after_json.is_active), [true, true, false, true]);
      assert.deepEqual([audit[0]?.before_json.max_concurrent, audit[0]?.reason], [null, "new disk"]);

      for (const wrong of [["--label", "gpu"], ["--max-concurrent", "-1"], ["--maintenance", "maybe"], []]) {
        assert.equal((await set(...wrong)).code, 2, wrong.join(" "));
      }
    }, { env: { SCHEDULER_CHECKS_DIR: license.dir } });
  });
});
