/** The pages of nodes and workers: what they show, what operators do there, and what is left in the audit of it. */
import assert from "node:assert/strict";
import { json } from "../../../src/postgres/connection.ts";
import { withAdmin } from "../../support/admin.ts";
import { cliWith } from "../../support/cli.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";

const EVIL = `"><script>alert(1)</script><img src=x onerror=alert(1)>`;

Deno.test("nodes and workers are shown with why they get no work, what they carry, and how they are known", async () => {
  await withAdmin(async ({ sql, login }) => {
    const known = { tls_fingerprint: "ab12", tls_not_after: new Date("2027-01-02T03:04:05Z"), clock_skew_ms: -3400 };
    const worker = await aWorker(sql, { node_id: "gpu-1", worker_id: "w1", version: "1.2.3", slots: 4, ...known });
    await aWorker(sql, {
      node_id: "gpu-2",
      worker_id: "w2",
      state: "DETACHED",
      detached_by: "taro",
      detach_reason: "hot",
    });
    const of = await aDefinition(sql, { name: "export" });
    const run = await aRun(sql, { job_definition_id: of.id, state: "RUNNING", assigned_worker_id: "w1" });
    const parts = [{ name: "license", ok: false, value: "exit 1", message: "none is free", ms: 12 }];
    await sql`update node set status = 'unavailable', next_check_at = 'infinity', checked_at = now(), max_concurrent = 5, labels = '{"gpu": "a100"}',
              check_result = ${
      json(sql, { worker_id: "w1", problem: "license: exit 1", parts })
    } where node_id = 'gpu-1'`;
    await sql`update node set is_active = false, inactive_by = 'user:taro', inactive_reason = 'new disk' where node_id = 'gpu-2'`;
    await sql`update leader_term set epoch = 7, worker_id = 'w1', lease_until = now() + interval '1 minute', failovers = 2`;
    await sql`insert into resource values ('license', 3)`;
    const browser = await login("viewer");
    const list = await browser.text("/nodes");
    for (const sign of [/license: exit 1/, /gpu=a100/, /user:taro: new disk/, /epoch 7/, /0\/3/, />1\/5</, />1\/4</]) {
      assert.match(list, sign);
    }
    const node = await browser.text("/nodes/gpu-1");
    for (const sign of [/none is free/, /12 ms/, new RegExp(`/runs/${run.id}"`)]) assert.match(node, sign);
    const one = await browser.text(`/workers/${worker.worker_id}`);
    for (const sign of [/ab12/, /2027-01-02 03:04:05/, /3400 ms behind the database/, /1\.2\.3/, /127\.0\.0\.1:1</]) {
      assert.match(one, sign);
    }
    const carried = await browser.text(`/runs/${run.id}`);
    for (const sign of [/href="\/workers\/w1">w1</, /href="\/nodes\/gpu-1">gpu-1</]) assert.match(carried, sign);
    assert.match(await browser.text("/workers/w2"), /Detached by taro: hot/);
    assert.equal((await browser.get("/nodes/nowhere")).status, 404);
    assert.equal((await browser.get("/workers/nobody")).status, 404);
  });
});

Deno.test("limits, labels and maintenance hold at once, and what others changed meanwhile stays", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aWorker(sql, { node_id: "gpu 1/a" });
    await sql`update node set labels = '{"gpu": "a100", "zone": "tokyo"}'`;
    const browser = await login("operator");
    const path = `/nodes/${encodeURIComponent("gpu 1/a")}`;
    const was = { was_labels: "gpu=a100, zone=tokyo", was_max_concurrent: "" };
    await sql`update node set labels = labels || '{"rack": "7"}'`;
    const done = await browser.act(path, { ...was, labels: "gpu=h100", max_concurrent: "6", reason: "new card" });
    assert.deepEqual([done.to, done.tone], [path, "good"]);
    const [node] = await sql`select labels, max_concurrent from node`;
    assert.deepEqual({ ...node }, { labels: { gpu: "h100", rack: "7" }, max_concurrent: 6 });
    const [act] =
      await sql`select actor, action, target_id, before_json, after_json, reason from admin_action_log where action = 'node.set'`;
    assert.deepEqual([act?.actor, act?.target_id, act?.reason], ["user:operator", "gpu 1/a", "new card"]);
    assert.equal(act?.before_json.max_concurrent, null);
    assert.equal(act?.after_json.max_concurrent, 6);
    for (
      const bad of [{ labels: "gpu" }, { labels: "a b=c" }, { max_concurrent: "-1" }, { max_concurrent: "9999999" }]
    ) {
      const refused = await browser.act(path, { ...was, labels: was.was_labels, max_concurrent: "", ...bad });
      assert.equal(refused.tone, "bad", JSON.stringify(bad));
    }
    assert.match((await browser.act(path, { ...was, labels: was.was_labels, max_concurrent: "" })).text, /Nothing/);
    await browser.act(`${path}/maintenance`, { maintenance: "on", reason: "new disk" });
    assert.match(await browser.text("/nodes"), /user:operator: new disk/);
    await browser.act(`${path}/maintenance`, { maintenance: "off" });
    assert.deepEqual([...await sql`select is_active, inactive_by from node`], [{ is_active: true, inactive_by: null }]);
    assert.match(
      (await browser.act("/nodes/nowhere/maintenance", { maintenance: "on" })).text,
      /Cannot find node "nowhere"/,
    );
  });
});

