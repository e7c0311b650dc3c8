/** Every change leaves exactly one row in the audit, with who made it and why; and what was refused, or changed nothing, leaves none. */
import assert from "node:assert/strict";
import { setOverrides } from "../../../src/sync/overrides.ts";
import { type ApiScene, withApi } from "../../support/api_scene.ts";
import { aDefinition, aRun, aWorker } from "../../support/factories.ts";
import { aStep } from "../../support/journal.ts";
import { operationsIn } from "../../support/openapi.ts";
import { waitFor } from "../../support/waiting.ts";

interface Change {
  /** As in the document. */
  name: string;
  act(scene: ApiScene): Promise<{ path: string; body?: Record<string, unknown>; query?: string }>;
  action: string;
  target: string;
}

const REASON = "a test";

async function bulkPath({ sql }: ApiScene, columns: Record<string, unknown> = {}): Promise<string> {
  const job = await aDefinition(sql);
  const [bulk] = await sql`insert into bulk ${sql({ job_definition_id: job.id, ...columns })} returning id`;
  return `/bulks/${bulk?.id}`;
}

/** A job with a schedule; `columns` are the schedule's. */
async function nightly({ sql }: ApiScene, columns: Record<string, unknown> = {}): Promise<string> {
  const { id, name } = await aDefinition(sql);
  const schedule = { job_definition_id: id, schedule_id: "night", schedule_type: "daily_at", schedule_value: "02:30" };
  await sql`insert into job_schedule ${sql({ ...schedule, timezone: "Asia/Tokyo", ...columns })}`;
  return name;
}

