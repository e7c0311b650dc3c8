/** What a sync writes when a file has changed: each change arrives, and what was taken back is gone. */
import assert from "node:assert/strict";
import { setOverrides } from "../../../src/sync/overrides.ts";
import { createRuns, type NewRun } from "../../../src/runs/create_runs.ts";
import { readDefinition } from "../../../src/definitions/definition_rows.ts";
import { assertApplied, job, withSync } from "../../support/job_files/bench.ts";

Deno.test("a file that changes has its new digest, zone and permissions at once, and none of the old", async () => {
  const source = (zone: string, permissions: string) =>
    job(`schedule: { id: "n", dailyAt: "03:00", timezone: "${zone}" }, permissions: ${permissions},`);
  await withSync({ "a.ts": source("Asia/Tokyo", '{ net: ["a.example"] }') }, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    const before = await readDefinition(sql, "a");
    jobs.write("a.ts", source("Europe/Paris", "{}"));
    assertApplied(await sync());
    const after = await readDefinition(sql, "a");
    assert.deepEqual([before?.permissions, after?.permissions], [{ net: ["a.example"] }, {}]);
    assert.notEqual(after?.digest, before?.digest);
    const hours = [before, after].map((one) => one?.schedules[0]?.next_slot?.toString().slice(11, 13));
    assert.equal(hours[0], "18");
    assert(hours[1] === "01" || hours[1] === "02", `it comes at ${hours[1]} in UTC`); // by winter or by summer time
    assert.equal((await sync("check")).drift, false);
    const with_days_off = source("Europe/Paris", "{}").replace('"03:00",', '"03:00", exclude: "2020-01-01",');
    jobs.write("a.ts", with_days_off);
    assertApplied(await sync());
    const excluding = (await readDefinition(sql, "a"))?.schedules[0];
    assert.deepEqual(excluding?.exclude, ["2020-01-01"]);
    assert.equal(String(excluding?.last_slot), String(after?.schedules[0]?.last_slot), "its times are the same");
  });
});

Deno.test("a job whose file is gone takes no runs and no options; one that comes back gains its permissions anew", async () => {
  const source = job('permissions: { net: ["a.example"] },');
  await withSync({ "a.ts": source, "b.ts": job() }, async ({ sql, jobs, sync }) => {
    assertApplied(await sync());
    jobs.remove("a.ts");
    assertApplied(await sync());
    const new_run: NewRun = { job_name: "a", args: {} };
    assert.deepEqual(await createRuns(sql, [new_run]), [{ job_run_id: undefined, is_new: false }]);
    const answer = await setOverrides(sql, "a", { priority: 100 }, { actor: "ann", reason: "" });
    assert(answer?.ok === false, "an option was set of a job that is gone");
    assert.equal(answer.complaints[0]?.says?.code, "file_removed");
    jobs.write("a.ts", source);
    const { plan } = await sync("plan");
    assert.deepEqual(plan?.added[0]?.permissions_gained, [{ permission: "net", what: "a.example", unsafe: false }]);
  });
});
