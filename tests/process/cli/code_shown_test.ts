/** How it is shown that workers have other job files than were synced: on pages and by commands. */
import assert from "node:assert/strict";
import { judgeAlerts } from "../../../src/alerts/alerts.ts";
import { reportCode } from "../../../src/runs/code_mismatch.ts";
import { json, type Sql } from "../../../src/postgres/connection.ts";
import { versionsOf, type Wait } from "../../../src/runs/wait_reason.ts";
import { withAdmin } from "../../support/admin.ts";
import { LIMITS } from "../../support/alert_limits.ts";
import { cliWith } from "../../support/cli.ts";
import { aDefinition, aRun, aTerm, aWorker } from "../../support/factories.ts";

const NEW = "06edc18aaaaa";
const OLD = "e17994fbbbbb";
const EVIL = `hello.ts: "<script>alert(1)</script>" \u001b[31mis broken`;
const NONE = "no worker has version 06edc18 of hello (2 have e17994f, 1 has none)";

/** Three workers of which none has hello as it was synced, a run that waits for it, and the alert of that. */
async function nobodyHasHello(sql: Sql): Promise<{ run_id: number }> {
  const term = await aTerm(sql, "w1");
  const { id } = await aDefinition(sql, { name: "hello", digest: NEW });
  for (const worker_id of ["w1", "w2", "w3"]) {
    await aWorker(sql, { worker_id, node_id: `n-${worker_id}` });
    const found = worker_id === "w3" ? { found: null, problem: EVIL } : { found: OLD, problem: null };
    await reportCode(sql, worker_id, [{ job_definition_id: id, digest: NEW, ...found }]);
  }
  const others = [{ digest: OLD, workers: 2 }, { digest: null, workers: 1 }];
  const what = { job_name: "hello", version: NEW.slice(0, 7), where: null };
  const params = { ...what, having: 0, only_leader: false, others: versionsOf(others) };
  const reason: Wait = { code: "no_code", params };
  await sql`insert into queue_block_reason (job_definition_id, node, reason) values (${id}, '', ${json(sql, reason)})`;
  await sql`update code_mismatch set since = since - interval '2 minutes'`;
  await judgeAlerts(sql, term, LIMITS);
  return { run_id: (await aRun(sql, { job_definition_id: id })).id };
}

Deno.test("pages say who has what, in both languages, whatever a worker says of its files", () =>
  withAdmin(async ({ sql, login }) => {
    const { run_id } = await nobodyHasHello(sql);
    await aWorker(sql, { worker_id: "w4", node_id: "n-w4" });
    await aWorker(sql, { worker_id: "w5", node_id: "n-w5" });
    await reportCode(sql, "w5", []);
    const browser = await login("viewer");
    const list = await browser.text("/nodes");
    assert.equal(list.match(/1 differ/g)?.length, 3);
    assert.equal(list.match(/as synced/g)?.length, 1, "of w4 nothing is known yet");
    const worker = await browser.text("/workers/w1");
    for (
      const sign of [
        /Job files that differ from the synced version/,
        /href="\/jobs\/hello">hello</,
        />06edc18</,
        />e17994f</,
      ]
    ) {
      assert.match(worker, sign);
    }
    const broken = await browser.text("/workers/w3");
    assert.match(broken, /&lt;script&gt;/);
    assert(!broken.includes("<script>alert"));
    assert(!(await browser.text("/workers/w5")).includes("differ from the synced version"));

    for (const path of [`/runs/${run_id}`, "/queue", "/jobs/hello"]) {
      assert((await browser.text(path)).includes(NONE), path);
    }
    const alerts = await browser.text("/alerts");
    assert(alerts.includes(NONE) && alerts.includes('href="/jobs/hello"'), alerts);
    const ja = { "accept-language": "ja" };
    const said = "ジョブ hello の版 06edc18 を持つワーカーがありません（e17994f：2 台、読めるファイルなし：1 台）";
    for (const path of [`/runs/${run_id}`, "/queue", "/alerts"]) {
      assert((await browser.text(path, ja)).includes(said), path);
    }
    assert.match(await browser.text("/nodes", ja), /1 件相違/);
  }));

Deno.test("commands say who has what: explain, runs show, queue ls, nodes ls, alerts ls, doctor", () =>
  withAdmin(async ({ sql, database_url, redis_url, prefix }) => {
    const { run_id } = await nobodyHasHello(sql);
    const jobs_dir = Deno.makeTempDirSync();
    try {
      const cli = cliWith({
        ...{ DATABASE_URL: database_url, REDIS_URL: redis_url, SCHEDULER_REDIS_PREFIX: prefix },
        ...{ SCHEDULER_JOBS_DIR: jobs_dir, SCHEDULER_TLS: "mesh", NO_COLOR: "1", COLUMNS: "400" },
      });
      const asked = [["explain", String(run_id)], ["runs", "show", String(run_id)], ["queue", "ls"], ["alerts", "ls"]];
      for (const args of asked) assert((await cli(...args)).out.includes(NONE), args.join(" "));
      const nodes = (await cli("nodes", "ls")).out;
      assert.match(nodes, /^w1 on n-w1: hello has e17994f, synced is 06edc18$/m);
      assert.match(nodes, /^w3 on n-w3: hello has none: hello\.ts: .*is broken, synced is 06edc18$/m);
      assert(!nodes.includes("\u001b"));
      assert.match(nodes, /1 differ/);
      const findings = JSON.parse((await cli("doctor", "--json")).out) as {
        check: string;
        state: string;
        detail: string;
      }[];
      const files = findings.find(({ check }) => check === "job files");
      assert.equal(files?.state, "warning", JSON.stringify(findings));
      assert.match(
        files?.detail ?? "",
        /this machine \(.*\): hello\.ts is missing \| w1 on n-w1: hello has e17994f/,
      );
    } finally {
      Deno.removeSync(jobs_dir);
    }
  }));
