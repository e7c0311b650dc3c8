/** Mistakes of types in job files are told by `sync` and `dev`, and keep nothing from being stored. */
import assert from "node:assert/strict";
import { typeWarnings } from "../../../src/sync/type_check.ts";
import type { Plan } from "../../../src/sync/plan.ts";
import { syncJobs } from "../../../src/dev/jobs.ts";
import { readDefinitions } from "../../../src/definitions/definition_rows.ts";
import { cliWith } from "../../support/cli.ts";
import { job, withSync } from "../../support/job_files/bench.ts";

const WRONG = job().replace("run() {}", 'run() { const n: number = "x"; return n; }');
const TOLD = "types: wrong.ts:6:17: Type 'string' is not assignable to type 'number'. (TS2322)";

Deno.test("a mistake of types is told with file and line by sync and dev, of files that change, and stored all the same", async () => {
  await withSync({ "good.ts": job(), "wrong.ts": WRONG }, async ({ sql, database_url, jobs, parts }) => {
    const cli = cliWith({ DATABASE_URL: database_url, SCHEDULER_JOBS_DIR: jobs.dir });
    const synced = await cli("sync");
    assert.deepEqual([synced.code, synced.err], [0, `warning: ${TOLD}\n`]);
    assert.deepEqual((await readDefinitions(sql)).map(({ name }) => name), ["good", "wrong"]);
    assert.equal((await cli("sync")).err, "", "nothing has changed");
    jobs.write("wrong.ts", `${WRONG}\n`);
    const said: string[] = [];
    const on = {
      stop: new AbortController().signal,
      memory: { own_database: true },
      say: (text: string) => void said.push(text),
    };
    await syncJobs(parts, on);
    assert.deepEqual([said.length, said[1]], [2, `! ${TOLD}`]);
  });
});

Deno.test("a check that takes too long, or cannot be made, is told of and waited for no longer", async () => {
  await withSync({ "a.ts": job() }, async ({ parts, sync }) => {
    const { plan } = await sync("plan");
    const late = await typeWarnings({ ...parts, check_ms: 1 }, plan as Plan);
    assert.deepEqual(late, ["types were not checked: that took longer than 0.001 s"]);
    const [gone, ...others] = await typeWarnings({ ...parts, project_dir: "/nowhere" }, plan as Plan);
    assert.match(gone ?? "", /^types were not checked: /);
    assert.deepEqual(others, []);
  });
});
