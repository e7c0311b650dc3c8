/** Drills against a real dev: what they break is broken, what they say is so, and nothing of them is left. */
import assert from "node:assert/strict";
import type { DevNote } from "../../../src/platform/config.ts";
import { processStarted } from "../../../src/platform/process_stat.ts";
import { every } from "../../../src/platform/timers.ts";
import { countKeys, forgetKeys } from "../../../src/redis/redis_flush.ts";
import { type DrillName, type DrillReport, runDrill } from "../../../src/ops/drill/drill.ts";
import { DrillLoad } from "../../../src/ops/drill/load.ts";
import { readDefinition } from "../../../src/definitions/definition_rows.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { registerWorker, renewWorker } from "../../../src/nodes/workers.ts";
import { cancelRequested } from "../../../src/runs/states.ts";
import { changeSettings } from "../../../src/settings/settings.ts";
import { TEST_SETTINGS } from "../../support/cluster.ts";
import { testOnBoth } from "../../support/cluster_redis.ts";
import { type DevFolder, type DevProcess, withDevFolder } from "../../support/dev_process.ts";
import { aDefinition, aTerm } from "../../support/factories.ts";
import { Hearing } from "../../support/hearing.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

const STRANGER = {
  worker_id: "w0-stranger",
  node_id: "elsewhere",
  pid: 1,
  process_started: "1",
  host: "",
  grpc_host: "127.0.0.1",
  grpc_port: 1,
  tls_fingerprint: "",
  slots: 1,
  version: "",
};

interface Place {
  folder: DevFolder;
  dev: DevProcess;
  sql: Sql;
  drill(name: DrillName): Promise<DrillReport>;
}

/** On a database of the test's own, since the settings must be there before the workers; Redis is dev's own. */
function withDev(test: (place: Place) => Promise<void>): Promise<void> {
  return withStores(({ sql, database_url }) =>
    withDevFolder(async (folder) => {
      await changeSettings(sql, TEST_SETTINGS, { actor: "test" });
      const dev = folder.start({ workers: 3, env: { DATABASE_URL: database_url } });
      await dev.says(/^ready /);
      const drill = async (name: DrillName) => {
        const { stdout, stderr } = await folder.run("drill", name, "--json");
        const report = JSON.parse(stdout) as DrillReport;
        assert.deepEqual(report.breaches, [], `${stderr}\n${dev.printed}`);
        assert(report.runs >= 8 && report.slots >= 2 && report.bodies >= report.runs, stdout);
        return report;
      };
      await test({ folder, dev, sql, drill });
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
  assert.deepEqual((await sql`select node_id from node where node_id not like 'dev-%'`).map((row) => row.node_id), []);
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
    await t.step("partition: what a worker that is cut off has is kept or replaced, never both", async () => {
      const report = await drill("partition");
      const confirmed = report.measures.some(({ what }) => what.includes("its peers confirmed them"));
      if (!confirmed) assert(measured(report, /last sign of life/) < measured(report, /interrupted runs ran again/));
      assert.equal(report.bodies_repeated.length === 0, confirmed);
      measured(report, /healed, it was at work again/);
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
    await t.step("one that is killed while a worker is frozen leaves it thawed, and its job is removed", async () => {
      await killedDrill(place);
    });
  });
});

/** Frozen workers go on, the job goes, and dev switches it off by itself. */
async function killedDrill(place: Place): Promise<void> {
  const { folder, sql, dev } = place;
  const killed = folder.begin("drill", "freeze-worker");
  const said = new Hearing();
  const heard = Promise.all([said.listen("drill", killed.stdout), said.listen("drill", killed.stderr)]);
  let frozen: string;
  try {
    frozen = await said.waitFor("froze", ({ text }) => /froze dev-\d \(\S+, process (\d+)\)/.exec(text)?.[1]);
    await waitFor("the worker to stand still", () => Promise.resolve(stateOf(frozen) === "T" ? true : undefined));
    const again = await folder.run("drill", "kill-leader");
    assert.equal(again.code, 1);
    assert.match(again.stderr, /another drill is under way/);
  } finally {
    killed.kill("SIGKILL");
    await Promise.all([killed.status, heard]);
  }
  await waitFor("the worker to go on", () => Promise.resolve(stateOf(frozen) === "T" ? undefined : true));
  await waitFor("dev to switch the job off", async () => {
    return (await readDefinition(sql, "dandori_drill"))?.enabled === false ? true : undefined;
  });
  await nothingLeft(place);
  assert.match(dev.printed, /dandori_drill/);
}

Deno.test("a run that is born while a drill removes its job is canceled as well", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    const { id } = await aDefinition(sql, { name: "dandori_drill" });
    await sql.unsafe(`
      create function slot() returns trigger language plpgsql as $$
      begin
        insert into job_run (job_definition_id, idempotency_key, source, scheduled_for, due_at) values (${id}, 'slot', 'schedule', now(), now());
        return new;
      end $$;
      create trigger slot before update of removed_at on job_definition for each row execute function slot()`);
    const stop = new AbortController();
    const leader = every(50, async () => void await cancelRequested(sql, term), { name: "leader", stop: stop.signal });
    await new DrillLoad({ sql, jobs_dir: "/nowhere", state_dir: "/nowhere", sync: () => Promise.resolve(undefined) })
      .remove();
    stop.abort();
    await leader;
    assert.deepEqual((await sql`select state from job_run`).map((run) => run.state), ["CANCELED"]);
  });
});