Deno.test("workers are drained, taken back and detached, alone or with their node, and what they carry is named before", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aWorker(sql, { node_id: "a", worker_id: "w1" });
    await aWorker(sql, { node_id: "a", worker_id: "w2" });
    const of = await aDefinition(sql, { name: "export" });
    const run = await aRun(sql, { job_definition_id: of.id, state: "RUNNING", assigned_worker_id: "w2" });
    const browser = await login("operator");
    const states = async () => (await sql`select state from worker order by worker_id`).map(({ state }) => state);
    assert.match((await browser.act("/workers/w1/drain", { reason: "update" })).text, /Drain: w1/);
    assert.deepEqual(await states(), ["DRAINING", "ACTIVE"]);
    await browser.act("/nodes/a/drain");
    assert.deepEqual(await states(), ["DRAINING", "DRAINING"]);
    assert.match((await browser.act("/nodes/a/drain")).text, /no active worker or node/);
    await browser.act("/nodes/a/undrain");
    assert.deepEqual(await states(), ["ACTIVE", "ACTIVE"]);
    const [, dialog = ""] = /<dialog id="detach"(.*?)<\/dialog>/s.exec(await browser.text("/workers/w2")) ?? [];
    assert.match(dialog, new RegExp(`/runs/${run.id}".*export.*RUNNING`, "s"));
    const detached = await browser.act("/workers/w2/detach", { reason: "it hangs" });
    assert.match(detached.text, /Detach: w2\. The workers learn of this/, "no Redis is known to this server");
    assert.deepEqual(await states(), ["ACTIVE", "DETACHED"]);
    assert.match((await browser.act("/workers/w2/detach")).text, /DETACHED already, by user:operator: it hangs/);
    const acts = await sql`select action, target_id, reason from admin_action_log where action = 'worker.detach'`;
    assert.deepEqual([...acts], [{ action: "worker.detach", target_id: "w2", reason: "it hangs" }]);
  });
});

Deno.test("a node that is gone for good is removed, and one that is not is not", async () => {
  await withAdmin(async ({ sql, login, database_url }) => {
    await aWorker(sql, { node_id: "old", worker_id: "w1", state: "DEAD" });
    await aWorker(sql, { node_id: "new", worker_id: "w2" });
    const late = await aRun(sql, { state: "RUNNING", assigned_worker_id: "w1" });
    const browser = await login("operator");
    assert.match(await browser.text("/nodes/old"), /data-opens="remove"|>Remove</);
    await browser.post("/nodes/old/remove", { reason: "sold" });
    assert.match(await browser.text("/nodes/old"), new RegExp(`run ${late.id} is still with a worker of it`));
    await sql`update job_run set state = 'FAILED', finished_at = clock_timestamp() where id = ${late.id}`;
    await browser.post("/nodes/new/remove", { reason: "sold" }, { "accept-language": "ja" });
    assert.match(await browser.text("/nodes/new"), /w2 (is not DEAD|がまだ動いています)/);
    const done = await browser.post("/nodes/old/remove", { reason: "sold" });
    assert.equal(done.headers.get("location"), "/nodes");
    assert.match(await browser.text("/nodes"), /Node old is removed/);
    assert.deepEqual((await sql`select node_id from node`).map((row) => row.node_id), ["new"]);
    assert.deepEqual((await sql`select worker_id from worker`).map((row) => row.worker_id), ["w2"]);
    assert.equal((await sql`select from job_run where id = ${late.id}`).length, 1, "its runs stay");
    const acts =
      await sql`select actor, target_id, before_json, reason from admin_action_log where action = 'node.remove'`;
    assert.deepEqual({ ...acts[0] }, {
      actor: "user:operator",
      target_id: "old",
      before_json: { labels: {}, is_active: true, max_concurrent: null },
      reason: "sold",
    });
    assert.equal(acts.length, 1);
    const cli = cliWith({ DATABASE_URL: database_url });
    assert.match(
      (await cli("nodes", "rm", "new")).err,
      /Cannot remove node "new": its worker w2 is not DEAD; stop it/,
    );
    assert.match((await cli("nodes", "rm", "old")).err, /Cannot find node "old": there are new/);
    await sql`update worker set state = 'DEAD'`;
    assert.match((await cli("nodes", "rm", "new", "--reason", "sold too")).out, /node new is removed/);
  });
});

