/** Bulks and events over HTTP. */
import assert from "node:assert/strict";
import { type ApiScene, withApi } from "../../support/api_scene.ts";
import { aDefinition, aRun } from "../../support/factories.ts";

const DEVICE = { type: "object", properties: { device: { type: "integer" } }, required: ["device"] };

async function aBulk({ sql, call }: ApiScene): Promise<number> {
  const [found] = await sql`select 1 from job_definition where name = 'wipe'`;
  if (!found) await aDefinition(sql, { name: "wipe", args_schema: DEVICE });
  const made = await call("POST", "/bulks", {
    as: "operate",
    body: { job_name: "wipe", items: [{ device: 1 }] },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body.id as number;
}

Deno.test("a bulk is made once for each key, with all of its items, and is then what was asked for", async () => {
  await withApi(async (scene) => {
    const { sql, call } = scene;
    await aDefinition(sql, { name: "report" });
    await aBulk(scene);
    const body = {
      job_name: "wipe",
      items: Array.from({ length: 300 }, (_, device) => ({ device })),
      name: "all of them",
      parallel: 4,
      interval_seconds: 1.5,
      priority: "user.low",
      max_failures: 5,
      throttle_above: 0.5,
      serial_key: "acme",
      on_finish: "report",
      on_failure: "report",
    };
    const headers = { "Idempotency-Key": "k" };
    const made = await call("POST", "/bulks", { body, headers });
    assert.deepEqual([made.status, made.body.is_new, made.body.items], [201, true, 300]);
    const again = await call("POST", "/bulks", { body, headers });
    assert.deepEqual([again.status, again.body], [200, { id: made.body.id, is_new: false, items: 0 }]);
    const { body: shown } = await call("GET", `/bulks/${made.body.id}`, { as: "read" });
    const expected = { ...body, items: 300, priority: shown.priority, state: "RUNNING", created_by: "token:admin" };
    for (const [field, value] of Object.entries(expected)) assert.deepEqual(shown[field], value, field);
    const open = await call("GET", "/bulks?open=true&limit=1");
    assert.deepEqual([open.body.items?.length, open.body.next], [1, String(made.body.id)]);
    const rest = await call("GET", `/bulks?limit=1&after=${open.body.next}`);
    assert.deepEqual([rest.body.items?.length, rest.body.next], [1, null]);
  });
});

Deno.test("a bulk that cannot be is refused whole, and says which item is wrong", async () => {
  await withApi(async ({ sql, call }) => {
    await aDefinition(sql, { name: "wipe", args_schema: DEVICE });
    const items = [{ device: 1 }, { device: "2" }];
    const wrong = await call("POST", "/bulks", { body: { job_name: "wipe", items } });
    assert.equal(wrong.status, 422);
    assert.match(String(wrong.body.detail), /items\.1 do not fit: device/);
    const bodies: [Record<string, unknown>, number][] = [
      [{ items: [] }, 422],
      [{ items: { sql: "select 1 as args" } }, 422],
      [{ sql: "select 1 as args" }, 422],
      [{ parallel: 0 }, 422],
      [{ throttle_above: 1 }, 422],
      [{ interval_seconds: -1 }, 422],
      [{ on_finish: "wipe" }, 422],
      [{ on_finish: "nothing" }, 404],
      [{ job_name: "nothing" }, 404],
    ];
    for (const [body, status] of bodies) {
      const said = await call("POST", "/bulks", { body: { job_name: "wipe", items: [{ device: 1 }], ...body } });
      assert.equal(said.status, status, JSON.stringify(body));
    }
    assert.equal((await sql`select from bulk`).length, 0);
  });
});

Deno.test("a bulk is changed, paused, resumed and canceled while it runs, and not afterwards", async () => {
  await withApi(async (scene) => {
    const { call } = scene;
    const id = await aBulk(scene);
    const changed = await call("PATCH", `/bulks/${id}`, {
      as: "operate",
      body: { parallel: 20, priority: 5, max_failures: 3, throttle_above: 0.2 },
    });
    const { parallel, priority, max_failures, throttle_above } = changed.body;
    assert.deepEqual([parallel, priority, max_failures, throttle_above], [20, 5, 3, 0.2]);
    assert.equal((await call("PATCH", `/bulks/${id}`, { body: { max_failures: null } })).body.max_failures, null);
    const states = [["pause", "PAUSED"], ["resume", "RUNNING"], ["pause", "PAUSED"], ["cancel", "CANCELED"]] as const;
    for (const [verb, state] of states) {
      const said = await call("POST", `/bulks/${id}/${verb}`, { as: "operate", body: { reason: "a test" } });
      assert.deepEqual([said.status, said.body.state, said.body.reason], [200, state, "a test"]);
    }
    for (const [verb, status] of [["pause", 409], ["resume", 409], ["cancel", 200]] as const) {
      assert.equal((await call("POST", `/bulks/${id}/${verb}`)).status, status, verb);
    }
    assert.equal((await call("PATCH", `/bulks/${id}`, { body: { parallel: 1 } })).status, 409);
    for (const body of [{}, { reason: "x" }, { parallel: 1.5 }, { state: "PAUSED" }]) {
      assert.equal((await call("PATCH", `/bulks/${id}`, { body })).status, 422);
    }
    for (
      const [method, path, body] of [
        ["PATCH", "/bulks/99", { parallel: 1 }],
        ["POST", "/bulks/99/pause", {}],
        ["POST", "/bulks/99/resume", {}],
        ["POST", "/bulks/99/cancel", {}],
        ["POST", "/bulks/99/retry", undefined],
        ["GET", "/bulks/99", undefined],
        ["GET", "/bulks/99/whatif?parallel=2", undefined],
      ] as const
    ) assert.equal((await call(method, path, { body })).status, 404, path);
  });
});

Deno.test("what failed of a bulk is repeated once, and what would be with another parallel can be asked", async () => {
  await withApi(async (scene) => {
    const { sql, call } = scene;
    const id = await aBulk(scene);
    assert.equal((await call("POST", `/bulks/${id}/retry`)).status, 409);
    const what = await call("GET", `/bulks/${id}/whatif?parallel=20`, { as: "read" });
    assert.deepEqual(what.body.at, { parallel: 20, at_once: 20, done_from: null, done_to: null });
    assert.equal((await call("GET", `/bulks/${id}/whatif`)).status, 422);
    const [job] = await sql`select id from job_definition where name = 'wipe'`;
    const run = await aRun(sql, { job_definition_id: job?.id, bulk_id: id, state: "FAILED" });
    await sql`update bulk_item set job_run_id = ${run.id}`;
    const retried = await call("POST", `/bulks/${id}/retry`, { as: "operate" });
    assert.deepEqual([retried.status, retried.body.retry_of, retried.body.items], [201, id, 1]);
    assert.equal((await call("POST", `/bulks/${id}/retry`)).status, 409);
    await sql`update bulk set state = 'FINISHED', finished_at = now() where id = ${id}`;
    assert.equal((await call("GET", `/bulks/${id}/whatif?parallel=2`)).status, 409);
  });
});

Deno.test("events are emitted once for each dedupe key, and show the runs that they started", async () => {
  await withApi(async ({ sql, call }) => {
    const body = { event_type: "order.placed", payload: { order: 7 }, dedupe_key: "order-7" };
    const first = await call("POST", "/events", { as: "emit", body });
    assert.deepEqual([first.status, first.body.is_new], [201, true]);
    const again = await call("POST", "/events", { as: "emit", body });
    assert.deepEqual([again.status, again.body], [200, { id: first.body.id, is_new: false }]);
    const taken = await call("POST", "/events", { body: { ...body, event_type: "order.shipped" } });
    assert.equal(taken.status, 409, "the key of an event of another type");
    const other = await call("POST", "/events", { body: { event_type: "other" } });
    const job = await aDefinition(sql, { name: "bill" });
    const key = `event:${first.body.id}:${job.id}`;
    const run = await aRun(sql, { job_definition_id: job.id, idempotency_key: key, event_id: first.body.id });
    const { body: shown } = await call("GET", `/events/${first.body.id}`, { as: "read" });
    const outcome = { job_name: "bill", outcome: "run", job_run_id: run.id, state: "PENDING" };
    assert.deepEqual([shown.payload, shown.outcomes], [{ order: 7 }, [outcome]]);
    const { body: page } = await call("GET", "/events?limit=1");
    assert.deepEqual([page.items?.[0]?.id, page.next], [other.body.id, String(other.body.id)]);
    const { body: typed } = await call("GET", "/events?event_type=order.placed");
    assert.deepEqual(typed.items?.map((event) => event.id), [first.body.id]);
    assert.equal((await call("GET", "/events/99")).status, 404);
    for (
      const wrong of [{}, { event_type: "" }, { event_type: "a", payload: "\u0000" }, {
        event_type: "a",
        dedupe_key: "",
      }]
    ) {
      assert.equal((await call("POST", "/events", { body: wrong })).status, 422, JSON.stringify(wrong));
    }
  });
});