const CHANGES: Change[] = [
  ...(["pause", "resume", "run"] as const).map((verb): Change => ({
    name: `post /schedules/${verb}`,
    action: `schedule.${verb}`,
    target: "schedule",
    act: async (scene) => ({
      path: `/schedules/${verb}`,
      body: { job_name: await nightly(scene, verb === "resume" ? { paused_at: new Date(), paused_by: "eve" } : {}) },
    }),
  })),
  {
    name: "patch /jobs/{name}/options",
    action: "job.set",
    target: "job",
    act: async ({ sql }) => ({
      path: `/jobs/${(await aDefinition(sql)).name}/options`,
      body: { values: { priority: 7 } },
    }),
  },
  {
    name: "post /jobs/{name}/options/reset",
    action: "job.reset",
    target: "job",
    act: async ({ sql }) => {
      const { name } = await aDefinition(sql);
      await setOverrides(sql, name, { priority: 7 }, { actor: "eve", reason: "x" });
      return { path: `/jobs/${name}/options/reset`, body: {} };
    },
  },
  {
    name: "post /runs",
    action: "run.enqueue",
    target: "run",
    act: async ({ sql }) => ({ path: "/runs", body: { job_name: (await aDefinition(sql)).name } }),
  },
  ...(["cancel", "reprioritize"] as const).map((verb): Change => ({
    name: `post /runs/{id}/${verb}`,
    action: `run.${verb}`,
    target: "run",
    act: async ({ sql }) => ({
      path: `/runs/${(await aRun(sql)).id}/${verb}`,
      body: verb === "cancel" ? {} : { priority: 1 },
    }),
  })),
  {
    name: "post /runs/{id}/close",
    action: "run.close",
    target: "run",
    act: async ({ sql }) => ({ path: `/runs/${(await aRun(sql)).id}/close`, body: {} }),
  },
  {
    name: "post /runs/{id}/messages/{name}",
    action: "run.send",
    target: "run",
    act: async ({ sql }) => {
      const { id } = await aDefinition(sql, { messages: { go: { schema: null, from: "operate" } } });
      return { path: `/runs/${(await aRun(sql, { job_definition_id: id })).id}/messages/go`, body: {} };
    },
  },
  {
    name: "post /runs/{id}/fork",
    action: "run.fork",
    target: "run",
    act: async ({ sql }) => {
      const { id } = await aRun(sql, { state: "FAILED" });
      await aStep(sql, id, { key: "step:a", seq: 1 });
      return { path: `/runs/${id}/fork`, body: {} };
    },
  },
  {
    name: "post /runs/{id}/wake",
    action: "run.wake",
    target: "run",
    act: async ({ sql }) => {
      const { id } = await aRun(sql, { state: "RUNNING" });
      await aStep(sql, id, { key: "sleep:", until: new Date(Date.UTC(2100, 0, 1)) });
      return { path: `/runs/${id}/wake`, body: { step: "sleep:" } };
    },
  },
  {
    name: "post /runs/{id}/retry",
    action: "run.retry",
    target: "run",
    act: async ({ sql }) => ({ path: `/runs/${(await aRun(sql, { state: "FAILED" })).id}/retry`, body: {} }),
  },
  ...(["cancel", "reprioritize", "retry"] as const).map((verb): Change => ({
    name: `post /runs/${verb}`,
    action: `run.${verb}`,
    target: "run",
    act: async ({ sql }) => {
      const { id } = await aRun(sql, { state: verb === "retry" ? "FAILED" : "PENDING" });
      return { path: `/runs/${verb}`, body: { filter: { id }, ...verb === "reprioritize" ? { priority: 1 } : {} } };
    },
  })),
  {
    name: "post /bulks",
    action: "bulk.start",
    target: "bulk",
    act: async ({ sql }) => ({ path: "/bulks", body: { job_name: (await aDefinition(sql)).name, items: [{}] } }),
  },
  {
    name: "patch /bulks/{id}",
    action: "bulk.set",
    target: "bulk",
    act: async (scene) => ({ path: await bulkPath(scene), body: { parallel: 3 } }),
  },
  ...([["pause", "RUNNING"], ["resume", "PAUSED"], ["cancel", "RUNNING"]] as const).map(([verb, state]): Change => ({
    name: `post /bulks/{id}/${verb}`,
    action: `bulk.${verb}`,
    target: "bulk",
    act: async (scene) => ({ path: `${await bulkPath(scene, { state })}/${verb}`, body: {} }),
  })),
  {
    name: "post /bulks/{id}/retry",
    action: "bulk.retry",
    target: "bulk",
    act: async (scene) => {
      const path = await bulkPath(scene);
      const bulk_id = Number(path.split("/")[2]);
      const run = await aRun(scene.sql, { state: "FAILED", bulk_id });
      await scene.sql`insert into bulk_item (bulk_id, seq, job_run_id) values (${bulk_id}, 1, ${run.id})`;
      return { path: `${path}/retry`, body: {} };
    },
  },
  {
    name: "post /events",
    action: "event.emit",
    target: "event",
    act: () => Promise.resolve({ path: "/events", body: { event_type: "a.b" } }),
  },
  ...(["pause", "resume"] as const).map((verb): Change => ({
    name: `post /queue/${verb}`,
    action: `job.${verb}`,
    target: "job",
    act: async ({ sql }) => {
      const paused = verb === "resume" ? { paused_at: new Date(), paused_by: "x" } : {};
      return { path: `/queue/${verb}`, body: { job_name: (await aDefinition(sql, paused)).name } };
    },
  })),
  {
    name: "post /queue/unblock",
    action: "serial_key.free",
    target: "serial_key",
    act: async ({ sql }) => {
      await sql`insert into serial_key_pause (serial_key, stopped_by) values ('k', 'x')`;
      return { path: "/queue/unblock", body: { serial_key: "k" } };
    },
  },
  {
    name: "put /resources/{name}",
    action: "resource.set",
    target: "resource",
    act: () => Promise.resolve({ path: "/resources/license", body: { capacity: 1 } }),
  },
  {
    name: "delete /resources/{name}",
    action: "resource.set",
    target: "resource",
    act: async ({ sql }) => {
      await sql`insert into resource values ('gone', 1)`;
      return { path: "/resources/gone", query: `reason=${REASON}` };
    },
  },
  {
    name: "patch /nodes/{node_id}",
    action: "node.set",
    target: "node",
    act: async ({ sql }) => ({ path: `/nodes/${(await aWorker(sql)).node_id}`, body: { maintenance: false } }),
  },
  {
    name: "delete /nodes/{node_id}",
    action: "node.remove",
    target: "node",
    act: async ({ sql }) => {
      const { node_id } = await aWorker(sql, { state: "DEAD", node_id: "gone" });
      return { path: `/nodes/${node_id}`, query: `reason=${REASON}` };
    },
  },
  ...["node_id", "worker_id"].flatMap((key) =>
    (["drain", "undrain", "detach"] as const).map((verb): Change => {
      const place = key === "node_id" ? "nodes" : "workers";
      return {
        name: `post /${place}/{${key}}/${verb}`,
        action: `worker.${verb}`,
        target: "worker",
        act: async ({ sql }) => {
          const state = verb === "undrain" ? "DRAINING" : "ACTIVE";
          const worker = await aWorker(sql, { node_id: `${place}-${verb}`, state });
          return { path: `/${place}/${worker[key as "node_id"]}/${verb}`, body: {} };
        },
      };
    })
  ),
  {
    name: "patch /settings",
    action: "settings.change",
    target: "setting",
    act: () => Promise.resolve({ path: "/settings", body: { values: { leader_tick_seconds: 0.9 } } }),
  },
  {
    name: "post /hooks",
    action: "hook.add",
    target: "hook",
    act: () => Promise.resolve({ path: "/hooks", body: { name: "added", event_type: "a.b" } }),
  },
  {
    name: "delete /hooks/{name}",
    action: "hook.remove",
    target: "hook",
    act: async ({ sql }) => {
      await sql`insert into webhook (name, event_type, signature, secret, rate_per_minute, created_by) values ('shop', 'x', 'github', 's', 1, 'x')`;
      return { path: "/hooks/shop", query: `reason=${REASON}` };
    },
  },
];

