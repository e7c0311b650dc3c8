/** Queue, nodes, settings, jobs, schedules and audit over HTTP. */
import assert from "node:assert/strict";
import { withApi } from "../../support/api_scene.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";

Deno.test("the queue says what waits and why; everything, a job and a serial key are paused and let go", async () => {
  await withApi(async ({ sql, call }) => {
    const job = await aDefinition(sql, { name: "wipe" });
    await aRun(sql, { job_definition_id: job.id, serial_key: "device:7" });
    for (const what of [{ all: true }, { job_name: "wipe" }, { serial_key: "device:7" }]) {
      for (
        const [verb, changed] of [["pause", true], ["pause", false], ["resume", true], ["resume", false], [
          "pause",
          true,
        ]] as const
      ) {
        const said = await call("POST", `/queue/${verb}`, { as: "operate", body: { ...what, reason: "a test" } });
        assert.deepEqual([said.status, said.body], [200, { changed }], `${verb} ${JSON.stringify(what)}`);
      }
    }
    const { body: queue } = await call("GET", "/queue", { as: "read" });
    assert.equal(queue.dispatch, "paused");
    assert.deepEqual((queue.jobs as { paused_by: string }[])[0]?.paused_by, "token:operate");
    assert.equal((queue.stopped_serial_keys as { serial_key: string }[])[0]?.serial_key, "device:7");
    const { body: wipe } = await call("GET", "/jobs/wipe");
    assert.deepEqual([wipe.paused_by, wipe.paused_reason], ["token:operate", "a test"]);
    const unblock = () => call("POST", "/queue/unblock", { body: { serial_key: "device:7" } });
    assert.deepEqual([(await unblock()).body, (await unblock()).body], [{ changed: true }, { changed: false }]);
    for (const verb of ["pause", "resume"]) {
      const unclear = [{}, { all: false }, { job_name: "wipe", serial_key: "k" }, { job_name: "wipe", all: true }];
      for (const body of unclear) {
        assert.equal((await call("POST", `/queue/${verb}`, { body })).status, 422, JSON.stringify(body));
      }
      assert.equal((await call("POST", `/queue/${verb}`, { body: { job_name: "nothing" } })).status, 404);
    }
    assert.equal((await call("POST", "/queue/unblock", { body: {} })).status, 422);
  });
});

Deno.test("resources are set and taken away", async () => {
  await withApi(async ({ call }) => {
    const put = (capacity: unknown) => call("PUT", "/resources/license", { as: "operate", body: { capacity } });
    assert.deepEqual([(await put(5)).body, (await put(5)).body, (await put(6)).body.changed], [{ changed: true }, {
      changed: false,
    }, true]);
    assert.deepEqual((await call("GET", "/resources")).body.items, [{ name: "license", capacity: 6, taken: 0 }]);
    const { body: acts } = await call("GET", "/audit?action=resource.set");
    assert.deepEqual(acts.items?.map((act) => [act.before, act.after]), [[5, 6], [null, 5]]);
    for (const wrong of [-1, 1.5, "5", null]) assert.equal((await put(wrong)).status, 422);
    assert.equal((await call("DELETE", "/resources/license?reason=gone", { as: "operate" })).status, 204);
    assert.equal((await call("DELETE", "/resources/license")).status, 404);
    assert.equal((await call("DELETE", "/resources/license?why=gone")).status, 422);
  });
});

Deno.test("a node is removed when all its workers are dead", async () => {
  await withApi(async ({ sql, call }) => {
    await aWorker(sql, { node_id: "gpu-1", worker_id: "w1" });
    const refused = await call("DELETE", "/nodes/gpu-1", { as: "operate" });
    assert.equal(refused.status, 409);
    assert.match(String(refused.body.detail), /its worker w1 is not DEAD/);
    await sql`update worker set state = 'DEAD'`;
    assert.equal((await call("DELETE", "/nodes/gpu-1?reason=sold", { as: "operate" })).status, 204);
    assert.equal((await call("DELETE", "/nodes/gpu-1")).status, 404);
    assert.deepEqual((await call("GET", "/nodes")).body.items, []);
    const { body: acts } = await call("GET", "/audit?action=node.remove");
    assert.deepEqual(acts.items?.map((act) => [act.actor, act.target_id, act.reason]), [[
      "token:operate",
      "gpu-1",
      "sold",
    ]]);
  });
});

