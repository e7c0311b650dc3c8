/** Runs over HTTP: looking, enqueuing, acting on one and on many. */
import assert from "node:assert/strict";
import { withApi } from "../../support/api_scene.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";

const TENANT = {
  type: "object",
  properties: { tenant: { type: "string" }, n: { type: "integer" } },
  required: ["tenant"],
  additionalProperties: false,
};

Deno.test("a run is enqueued once for each key, and is then what was asked for", async () => {
  await withApi(async ({ sql, call }) => {
    await aDefinition(sql, { name: "export", args_schema: TENANT });
    await aWorker(sql, { node_id: "gpu-1" });
    const body = {
      job_name: "export",
      args: { tenant: "acme" },
      priority: "admin.high",
      run_at: "2090-01-31T18:00:00+09:00",
      serial_key: "acme",
      node: "gpu-1",
    };
    const headers = { "Idempotency-Key": "acme-2026-11" };
    const first = await call("POST", "/runs", { as: "emit", body, headers });
    assert.equal(first.status, 201);
    assert.equal(first.body.is_new, true);
    const again = await call("POST", "/runs", { as: "emit", body, headers });
    assert.deepEqual([again.status, again.body], [200, { id: first.body.id, is_new: false }]);
    const { body: run } = await call("GET", `/runs/${first.body.id}`, { as: "read" });
    const { args, priority, due_at, serial_key, node, state, attempts } = run;
    assert.deepEqual({ args, priority, due_at, serial_key, node, state, attempts }, {
      args: { tenant: "acme" },
      priority: 120,
      due_at: "2090-01-31T09:00:00.000Z",
      serial_key: "acme",
      node: "gpu-1",
      state: "PENDING",
      attempts: [],
    });
    assert.match(String(run.wait_reason), /^due at 2090/);
  });
});

Deno.test("a run that cannot be is refused with each place that is wrong", async () => {
  await withApi(async ({ sql, call }) => {
    await aDefinition(sql, { name: "export", args_schema: TENANT });
    const issuesOf = async (body: unknown, status = 422) => {
      const said = await call("POST", "/runs", { body });
      assert.equal(said.status, status, JSON.stringify(said.body));
      return (said.body.issues as { path: string; message: string }[] ?? []).map(({ path }) => path).sort();
    };
    assert.deepEqual(await issuesOf({ job_name: "export", args: { tenant: 7, n: 1.5 } }), ["n", "tenant"]);
    assert.deepEqual(await issuesOf({ job_name: "export", arg: {}, priority: "highest" }), ["arg", "priority"]);
    assert.deepEqual(await issuesOf({ job_name: "export", priority: 1000 }), ["priority"]);
    assert.deepEqual(await issuesOf({ job_name: "export", run_at: "tomorrow", serial_key: "" }), [
      "run_at",
      "serial_key",
    ]);
    assert.deepEqual(await issuesOf({ args: {} }), ["job_name"]);
    assert.deepEqual(await issuesOf({ job_name: "import" }, 404), []);
    assert.deepEqual(await issuesOf({ job_name: "export", args: { tenant: "a\u0000b" } }), []);
    assert.deepEqual(await issuesOf({ job_name: "export", args: { tenant: "x".repeat(300_000) } }), []);
    const many = await call("POST", "/runs", { body: { job_name: "export", args: { tenant: "x".repeat(1_100_000) } } });
    assert.equal(many.status, 413);
    for (
      const [body, type, status] of [["{", "application/json", 400], ["job_name=export", "text/plain", 415]] as const
    ) {
      const said = await call("POST", "/runs", { body, headers: { "content-type": type } });
      assert.equal(said.status, status);
    }
    const unknown = await call("POST", "/runs", { body: { job_name: "import" } });
    assert.match(String(unknown.body.detail), /no such job, known are export/);
    const nowhere = await call("POST", "/runs", { body: { job_name: "export", args: { tenant: "a" }, node: "gpu-9" } });
    assert.deepEqual([nowhere.status, /no node has the name "gpu-9"/.test(String(nowhere.body.detail))], [422, true]);
    assert.equal((await sql`select from job_run`).length, 0);
    assert.equal((await sql`select from admin_action_log`).length, 0);
  });
});