CHANGES.push({
  name: "post /leader/degrade",
  action: "leader.degrade",
  target: "worker",
  act: async ({ sql }) => {
    const { worker_id } = await aWorker(sql);
    await sql`update leader_term set worker_id = ${worker_id}, lease_until = now() + interval '1 minute'`;
    return { path: "/leader/degrade", body: {} };
  },
});

for (const verb of ["disable", "enable", "unlock"]) {
  CHANGES.push({
    name: `post /users/{name}/${verb}`,
    action: `user.${verb}`,
    target: "user",
    act: async ({ sql }) => {
      const name = `${verb}d`;
      const disabled_at = verb === "enable" ? new Date() : null;
      await sql`insert into admin_user ${sql({ name, role: "viewer", password_hash: "x", disabled_at })}`;
      return { path: `/users/${name}/${verb}`, body: {} };
    },
  });
}

/** Waits for a leader: below. A backfill is a bulk, and leaves a row as that too: api_schedules_test. A delivery is no act of a person: its event says where it comes from. */
const ELSEWHERE = ["post /nodes/{node_id}/test", "post /hooks/{name}", "post /schedules/backfill"];

Deno.test("every route that changes something leaves one row, with who and why", async () => {
  await withApi(async (scene) => {
    const changing = operationsIn(scene.document).filter(({ method }) => method !== "get").map(({ name }) => name);
    assert.deepEqual([...CHANGES.map(({ name }) => name), ...ELSEWHERE].sort(), changing.sort());
    for (const { name, action, target, act } of CHANGES) {
      const { path, body, query } = await act(scene);
      const withReason = body && { ...body, reason: REASON };
      const [{ last } = { last: 0 }] = await scene.sql`select coalesce(max(id), 0) as last from admin_action_log`;
      const method = name.split(" ")[0]?.toUpperCase() as string;
      const said = await scene.call(method, query ? `${path}?${query}` : path, { body: withReason });
      assert(said.status < 300, `${name}: ${said.status} ${JSON.stringify(said.body)}`);
      const rows = await scene.sql`select actor, action, target_type, reason from admin_action_log where id > ${last}`;
      assert.deepEqual([...rows], [{ actor: "token:admin", action, target_type: target, reason: REASON }], name);
    }
  });
});

Deno.test("the check of a node is answered when the leader has made it, and is in the audit", async () => {
  await withApi(async ({ sql, call }) => {
    const worker = await aWorker(sql, { node_id: "gpu-1" });
    await sql`update leader_term set worker_id = ${worker.worker_id}, lease_until = now() + interval '1 minute'`;
    const answer = call("POST", "/nodes/gpu-1/test", { as: "operate", body: { reason: REASON } });
    const rows = () => sql`select actor, action, target_id, reason from admin_action_log`;
    await waitFor("the wish", async () => (await rows()).length > 0 || undefined);
    const result = { worker_id: worker.worker_id, problem: "disk: 3 MB free", parts: [] };
    await sql`update node set status = 'unavailable', check_result = ${
      sql.json(result)
    }, next_check_at = now() + interval '1 hour'`;
    const { status, body } = await answer;
    assert.deepEqual([status, body.status, body.problem], [200, "unavailable", "disk: 3 MB free"]);
    assert.deepEqual([...await rows()], [{
      actor: "token:operate",
      action: "node.test",
      target_id: "gpu-1",
      reason: REASON,
    }]);
  });
});