Deno.test("a test of the connection is asked of the leader, shown while it is under way, and refused where nobody would make it", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aWorker(sql, { node_id: "a", worker_id: "w1" });
    await sql`update node set next_check_at = now() + interval '1 hour'`;
    const browser = await login("operator");
    assert.match((await browser.act("/nodes/a/test")).text, /nobody leads/);
    await sql`update leader_term set worker_id = 'w1', lease_until = now() + interval '1 minute'`;
    assert.doesNotMatch(await browser.text("/nodes/a"), /checking/);
    assert.equal((await browser.act("/nodes/a/test")).tone, "good");
    assert.match(await browser.text("/nodes/a"), /checking.*The leader is checking the node/s);
    await sql`update node set is_active = false`;
    assert.doesNotMatch(await browser.text("/nodes/a"), /checking/, "in maintenance only when somebody asks");
    assert.equal((await browser.act("/nodes/a/test")).tone, "good");
    assert.match(await browser.text("/nodes/a"), /maintenance.*checking.*The leader is checking the node/s);
  });
});

Deno.test("exactly the leader that was looked at is asked to step down, once", async () => {
  await withAdmin(async ({ sql, login }) => {
    const browser = await login("operator");
    assert.match((await browser.act("/leader/degrade", { epoch: "7" })).text, /nobody leads/);
    await aWorker(sql, { node_id: "a", worker_id: "w1" });
    await sql`update leader_term set epoch = 8, worker_id = 'w1', lease_until = now() + interval '1 minute'`;
    assert.match((await browser.act("/leader/degrade", { epoch: "7" })).text, /the leader is w1, of epoch 8/);
    assert.match((await browser.act("/leader/degrade", { epoch: "8", reason: "slow" })).text, /w1 steps down/);
    assert.equal((await browser.act("/leader/degrade", { epoch: "8" })).tone, "bad");
    assert.match(await browser.text("/nodes"), /Asked to step down/);
    const acts = await sql`select action, target_id, reason from admin_action_log where action like 'leader%'`;
    assert.deepEqual([...acts], [{ action: "leader.degrade", target_id: "w1", reason: "slow" }]);
  });
});

Deno.test("a viewer is shown nothing to press, and what is posted all the same is refused", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aWorker(sql, { node_id: "a", worker_id: "w1" });
    await sql`update leader_term set epoch = 7, worker_id = 'w1', lease_until = now() + interval '1 minute'`;
    const browser = await login("viewer");
    for (const path of ["/nodes", "/nodes/a", "/workers/w1"]) {
      assert.doesNotMatch(await browser.text(path), /<dialog|data-opens|\/(drain|detach|test|degrade)"/, path);
    }
    const posts = [
      "/nodes/a",
      "/nodes/a/test",
      "/nodes/a/maintenance",
      "/nodes/a/drain",
      "/workers/w1/detach",
      "/leader/degrade",
    ];
    for (const path of posts) assert.equal((await browser.post(path, { epoch: "7" })).status, 403, path);
    assert.deepEqual([...await sql`select state from worker`], [{ state: "ACTIVE" }]);
  });
});

Deno.test("names, labels, reasons and what checks say are text, in pages and in paths", async () => {
  await withAdmin(async ({ sql, login }) => {
    await aWorker(sql, {
      node_id: EVIL,
      worker_id: EVIL,
      version: EVIL,
      tls_fingerprint: EVIL,
      detached_by: EVIL,
      detach_reason: EVIL,
    });
    const part = { name: EVIL, ok: false, value: EVIL, message: EVIL, ms: 1 };
    const result = { worker_id: EVIL, problem: EVIL, parts: [part] };
    await sql`update node set status = 'unavailable', labels = ${json(sql, { [EVIL]: EVIL })}, inactive_by = ${EVIL},
              inactive_reason = ${EVIL}, is_active = false, check_result = ${json(sql, result)}`;
    await sql`insert into resource values (${EVIL}, 1)`;
    await sql`update leader_term set worker_id = ${EVIL}, lease_until = now() + interval '1 minute'`;
    const browser = await login("admin");
    const evil = encodeURIComponent(EVIL);
    for (const path of ["/nodes", `/nodes/${evil}`, `/workers/${evil}`]) {
      const answer = await browser.get(path);
      assert.equal(answer.status, 200, path);
      const text = await answer.text();
      assert.doesNotMatch(text, /<script>|<img/, path);
      assert.match(text, /&lt;script&gt;/, path);
    }
    const done = await browser.act(`/nodes/${evil}/maintenance`, { maintenance: "off", reason: EVIL });
    assert.equal(done.to, `/nodes/${evil}`);
    assert.doesNotMatch(await browser.text("/audit"), /<script>|<img/);
  });
});