Deno.test("a node is changed, its workers drained and detached; who leads is told", async () => {
  await withApi(async ({ sql, call }) => {
    assert.deepEqual((await call("GET", "/leader", { as: "read" })).body, {
      epoch: 0,
      worker_id: null,
      node_id: null,
      acquired_at: null,
    });
    const worker = await aWorker(sql, { node_id: "gpu-1" });
    const change = { max_concurrent: 3, labels: { gpu: "a100", zone: "tokyo" }, maintenance: true, reason: "fan" };
    const { body: node } = await call("PATCH", "/nodes/gpu-1", { as: "operate", body: change });
    assert.deepEqual([node.max_concurrent, node.labels, node.is_active], [3, { gpu: "a100", zone: "tokyo" }, false]);
    assert.deepEqual([node.inactive_by, node.inactive_reason], ["token:operate", "fan"]);
    const less = await call("PATCH", "/nodes/gpu-1", { body: { max_concurrent: null, labels: { zone: "" } } });
    assert.deepEqual([less.body.max_concurrent, less.body.labels], [null, { gpu: "a100" }]);
    assert.equal((await call("POST", "/nodes/gpu-1/test")).status, 409); // nobody leads
    await sql`update leader_term set worker_id = ${worker.worker_id}, epoch = 1, lease_until = now() + interval '1 minute'`;
    for (
      const wrong of [{}, { labels: { "a b": "c" } }, { labels: { a: "b,c" } }, { max_concurrent: -1 }, {
        status: "busy",
      }]
    ) {
      assert.equal((await call("PATCH", "/nodes/gpu-1", { body: wrong })).status, 422, JSON.stringify(wrong));
    }
    const moved = { items: [{ worker_id: worker.worker_id, node_id: "gpu-1" }] };
    const at = [`/workers/${worker.worker_id}`, "/nodes/gpu-1"];
    for (const path of at) {
      for (const [verb, status] of [["drain", 200], ["drain", 409], ["undrain", 200], ["undrain", 409]] as const) {
        const said = await call("POST", `${path}/${verb}`, { as: "operate" });
        assert.equal(said.status, status, `${path} ${verb}`);
        if (status === 200) assert.deepEqual(said.body, moved);
      }
    }
    const detached = await call("POST", "/nodes/gpu-1/detach", { as: "operate", body: { reason: "fan" } });
    assert.deepEqual(detached.body, { ...moved, told: false });
    assert.match(
      String((await call("POST", `${at[0]}/detach`)).body.detail),
      /DETACHED already, by token:operate: fan/,
    );
    const listed = (await call("GET", "/workers", { as: "read" })).body.items?.[0];
    assert.deepEqual([listed?.state, listed?.detach_reason], ["DETACHED", "fan"]);
    assert.equal((await call("GET", "/nodes")).body.items?.length, 1);
    assert.equal((await call("GET", "/nodes/gpu-1")).status, 200);
    for (const path of ["/nodes/x", "/workers/x"]) {
      for (const verb of ["drain", "undrain", "detach"]) {
        assert.equal((await call("POST", `${path}/${verb}`)).status, 404, `${path} ${verb}`);
      }
    }
    assert.equal((await call("GET", "/nodes/x")).status, 404);
    assert.equal((await call("PATCH", "/nodes/x", { body: { maintenance: true } })).status, 404);
    assert.equal((await call("POST", "/nodes/x/test")).status, 404);
  });
});

Deno.test("settings say their bounds and are changed within them, all or none", async () => {
  await withApi(async ({ call }) => {
    const named = async (name: string) =>
      (await call("GET", "/settings", { as: "read" })).body.items?.find((one) => one.name === name);
    const before = await named("leader_tick_seconds");
    assert.deepEqual([before?.value, before?.default, before?.least, before?.updated_by], [1, 1, 0.05, null]);
    const patch = (values: unknown) => call("PATCH", "/settings", { body: { values, reason: "slow disk" } });
    const said = await patch({ leader_tick_seconds: 0.5, leader_runs_jobs: "never" });
    assert.equal(said.status, 200);
    const after = await named("leader_tick_seconds");
    assert.deepEqual([after?.value, after?.updated_by], [0.5, "token:admin"]);
    assert.deepEqual((await named("leader_runs_jobs"))?.choices, ["never", "alone", "always"]);
    const wrong: [unknown, RegExp][] = [
      [{ leader_tick_seconds: 0.01 }, /leader_tick_seconds/],
      [{ leader_tick_seconds: "1" }, /leader_tick_seconds/],
      [{ leader_lease_seconds: 0.5 }, /must be at least 2 x leader_tick_seconds/],
      [{ leader_runs_jobs: "often" }, /leader_runs_jobs/],
      [{ nothing: 1 }, /nothing/],
      [{}, /at least one/],
    ];
    for (const [values, text] of wrong) {
      const refused = await patch(values);
      assert.equal(refused.status, 422, JSON.stringify(values));
      assert.match(String(refused.body.detail), text);
    }
    assert.equal((await named("leader_tick_seconds"))?.value, 0.5);
    assert.equal((await call("PATCH", "/settings", { as: "operate", body: { values: {} } })).status, 403);
  });
});