Deno.test("lists come in pages, the newest first, by any filter", async () => {
  await withApi(async ({ sql, call }) => {
    const job = await aDefinition(sql, { name: "export" });
    const worker = await aWorker(sql, { node_id: "gpu-1" });
    const bulk = await sql`insert into bulk (job_definition_id) values (${job.id}) returning id`;
    const ids: number[] = [];
    for (let n = 0; n < 7; n++) ids.push((await aRun(sql, { job_definition_id: job.id })).id);
    const special = await aRun(sql, {
      state: "FAILED",
      error_name: "ConnectError",
      serial_key: "device:7",
      node: "gpu-1",
      assigned_worker_id: worker.worker_id,
      bulk_id: bulk[0]?.id,
    });
    const seen: number[] = [];
    for (let after = ""; after !== "null";) {
      const { body } = await call("GET", `/runs?job_name=export&limit=3${after && `&after=${after}`}`, { as: "read" });
      seen.push(...(body.items ?? []).map((run) => run.id as number));
      after = String(body.next);
    }
    assert.deepEqual(seen, ids.toReversed());
    const filters = [
      "state=FAILED,TIMED_OUT",
      "error_name=ConnectError",
      "serial_key=device:7",
      "node=gpu-1",
      "ran_on=gpu-1",
      `worker_id=${worker.worker_id}`,
      `bulk_id=${bulk[0]?.id}`,
    ];
    assert.equal((await call("GET", `/runs/${special.id}`)).body.ran_on, "gpu-1");
    for (const filter of filters) {
      const { body } = await call("GET", `/runs?${filter}`);
      assert.deepEqual(body.items?.map((run) => run.id), [special.id], filter);
    }
    for (const [filter, runs] of [["since=2090-01-01T00:00:00Z", 0], ["until=2090-01-01T00:00:00Z", 8]] as const) {
      assert.equal((await call("GET", `/runs?${filter}`)).body.items?.length, runs, filter);
    }
    for (
      const wrong of ["state=DONE", "limit=501", "limit=0", "after=x", "since=now", "jobname=export", "bulk_id=-1"]
    ) {
      const said = await call("GET", `/runs?${wrong}`);
      assert.equal(said.status, 422, wrong);
      assert.match(JSON.stringify(said.body.issues), /"path":"query/);
    }
  });
});

Deno.test("one run: its log in pages, and 404 and 422 where there is none", async () => {
  await withApi(async ({ sql, call }) => {
    const run = await aRun(sql);
    for (let n = 1; n <= 3; n++) {
      await sql`insert into job_run_log (job_run_id, attempt, level, message) values (${run.id}, 1, 'info', ${`line ${n}`})`;
    }
    await sql`insert into job_run_attempt (job_run_id, attempt, outcome) values (${run.id}, 1, 'LOST')`;
    const { body: shown } = await call("GET", `/runs/${run.id}`);
    assert.equal((shown.attempts as unknown[]).length, 1);
    const { body: first } = await call("GET", `/runs/${run.id}/logs?limit=2`);
    assert.deepEqual(first.items?.map((line) => line.message), ["line 1", "line 2"]);
    const { body: rest } = await call("GET", `/runs/${run.id}/logs?after=${first.next}`);
    assert.deepEqual([rest.items?.map((line) => line.message), rest.next], [["line 3"], null]);
    for (const path of ["/runs/999", "/runs/999/logs"]) assert.equal((await call("GET", path)).status, 404);
    for (const id of ["0", "x", "1e3", "99999999999999999999", "1;drop"]) {
      assert.equal((await call("GET", `/runs/${id}`)).status, 422, id);
    }
  });
});

Deno.test("a run that nothing ends is closed, with a reason, once", async () => {
  await withApi(async ({ sql, call }) => {
    const lost = await aRun(sql, { state: "RUNNING" });
    const close = (id: number, body: Record<string, unknown>) =>
      call("POST", `/runs/${id}/close`, { as: "operate", body });
    assert.equal((await close(lost.id, {})).status, 422, "it needs a reason");
    assert.equal((await call("POST", `/runs/${lost.id}/close`, { as: "emit", body: { reason: "x" } })).status, 403);
    assert.deepEqual((await close(lost.id, { reason: "its machine burned" })).body, { id: lost.id, state: "FAILED" });
    const { body: run } = await call("GET", `/runs/${lost.id}`);
    assert.deepEqual([run.error_name, run.error_summary], ["Missing", "closed by token:operate: its machine burned"]);
    assert.equal((await close(lost.id, { reason: "again" })).status, 409);
    assert.equal((await close(999, { reason: "x" })).status, 404);
    const { body: acts } = await call("GET", "/audit?action=run.close");
    assert.deepEqual(acts.items?.map((act) => [act.target_id, act.reason]), [[`${lost.id}`, "its machine burned"]]);
    const before = acts.items?.[0]?.before as Record<string, unknown>;
    assert.deepEqual([before.state, before.attempt, before.worker_id], [
      "RUNNING",
      1,
      (await sql`select assigned_worker_id as worker_id from job_run where id = ${lost.id}`)[0]?.worker_id,
    ]);
    assert.deepEqual(acts.items?.[0]?.after, { state: "FAILED" });
  });
});

Deno.test("cancel, retry and another priority of one run, and why not", async () => {
  await withApi(async ({ sql, call }) => {
    const job = await aDefinition(sql, { name: "export", args_schema: TENANT });
    const waits = await aRun(sql, { job_definition_id: job.id, args_json: { tenant: "a" } });
    const done = await aRun(sql, {
      job_definition_id: job.id,
      args_json: { tenant: "b" },
      state: "FAILED",
      serial_key: "k",
    });
    const act = async (path: string, body?: unknown, headers = {}) => {
      const said = await call("POST", `/runs/${path}`, { as: "operate", body, headers });
      return [said.status, said.body] as const;
    };
    assert.deepEqual(await act(`${waits.id}/reprioritize`, { priority: 7 }), [200, { id: waits.id, priority: 7 }]);
    assert.deepEqual(await act(`${waits.id}/reprioritize`, { priority: 7 }), [200, { id: waits.id, priority: 7 }]);
    assert.equal((await act(`${done.id}/reprioritize`, { priority: 7 }))[0], 409);
    assert.equal((await act(`${done.id}/reprioritize`, {}))[0], 422);
    const asked = { id: waits.id, state: "PENDING", requested: true };
    assert.deepEqual(await act(`${waits.id}/cancel`, { reason: "wrong tenant" }), [202, asked]);
    assert.deepEqual(await act(`${waits.id}/cancel`), [202, { ...asked, requested: false }]);
    assert.equal((await act(`${done.id}/cancel`))[0], 409);
    assert.equal((await act("999/cancel"))[0], 404);
    assert.equal((await act(`${waits.id}/cancel`, { why: "x" }))[0], 422);

    assert.equal((await act(`${waits.id}/retry`))[0], 409);
    const [status, fresh] = await act(`${done.id}/retry`, undefined, { "Idempotency-Key": "again" });
    assert.equal(status, 201);
    assert.deepEqual((await act(`${done.id}/retry`, {}, { "Idempotency-Key": "again" }))[1], {
      ...fresh,
      is_new: false,
    });
    const twin = await aRun(sql, { job_definition_id: job.id, args_json: { tenant: "d" }, state: "FAILED" });
    const [taken, why] = await act(`${twin.id}/retry`, {}, { "Idempotency-Key": "again" });
    assert.equal(taken, 409, "the key stands for a retry of another run");
    assert.match(
      why.detail as string,
      new RegExp(`key was used before, for run ${fresh.id}, which is no retry of this`),
    );
    const { body: run } = await call("GET", `/runs/${fresh.id}`);
    assert.deepEqual([run.args, run.serial_key, run.rerun_of], [{ tenant: "b" }, "k", done.id]);
    const [, edited] = await act(`${done.id}/retry`, { args: { tenant: "c" }, reason: "typing error" });
    assert.deepEqual((await call("GET", `/runs/${edited.id}`)).body.args, { tenant: "c" });
    const [refused, problem] = await act(`${done.id}/retry`, { args: { tenant: 7 } });
    assert.deepEqual([refused, (problem.issues as { path: string }[])[0]?.path], [422, "tenant"]);
    await sql`update job_definition set enabled = false, removed_at = now()`;
    assert.equal((await act(`${done.id}/retry`))[0], 409);
    assert.equal((await act("999/retry"))[0], 404);
  });
});

Deno.test("a run again with other args has the key and the node of those, but keeps what it was given beside its args", async () => {
  await withApi(async ({ sql, call }) => {
    for (const node_id of ["gpu-1", "gpu-2"]) await aWorker(sql, { worker_id: `w-${node_id}`, node_id });
    const { id } = await aDefinition(sql, { name: "wipe", serial_key: "device:{device}", node: "{at}" });
    const ended = async (more: Record<string, unknown>) => {
      const run = { job_definition_id: id, state: "FAILED", args_json: { device: 7, at: "gpu-1" }, ...more };
      return (await aRun(sql, run)).id;
    };
    const derived = await ended({ serial_key: "device:7", node: "gpu-1" });
    const given = await ended({ serial_key: "tenant:a", node: "zone=x" });
    const excluded = await ended({ serial_key: "job:wipe", node: "gpu-1" });
    const again = async (run: number, args?: unknown) => {
      const { status, body } = await call("POST", `/runs/${run}/retry`, { body: { args } });
      assert.equal(status, 201, JSON.stringify(body));
      const [row] = await sql`select serial_key, node from job_run where id = ${Number(body.id)}`;
      return [row?.serial_key, row?.node];
    };
    const other = { device: 8, at: "gpu-2" };
    assert.deepEqual(await again(derived, other), ["device:8", "gpu-2"]);
    assert.deepEqual(await again(derived), ["device:7", "gpu-1"]);
    assert.deepEqual(await again(excluded), ["device:7", "gpu-1"], "its job does not forbid any more");
    await sql`update node set labels = '{"zone": "x"}'`;
    assert.deepEqual(await again(given, other), ["tenant:a", "zone=x"]);
    const refused = await call("POST", `/runs/${derived}/retry`, { body: { args: { device: 8, at: "gpu-3" } } });
    assert.equal(refused.status, 422);
    assert.match(JSON.stringify(refused.body), /gpu-3/);
  });
});

Deno.test("acts on many say first how many they mean, and then do that", async () => {
  await withApi(async ({ sql, call }) => {
    const job = await aDefinition(sql, { name: "wipe" });
    const states = ["PENDING", "PENDING", "RUNNING", "FAILED", "FAILED", "FAILED", "SUCCEEDED"];
    for (const state of states) await aRun(sql, { job_definition_id: job.id, state });
    await aRun(sql);
    const filter = { job_name: "wipe" };
    const act = async (verb: string, body: unknown, headers = {}) => {
      const said = await call("POST", `/runs/${verb}`, { as: "operate", body, headers });
      return said.status === 200 ? said.body : said.status;
    };
    const dry_run = true;
    assert.deepEqual(await act("reprioritize", { filter, priority: 9, dry_run }), { dry_run, runs: 2 });
    assert.deepEqual(await act("cancel", { filter, dry_run }), { dry_run, runs: 3 });
    assert.deepEqual(await act("retry", { filter: { ...filter, state: ["FAILED"] }, dry_run }), { dry_run, runs: 3 });
    assert.equal((await sql`select from admin_action_log`).length, 0);

    assert.deepEqual(await act("reprioritize", { filter, priority: 9 }), { dry_run: false, runs: 2 });
    assert.deepEqual(await act("cancel", { filter }), { dry_run: false, runs: 3 });
    assert.deepEqual(await act("cancel", { filter }), { dry_run: false, runs: 0 });
    const failed = { filter: { ...filter, state: ["FAILED"] } };
    assert.deepEqual(await act("retry", failed, { "Idempotency-Key": "k" }), { dry_run: false, runs: 3 });
    assert.deepEqual(await act("retry", failed, { "Idempotency-Key": "k" }), { dry_run: false, runs: 0 });
    assert.equal((await sql`select from job_run where rerun_of is not null`).length, 3);

    assert.deepEqual(await act("cancel", { filter: { state: ["FAILED"] } }), { dry_run: false, runs: 0 });
    for (const wrong of [{}, { filter: {} }, { filter: { job: "wipe" } }, { filter: { state: [] } }, { filter: 7 }]) {
      assert.equal(await act("cancel", wrong), 422, JSON.stringify(wrong));
      assert.equal(await act("retry", wrong), 422);
      assert.equal(await act("reprioritize", { ...wrong, priority: 1 }), 422);
    }
  });
});
