/** What the command line tells of acts, events, the args of a job, and a bulk. */
import assert from "node:assert/strict";
import { cliWith } from "../../support/cli.ts";
import { numbered, withBulks } from "../../support/bulk_scene.ts";
import { aDefinition, aRun } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

/** The cells of a printed table, without its head. */
function cellsOf(out: string): string[][] {
  return out.trimEnd().split("\n").slice(1).map((line) => line.split(/ {2,}/));
}

Deno.test("audit lists who did what to what, by each of its filters, and refuses a misspelled act", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    assert.equal((await cli("audit")).out, "the audit log is empty\n");
    await aDefinition(sql, { name: "export" });
    const { id } = JSON.parse((await cli("run", "export", "--at", "1h", "--json")).out);
    await cli("runs", "cancel", `${id}`, "--reason", "wrong day");
    await cli("settings", "set", "max_jobs_per_worker=20", "--reason", "new machines");
    await sql`
      insert into admin_action_log (at, actor, action, target_type, target_id)
      values (clock_timestamp() - interval '2 days', 'user:eve', 'job.pause', 'job', 'export')`;
    const rows = cellsOf((await cli("audit", "--utc")).out);
    const me = rows[0]?.[2];
    assert.match(me ?? "", /^cli:./);
    assert.deepEqual(rows.map(([, , ...rest]) => rest), [
      [me, "settings.change", "setting max_jobs_per_worker", "10 -> 20", "new machines"],
      [me, "run.cancel", `run ${id}`, rows[1]?.[5], "wrong day"],
      [me, "run.enqueue", `run ${id}`, "job_name export", "from the command line"],
      ["user:eve", "job.pause", "job export", "-", "-"],
    ]);
    const actions = async (...args: string[]) => {
      const { code, out, err } = await cli("audit", ...args, "--json");
      assert.equal(code, 0, out + err);
      return JSON.parse(out).map((act: { action: string }) => act.action);
    };
    assert.deepEqual(await actions("--actor", "user:eve"), ["job.pause"]);
    assert.deepEqual(await actions("--action", "run"), ["run.cancel", "run.enqueue"]);
    assert.deepEqual(await actions("--action", "run.enqueue"), ["run.enqueue"]);
    assert.deepEqual(await actions("--target", "job"), ["job.pause"]);
    assert.deepEqual(await actions("--target", `run ${id}`, "--limit", "1"), ["run.cancel"]);
    assert.deepEqual(await actions("--target", "run 999999"), []);
    assert.deepEqual(await actions("--until", "1d"), ["job.pause"]);
    assert.deepEqual((await actions("--since", "1d")).length, 3);
    const like = await cli("audit", "--action", "run.cancle");
    assert.deepEqual(
      [like.code, /the audit log has none; did you mean "run.cancel"\?/.test(like.err)],
      [1, true],
      like.err,
    );
    assert.equal((await cli("audit", "--target", " ")).code, 2);
  }));

Deno.test("events show tells the whole payload, and each run that came of an event with its state", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    const note = "x".repeat(500);
    const payload = JSON.stringify({ device: 7, note });
    const { id } = JSON.parse((await cli("emit", "device.added", "--payload", payload, "--json")).out);
    assert.match((await cli("events", "show", `${id}`)).out, /outcome +not processed by the leader yet/);
    const { id: job_definition_id } = await aDefinition(sql, { name: "install" });
    const run = await aRun(sql, { job_definition_id, source: "event", event_id: id, state: "SUCCEEDED" });
    await sql`update event set processed_at = created_at`;
    const { out } = await cli("events", "show", `${id}`, "--utc");
    assert.match(out, new RegExp(`^event +${id} device\\.added$`, "m"));
    assert(out.includes(note), "nothing of its payload is left out");
    assert.deepEqual(out.trimEnd().split("\n").at(-1)?.split(/ {2,}/), ["install", "run", `${run.id}`, "SUCCEEDED"]);
    const json = JSON.parse((await cli("events", "show", `${id}`, "--json")).out);
    assert.deepEqual([json.payload.note, json.outcomes[0].job_run_id], [note, run.id]);
    assert(!(await cli("events", "ls")).out.includes(note), "a list stays one");
    assert.equal((await cli("events", "show", "999999")).code, 1);
  }));

