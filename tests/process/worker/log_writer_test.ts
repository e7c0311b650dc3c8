/** What bodies say, on its way to a real Postgres that takes its time. */
import assert from "node:assert/strict";
import { LogWriter } from "../../../src/worker/log_writer.ts";
import type { LogLine } from "../../../src/sandbox/process_pool.ts";
import type { StartedRun } from "../../../src/runs/started_runs.ts";
import { aRun } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

Deno.test("of what a run reports while Postgres does not answer the newest alone is kept", () =>
  withStores(async ({ sql }) => {
    const run = { ...await aRun(sql, { state: "RUNNING" }), start_token: "mine" };
    await sql`update job_run set start_token = 'mine' where id = ${run.id}`;
    let statements = 0;
    const counting = new Proxy(sql, {
      apply(sql, _this, args) {
        if (String(args[0]).includes("set progress")) statements++;
        return Reflect.apply(sql, undefined, args);
      },
    });
    const log_writer = new LogWriter(counting);
    const started = { job_run_id: run.id, attempt: 1, start_token: "mine" } as StartedRun;
    await sql.begin(async (tx) => {
      await tx`select 1 from job_run for update`; // as long as this is open the first report is on its way
      log_writer.progress(started, 0, "first");
      await waitFor("the first report to be on its way", () => Promise.resolve(statements === 1 || undefined));
      for (let nth = 1; nth <= 2_000; nth++) log_writer.progress(started, nth / 2_000, `report ${nth}`);
    });
    const last = await waitFor("the last report", async () => {
      const [row] = await sql`select progress_message from job_run where id = ${run.id} and progress = 1`;
      return row;
    });
    assert.deepEqual([last.progress_message, statements], ["report 2000", 2]);
  }));

Deno.test("lines of a log that take Postgres too long together are stored some at a time", () =>
  withStores(async ({ sql }) => {
    const { id: job_run_id } = await aRun(sql, { state: "RUNNING" });
    await sql.unsafe(NO_MORE_LINES);
    const line: LogLine = { level: "stdout", message: "" };
    new LogWriter(sql).log({ job_run_id, attempt: 1, start_token: "mine" } as StartedRun, Array(12_000).fill(line));
    await waitFor("all lines", async () => {
      const [{ stored } = { stored: 0 }] = await sql<{ stored: number }[]>`
        select count(*)::int as stored from job_run_log where job_run_id = ${job_run_id}`;
      return stored === 12_000 || undefined;
    });
  }));

/** As if more than 5,000 took longer than a statement may. */
const NO_MORE_LINES = `
  create function too_many() returns trigger language plpgsql as $$
  begin
    if (select count(*) from added) > 5000 then
      raise exception 'canceling statement due to statement timeout' using errcode = '57014';
    end if;
    return null;
  end $$;
  create trigger too_many after insert on job_run_log referencing new table as added for each statement execute function too_many();`;
