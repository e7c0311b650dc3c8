/** A real leader keeps what is to be kept and no more, beside its work; a setting that was changed holds within seconds. */
import assert from "node:assert/strict";
import { changeSettings } from "../../../src/settings/settings.ts";
import { withProcesses } from "../../support/cluster.ts";
import { anEndedRun, linesInPostgres } from "../../support/old_logs.ts";
import { waitFor } from "../../support/waiting.ts";

Deno.test("a leader deletes old lines and old runs when it is told to, and work goes on", async () => {
  await withProcesses(1, async (cluster) => {
    const { sql } = cluster;
    const [job] = await sql<{ id: number }[]>`select id from job_definition`;
    const of = (days: number) => ({ days, lines: ["x"], job_definition_id: job?.id });
    for (let n = 0; n < 600; n++) await anEndedRun(sql, of(100 - n / 100));
    const young = await anEndedRun(sql, of(3));
    await cluster.hears("logs.kept");
    await changeSettings(sql, { old_logs: "delete" }, { actor: "test" });
    await waitFor("old lines to go", async () => await linesInPostgres(sql) === 1 || undefined);
    assert.equal((await sql`select from job_run`).length, 601);

    await changeSettings(sql, { run_retention_days: 30 }, { actor: "test" });
    await waitFor("old runs to go", async () => (await sql`select from job_run`).length === 1 || undefined);
    assert.equal((await sql`select from job_run where id = ${young}`).length, 1);
    assert((await cluster.hears("history.deleted")).runs > 0);
    const fresh = await cluster.enqueue("append_one_row");
    assert.equal((await cluster.ends(fresh)).state, "SUCCEEDED");
  });
});