Deno.test("jobs come by name, and their schedules with the next fires", async () => {
  await withApi(async ({ sql, call }) => {
    const job = await aDefinition(sql, { name: "nightly", args_schema: { type: "object" } });
    await aDefinition(sql, { name: "gone", enabled: false, removed_at: new Date() });
    await aDefinition(sql, { name: "b" });
    await sql`insert into job_schedule (job_definition_id, schedule_id, schedule_type, schedule_value, timezone)
              values (${job.id}, 'night', 'daily_at', '02:30', 'Europe/Berlin')`;
    const { body: first } = await call("GET", "/jobs?limit=1", { as: "read" });
    assert.deepEqual([first.items?.[0]?.name, first.next], ["b", "b"]);
    const { body: rest } = await call("GET", "/jobs?after=b");
    assert.deepEqual([rest.items?.map((one) => one.name), rest.next], [["nightly"], null]);
    assert.equal((await call("GET", "/jobs?removed=true")).body.items?.length, 3);
    const from = "from=2027-03-27T12:00:00Z&count=2";
    const { body: preview } = await call("GET", `/jobs/nightly/preview?${from}`);
    const [shown] = preview.items ?? [];
    assert.deepEqual([shown?.schedule_id, shown?.slots], ["night", ["2027-03-28T01:30:00Z", "2027-03-29T00:30:00Z"]]);
    assert.match(String(shown?.warnings), /02:30/); // does not exist that night
    const { body: given } = await call("GET", `/schedules/preview?cron=0+9+*+*+1-5&timezone=Asia/Tokyo&${from}`);
    assert.deepEqual(given.items?.[0]?.slots, ["2027-03-29T00:00:00Z", "2027-03-30T00:00:00Z"]);
    const { body: monthly } = await call("GET", `/schedules/preview?monthly_on=last+02:30&${from}`);
    assert.deepEqual(monthly.items?.[0]?.slots, ["2027-03-31T02:30:00Z", "2027-04-30T02:30:00Z"]);
    const wrong = [
      "/schedules/preview",
      "/schedules/preview?monthly_on=32+02:30",
      "/schedules/preview?cron=nonsense",
      "/schedules/preview?daily_at=25:00",
      "/schedules/preview?every_n_minutes=5&cron=*+*+*+*+*",
      "/schedules/preview?daily_at=02:30&timezone=Europe/Berlim",
      "/schedules/preview?every_n_minutes=0",
      "/schedules/preview?hourly_at_minute=5&count=1001",
      "/jobs/nightly/preview?from=now",
      "/jobs/No+Job",
      "/jobs?limit=x",
    ];
    for (const path of wrong) assert.equal((await call("GET", path)).status, 422, path);
    for (const path of ["/jobs/nothing", "/jobs/nothing/preview"]) {
      assert.equal((await call("GET", path)).status, 404, path);
    }
  });
});

Deno.test("the audit comes in pages, by any filter", async () => {
  await withApi(async ({ call }) => {
    for (const capacity of [1, 2, 3]) {
      await call("PUT", "/resources/license", { body: { capacity, reason: `n ${capacity}` } });
    }
    await call("POST", "/queue/pause", { as: "operate", body: { all: true } });
    const { body: page } = await call("GET", "/audit?limit=2", { as: "read" });
    assert.deepEqual(page.items?.map((act) => [act.actor, act.action, act.reason]), [
      ["token:operate", "settings.change", "through the API"],
      ["token:admin", "resource.set", "n 3"],
    ]);
    assert.equal((await call("GET", `/audit?after=${page.next}`)).body.items?.length, 2);
    const filters: [string, number][] = [
      ["actor=token:operate", 1],
      ["action=resource", 3],
      ["action=resource.set", 3],
      ["action=res", 0],
      ["target_type=resource&target_id=license", 3],
      ["since=2090-01-01T00:00:00Z", 0],
      ["until=2090-01-01T00:00:00Z", 4],
    ];
    for (const [filter, acts] of filters) {
      assert.equal((await call("GET", `/audit?${filter}`)).body.items?.length, acts, filter);
    }
    assert.equal((await call("GET", "/audit?user=x")).status, 422);
  });
});