const SCHEMA = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 20, description: "whom to greet" },
    times: { type: "integer", minimum: 1, maximum: 10, default: 1 },
    tone: { enum: ["soft", "loud"] },
    to: {
      type: "array",
      items: { type: "object", properties: { mail: { type: "string", format: "email" } }, required: ["mail"] },
    },
    note: { anyOf: [{ type: "string" }, { type: "null" }] },
    free: {},
  },
  required: ["name"],
};

Deno.test("jobs show has the args of a job, as a table and as the schema", () =>
  withStores(async ({ sql, database_url }) => {
    const cli = cliWith({ DATABASE_URL: database_url });
    await aDefinition(sql, { name: "hello", args_schema: SCHEMA });
    await aDefinition(sql, { name: "any" });
    await aDefinition(sql, { name: "none", args_schema: { type: "object", properties: {} } });
    const { out } = await cli("jobs", "show", "hello");
    const rows = cellsOf(/^arg .*\n(?:.+\n)*/m.exec(out)?.[0] ?? "");
    assert.deepEqual(rows.toSorted(), [
      ["free", "JSON; see --json for its schema", "-", "-"],
      ["name", "text, 1 to 20 characters", "refused", "whom to greet"],
      ["note", "text, or null", "-", "-"],
      ["times", "whole number, 1 to 10", "1", "-"],
      ["to", "list of object", "-", "-"],
      ["to[].mail", "email", "refused", "-"],
      ["tone", '"soft" | "loud"', "-", "-"],
    ]);
    assert.deepEqual(JSON.parse((await cli("jobs", "show", "hello", "--json")).out).args_schema, SCHEMA);
    assert.match((await cli("jobs", "show", "any")).out, /^args: any JSON/m);
    assert.match((await cli("jobs", "show", "none")).out, /^args: none$/m);
  }));

Deno.test("bulk show counts each item once, and names what failed with runs to look at", () =>
  withBulks(async (scene) => {
    const { sql, database_url } = scene;
    const cli = cliWith({ DATABASE_URL: database_url });
    const { id } = await scene.client.bulk("each", numbered(30), { parallel: 8 });
    await scene.round();
    const began = await scene.running(id);
    await scene.end(id, 3);
    await scene.end(id, 3, "FAILED");
    await scene.end(id, 1, "FAILED", 5);
    await sql`update job_run set error_name = 'ConnectError', error_summary = 'ConnectError: refused' where bulk_id = ${id} and state = 'FAILED'`;
    const lost = began[5];
    await sql`update job_run set error_name = 'TimedOut', error_summary = 'Timed out after 1 s', state = 'TIMED_OUT' where id = ${
      lost ?? 0
    }`;
    const shown = (await cli("bulk", "show", String(id), "--utc")).out;
    const parts = /^items +(\d+): (.*)$/m.exec(shown);
    const counts = [...(parts?.[2] ?? "").matchAll(/(\d+) ([a-z ]+)/g)].map(([, count, what]) =>
      [what, Number(count)] as const
    );
    assert.equal(Number(parts?.[1]), 30);
    assert.deepEqual(Object.fromEntries(counts), {
      succeeded: 3,
      failed: 3,
      running: 1,
      "waiting for a retry": 1,
      "not started yet": 22,
    });
    assert.equal(counts.reduce((sum, [, count]) => sum + count, 0), 30);
    assert.deepEqual(cellsOf(shown.slice(shown.indexOf("error "))), [
      ["ConnectError", "2", `run ${began[4]} of item 5, run ${began[3]} of item 4`, "ConnectError: refused"],
      ["TimedOut", "1", `run ${lost} of item 6`, "Timed out after 1 s"],
    ]);
    await cli("bulk", "cancel", String(id));
    await scene.round();
    await sql`update job_run set cancel_requested_at = null where bulk_id = ${id} and state = 'RUNNING'`;
    await scene.end(id, (await scene.running(id)).length);
    await scene.round();
    const ended = JSON.parse((await cli("bulk", "show", String(id), "--json")).out);
    const states = [
      ended.succeeded,
      ended.failed,
      ended.canceled,
      ended.running,
      ended.waiting,
      ended.retrying,
      ended.unfed,
    ];
    assert.equal(states.reduce((sum, count) => sum + count, 0), ended.items, JSON.stringify(ended));
    assert.deepEqual(ended.failures.map((kind: { error_name: string }) => kind.error_name), [
      "ConnectError",
      "TimedOut",
    ]);
  }));
