/** A database with something to see on every page of the admin page, and where those pages are. */
import { PAGES } from "../../src/admin/pages.ts";
import { json, type Sql } from "../../src/postgres/connection.ts";
import { acquire } from "../../src/nodes/leadership.ts";
import { appendLogs } from "../../src/runs/run_logs.ts";
import { aDefinition, aRun, aWorker } from "./factories.ts";
import { stored } from "../../src/locale/message.ts";
import { aStep } from "./journal.ts";

/** Ids of what the pages are about. */
export interface House {
  asks: number;
  run: number;
  waits: number;
  event: number;
  bulk: number;
  schedule: number;
}

/** Each page that can be looked at, with something on it. */
export function pathsOf(ids: House): string[] {
  const PARTS: Record<string, string> = {
    "/runs/:id": `/runs/${ids.run}`,
    "/runs/:id/edit": `/runs/${ids.run}/edit`,
    "/runs/:id/messages/:name": `/runs/${ids.asks}/messages/approval`,
    "/runs/:id/fork": `/runs/${ids.run}/fork`,
    "/runs/:id/wake": `/runs/${ids.asks}/wake?step=message:approval`,
    "/bulks/:id": `/bulks/${ids.bulk}`,
    "/bulks/:id/items": `/bulks/${ids.bulk}/items`,
    "/events/:id": `/events/${ids.event}`,
    "/bulks/:id/what-if": `/bulks/${ids.bulk}/what-if?parallel=3`,
    "/calendar/:id": `/calendar/${ids.schedule}?from=2026-03-01T00:00:00Z&until=2026-03-03T00:00:00Z`,
    "/runs/many": "/runs/many?verb=cancel",
    "/queue/pause": "/queue/pause?do=pause&all=yes",
  };
  const all = PAGES.flatMap(({ routes }) => routes).flatMap((route) => "get" in route ? [route.get] : []);
  const filled = all.map((path) => PARTS[path] ?? path).map((path) =>
    path.replace(/^\/jobs\/:name/, `/jobs/${JOB}`).replace(":schedule", "nightly")
      .replace(/^\/nodes\/:\w+/, `/nodes/${LONG}`).replace(/^\/workers\/:\w+/, `/workers/w-${LONG}`)
  );
  const more = [`/runs/${ids.waits}`, "/settings?edit=workers", "/settings?dispatch=paused", "/account", "/nowhere"];
  return [...filled, ...more];
}

const JOB = "a_job_with_a_name_as_long_as_names_may_be_and_then_some_more";
const APPROVAL = { approved: { type: "boolean" }, comment: { type: "string" } };
const LONG = "gpu-node-1-a100".repeat(6);

/** Something on every page, with names as long as they may be, and runs that wait for several reasons. */
export async function aFullHouse(sql: Sql): Promise<House> {
  const blankless = "noblanks".repeat(30);
  const { id } = await aDefinition(sql, {
    name: JOB,
    type: "time",
    description: blankless,
    args_schema: { type: "object", properties: { [blankless]: { type: "string", title: blankless } } },
    permissions: { read: [blankless], unsafe: { run: [blankless] } },
    messages: { approval: { schema: { type: "object", required: ["approved"], properties: APPROVAL } } },
  });
  const schedule = { schedule_id: "nightly", schedule_type: "daily_at", schedule_value: "02:30" };
  const [kept] = await sql<{ id: number }[]>`
    insert into job_schedule ${sql({ job_definition_id: id, ...schedule, timezone: "Europe/Berlin" })} returning id`;
  const { worker_id } = await aWorker(sql, { node_id: LONG, worker_id: `w-${LONG}`, tls_fingerprint: "ab".repeat(32) });
  await acquire(sql, { worker_id, lease_ms: 600_000, epoch_hint: 0 });
  const parts = [{
    name: "disk",
    ok: false,
    value: stored("nodes.check.free", { mb: 5 }),
    message: stored("nodes.check.least_free", { mb: 100 }),
    ms: 0,
  }];
  await sql`update node set labels = ${json(sql, { [LONG]: LONG })}, status = 'unavailable', checked_at = now(),
              check_result = ${
    json(sql, { worker_id, problem: stored("nodes.problem.part", { part: "disk", found: [] }), parts })
  }`;
  const failed = { job_definition_id: id, state: "FAILED", error_name: blankless, error_summary: blankless };
  const run = await aRun(sql, { ...failed, serial_key: "device:7", args_json: { [blankless]: blankless } });
  await sql`insert into job_run_attempt ${
    sql({ job_run_id: run.id, attempt: 1, outcome: "FAILED", error_summary: blankless, worker_id })
  }`;
  await appendLogs(sql, [{ job_run_id: run.id, attempt: 1, level: "info", message: blankless, fields: null }]);
  await aRun(sql, { job_definition_id: id, state: "RUNNING", serial_key: "device:7", assigned_worker_id: worker_id });
  const waits = await aRun(sql, { job_definition_id: id, state: "PENDING", serial_key: "device:7", held: true });
  await aRun(sql, { job_definition_id: id, state: "PENDING", due_at: new Date(Date.UTC(2090, 0, 1)) });
  const reason = json(sql, { code: "no_slot", params: { where: null } });
  await sql`insert into queue_block_reason ${sql({ job_definition_id: id, node: "", reason })}`;
  const asks = await anAsker(sql, id, blankless);
  const alerts = [
    ["run.failed", JOB, stored("alerts.message.failed", { job_run_id: run.id }), { job_run_id: run.id }],
    ["run.overdue", JOB, stored("alerts.message.overdue", { due_at: "2026-01-01T00:00:00Z" }), {
      due_at: "2026-01-01T00:00:00Z",
    }],
    ["node.away", LONG, stored("alerts.message.no_worker"), {}],
    ["clock.skewed", LONG, stored("alerts.message.clock", { ms: 5000 }), { clock_skew_ms: 5000 }],
    ["certificate.expiring", LONG, stored("alerts.message.certificate", { not_after: "2026-12-01T00:00:00Z" }), {
      not_after: "2026-12-01T00:00:00Z",
    }],
  ] as const;
  for (const [kind, subject, said, detail] of alerts) {
    await sql`insert into alert (kind, subject, message, detail, opened_by)
              values (${kind}, ${subject}, ${said}, ${json(sql, detail)}, 'leader')`;
  }
  await sql`insert into serial_key_pause (serial_key, stopped_by) values (${LONG}, 'user:taro')`;
  const [event] = await sql<{ id: number }[]>`select emit_event(${LONG}, '{}') as id`;
  const [bulk] = await sql<{ id: number }[]>`
    insert into bulk (job_definition_id, name, state, changed_by, parallel)
    values (${id}, ${LONG}, 'PAUSED', 'user:taro', 3) returning id`;
  await sql`insert into bulk_item (bulk_id, seq, args_json) values (${bulk?.id as number}, 1, ${
    json(sql, { [LONG]: LONG })
  })`;
  return {
    run: run.id,
    asks: asks.id,
    waits: waits.id,
    event: event?.id as number,
    bulk: bulk?.id as number,
    schedule: kept?.id as number,
  };
}

/** It has asked for message "approval". */
async function anAsker(sql: Sql, job_definition_id: number, blankless: string): Promise<{ id: number }> {
  const run = await aRun(sql, { job_definition_id, state: "SUSPENDED", started_at: new Date() });
  const prompt = { ask: blankless, show: { [blankless]: blankless }, who: ["role:operator", LONG] };
  await aStep(sql, run.id, { key: "message:approval", waits_for: "approval", prompt });
  return run;
}