Deno.test("a drill is refused where it would break what is not dev's own, or what nothing would mend", async () => {
  await withStores(async ({ sql, database_url, redis_url, prefix }) => {
    const dir = Deno.makeTempDirSync({ prefix: "dandori-drill-" });
    const dev = new Deno.Command("sleep", { args: ["60"] }).spawn(); // all that is asked of this one is its pid
    const note: DevNote = {
      pid: dev.pid,
      process_started: processStarted(dev.pid),
      database_url,
      redis_url,
      redis_prefix: prefix,
      tls_dir: dir,
      jobs_dir: dir,
      node_ids: ["dev-1", "dev-2"],
      callback_secret: "of dev's own",
    };
    const stop = new AbortController().signal;
    const parts = {
      state_dir: dir,
      stop,
      worker_command: [],
      sync: () => Promise.resolve("not so far"),
      say: () => {},
    };
    const refused = async (name: DrillName, message: RegExp, yes?: string) => {
      await assert.rejects(runDrill(name, { ...parts, yes }), { name: "DrillError", message });
    };
    try {
      await refused("kill-leader", /no `deno task dev` is running in this checkout/);
      Deno.writeTextFileSync(`${dir}/dev.json`, JSON.stringify(note));
      await refused(
        "postgres-restart",
        /Cannot restart postgres: dev did not start it .* start dev without DATABASE_URL/,
      );
      await refused("redis-restart", /Cannot restart redis: dev did not start it .* start dev without REDIS_URL/);
      await refused("redis-flush", /would delete the 0 keys there that begin with "dandori_test_/);
      await refused("redis-flush", /if they may go, say --yes dandori_test_/, "scheduler:");
      const of_one = { ...note, node_ids: ["dev-1"] };
      Deno.writeTextFileSync(`${dir}/dev.json`, JSON.stringify(of_one));
      await refused("freeze-worker", /Cannot drill this with one worker/);
      Deno.writeTextFileSync(`${dir}/dev.json`, JSON.stringify(note));
      await registerWorker(sql, STRANGER, 60_000);
      const over = new AbortController();
      const renewing = every(50, async () => {
        await renewWorker(sql, STRANGER.worker_id, {
          lease_ms: 60_000,
          slots: 1,
          tls_fingerprint: "",
          tls_former_fingerprint: null,
          tls_trust_digest: "",
          subleader: false,
        });
      }, { name: "a stranger", stop: over.signal });
      await refused("kill-leader", /worker "w0-stranger" on node "elsewhere" is none of the dev of this checkout/);
      over.abort();
      await renewing;
      assert.equal(await readDefinition(sql, "dandori_drill"), undefined);
    } finally {
      dev.kill();
      await dev.status;
      Deno.removeSync(dir, { recursive: true });
    }
  });
});

testOnBoth("to forget our keys in Redis leaves those of others", async (redis) => {
  await redis.ask("prepare", (client) => client.mset({ "one": 1, "two:{*}": 2 }));
  await redis.ask("prepare", (client) => client.eval("return redis.call('set', 'elsewhere', 3)", 0));
  assert.equal(await countKeys(redis), 2);
  await forgetKeys(redis);
  assert.equal(await countKeys(redis), 0);
  const kept = await redis.ask("look", (client) => client.eval("return redis.call('get', 'elsewhere')", 0));
  assert.equal(kept, "3");
});

/** T: stopped. */
function stateOf(pid: string): string | undefined {
  return /^State:\s+(\w)/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`))?.[1];
}
