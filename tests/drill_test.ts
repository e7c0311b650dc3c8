/** Drills against a real dev: what they break is broken, what they say is so, and nothing of them is left. */
import assert from "node:assert/strict";
import { rest } from "../src/base/loop.ts";
import { type DrillName, type DrillReport } from "../src/ops/drill/drill.ts";
import { readDefinition } from "../src/store/definitions.ts";
import type { Sql } from "../src/store/db.ts";
import { changeSettings } from "../src/store/settings.ts";
import { TEST_SETTINGS } from "./support/cluster.ts";
import { type DevFolder, withDevFolder } from "./support/dev_process.ts";
import { REDIS_SERVER } from "./support/redis_server.ts";
import { withStores } from "./support/stores.ts";
import { waitFor } from "./support/waiting.ts";

/** A second longer than elsewhere, so that a busy machine does not look like a lost worker where none may be. */
const SETTINGS = { ...TEST_SETTINGS, worker_lease_seconds: 6 };

interface Place {
  folder: DevFolder;
  sql: Sql;
  drill(name: DrillName): Promise<DrillReport>;
}

/** On a database of the test's own, since the settings must be there before the workers; Redis is dev's own. */
function withDev(test: (place: Place) => Promise<void>): Promise<void> {
  return withStores(({ sql, database_url }) =>
    withDevFolder(async (folder) => {
      await changeSettings(sql, SETTINGS, { actor: "test" });
      const dev = folder.start({ workers: 3, env: { DATABASE_URL: database_url } });
      await dev.says(/^ready /);
      const drill = async (name: DrillName) => {
        const { stdout, stderr } = await folder.run("drill", name, "--json");
        const report = JSON.parse(stdout) as DrillReport;
        assert.deepEqual(report.breaches, [], `${stderr}\n${dev.printed}`);
        assert(report.runs >= 8 && report.slots >= 2 && report.bodies >= report.runs, stdout);
        return report;
      };
      await test({ folder, sql, drill });
      dev.kill("SIGTERM");
      await dev.ended;
    })
  );
}

function measured(report: DrillReport, what: RegExp): number {
  const found = report.measures.find((measure) => what.test(measure.what));
  assert(found, `${what} is not among ${JSON.stringify(report.measures)}`);
  return found.ms;
}

async function nothingLeft({ folder, sql }: Place): Promise<void> {
  assert.equal((await readDefinition(sql, "dandori_drill"))?.enabled, false);
  assert.deepEqual([...Deno.readDirSync(folder.jobs_dir)], []);
  assert.throws(() => Deno.statSync(`${folder.state_dir}/drill`), Deno.errors.NotFound);
}

Deno.test("drills break a running dev, and say what came of it", async (t) => {
  await withDev(async (place) => {
    const { drill } = place;
    await t.step("kill-leader: another one leads, and nothing is lost", async () => {
      const report = await drill("kill-leader");
      assert(measured(report, /leads, in epoch/) > 0);
      measured(report, /first run that it gave out/);
      await nothingLeft(place);
    });
    await t.step("freeze-worker: its bodies are dead before their runs go on elsewhere", async () => {
      const report = await drill("freeze-worker");
      assert(measured(report, /last sign of life/) < measured(report, /interrupted runs ran again/));
      measured(report, /back under a new id/);
      assert(report.bodies_repeated.length > 0 && report.bodies_repeated.every(({ outcome }) => outcome === "LOST"));
    });
    await t.step("partition: a worker that nothing reaches, and that reaches nothing, is replaced", async () => {
      const report = await drill("partition");
      assert(measured(report, /last sign of life/) < measured(report, /interrupted runs ran again/));
      measured(report, /healed, it was back under a new id/);
      assert(report.bodies_repeated.length > 0);
    });
    await t.step("redis-flush: nothing is interrupted", async () => {
      const report = await drill("redis-flush");
      measured(report, /knew every worker again/);
      assert.deepEqual(report.bodies_repeated, []);
    });
    await t.step("rolling-restart: nothing is interrupted", async () => {
      const report = await drill("rolling-restart");
      for (const node_id of ["dev-1", "dev-2", "dev-3"]) measured(report, new RegExp(`${node_id} was stopped`));
      assert.deepEqual(report.bodies_repeated, []);
      await nothingLeft(place);
    });
  });
});
