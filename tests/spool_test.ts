/** The file of outcomes that Postgres has not confirmed, and what an heir makes of it. */
import assert from "node:assert/strict";
import { type FactName, hear } from "../src/base/facts.ts";
import { settleEstate } from "../src/roles/estate.ts";
import {
  estatesFolder,
  fileNameOf,
  identify,
  type Identity,
  identityIn,
  readSpool,
  Spool,
} from "../src/roles/spool.ts";
import { keepVigil } from "../src/roles/vigil.ts";
import { readRun } from "../src/store/run_view.ts";
import type { Ending } from "../src/store/ended_runs.ts";
import { aRun, aWorker } from "./support/factories.ts";
import { type Stores, withStores } from "./support/stores.ts";
import { waitFor } from "./support/waiting.ts";

const HOST = "00000000-1111-2222-3333-444444444444.4026531836";
/** No process has a pid beyond 2^22. */
const DEAD: Identity = { worker_id: "w9-00000009", pid: 5_000_000, process_started: "99999999999", host: HOST };

interface Scene {
  state_dir: string;
  path: string;
  facts: { name: FactName; fact: Record<string, unknown> }[];
}

async function withFolder(test: (scene: Scene) => Promise<void> | void, me = DEAD): Promise<void> {
  const state_dir = await Deno.makeTempDir({ prefix: "dandori-spool-" });
  const facts: Scene["facts"] = [];
  const silence = hear((name, fact) => facts.push({ name, fact }));
  try {
    await test({ state_dir, path: `${estatesFolder(state_dir)}/${fileNameOf(me)}`, facts });
  } finally {
    silence();
    await Deno.remove(state_dir, { recursive: true });
  }
}

const endingOf = (job_run_id: number, more: Partial<Ending> = {}): Ending => ({
  job_run_id,
  attempt: 1,
  start_token: `token-${job_run_id}`,
  outcome: "SUCCEEDED",
  exit_code: 0,
  error_name: null,
  error_summary: null,
  result: { done: job_run_id },
  retry_max: 0,
  retry_after_ms: 0,
  other_node: false,
  ...more,
});

function opened(state_dir: string): Spool {
  const spool = new Spool(state_dir, DEAD);
  spool.open();
  return spool;
}

const said = (facts: Scene["facts"], name: FactName) => facts.filter((one) => one.name === name);

Deno.test("an outcome is in the file from its end until Postgres has answered, for its owner's eyes alone", async () => {
  await withFolder(async ({ state_dir, path }) => {
    const spool = opened(state_dir);
    assert.equal(Deno.statSync(path).size, 0);
    spool.keep(endingOf(1));
    spool.keep(endingOf(2));
    spool.keep(endingOf(2));
    await Promise.resolve(); // what ends in one turn is written together
    assert.deepEqual(await readSpool(path), [endingOf(1), endingOf(2)]);
    assert.equal((Deno.statSync(path).mode as number) & 0o777, 0o600);
    assert.equal((Deno.statSync(estatesFolder(state_dir)).mode as number) & 0o777, 0o700);
    spool.drop(endingOf(1));
    spool.drop(endingOf(2));
    assert.equal(Deno.statSync(path).size, 0);
    spool.keep(endingOf(3));
    assert.equal(spool.waiting, 1);
    spool.close(false);
    assert.deepEqual(await readSpool(path), [endingOf(3)]);
  });
});

Deno.test("a file that is never empty stays small, and holds what waits", async () => {
  await withFolder(async ({ state_dir, path }) => {
    const spool = opened(state_dir);
    const result = "x".repeat(10_000);
    spool.keep(endingOf(1));
    for (let id = 2; id < 500; id++) {
      spool.keep(endingOf(id, { result }));
      if (id > 2) spool.drop(endingOf(id - 1));
    }
    assert(Deno.statSync(path).size < 2_000_000);
    assert.deepEqual((await readSpool(path)).filter(({ job_run_id }) => [1, 499].includes(job_run_id)).length, 2);
    spool.drop(endingOf(1));
    spool.drop(endingOf(499));
    assert.equal(spool.waiting, 0);
    spool.close(true);
    assert.deepEqual([...Deno.readDirSync(estatesFolder(state_dir))], []);
  });
});

Deno.test("a line that was torn, or is no outcome, spoils no other", async () => {
  await withFolder(async ({ state_dir, path }) => {
    const spool = opened(state_dir);
    spool.keep(endingOf(1));
    const whole = JSON.stringify(endingOf(2));
    Deno.writeTextFileSync(path, `\n${whole.slice(0, 40)}`, { append: true });
    spool.keep(endingOf(3));
    Deno.writeTextFileSync(path, `\nnull\n[]\n{"job_run_id":"4"}\n\0\xff\n${whole.slice(0, -1)}`, { append: true });
    assert.deepEqual(await readSpool(path), [endingOf(1), endingOf(3)]);
  });
});

Deno.test("a full disk does not stop a worker, and is said once", async () => {
  await withFolder(({ state_dir, path, facts }) => {
    Deno.mkdirSync(estatesFolder(state_dir));
    Deno.symlinkSync("/dev/full", path);
    const spool = opened(state_dir);
    for (let id = 1; id < 5; id++) {
      spool.keep(endingOf(id));
      spool.drop(endingOf(id));
    }
    spool.close(true);
    assert.deepEqual(said(facts, "spool.failed").map(({ fact }) => /No space/.test(String(fact.error))), [true]);
  });
  await withFolder(({ state_dir, facts }) => {
    Deno.writeTextFileSync(estatesFolder(state_dir), "not a folder");
    const spool = opened(state_dir);
    spool.keep(endingOf(1));
    spool.drop(endingOf(1));
    assert.equal(spool.waiting, 0);
    spool.close(true);
    assert.equal(said(facts, "spool.failed").length, 1);
  });
});

Deno.test("a file's name says whose it is; others are left alone", () => {
  assert.deepEqual(identityIn(fileNameOf(DEAD)), DEAD);
  const unknown = { ...DEAD, process_started: "", host: "" };
  assert.deepEqual(identityIn(fileNameOf(unknown)), unknown);
  for (const name of ["", ".gitignore", `${fileNameOf(DEAD)}.new`, `${fileNameOf(DEAD)}/..`, "w1_2_3_4"]) {
    assert.equal(identityIn(name), undefined, name);
  }
});

/** A dead worker's row, its runs in these states, and its file with an outcome for each. */
async function anEstate(
  { sql }: Stores,
  { state_dir, path }: Scene,
  states: Record<string, unknown>[],
): Promise<number[]> {
  const { worker_id, pid, process_started, host } = DEAD;
  await aWorker(sql, { worker_id, pid, process_started, host });
  const spool = opened(state_dir);
  const ids: number[] = [];
  for (const columns of states) {
    const run = await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id, ...columns });
    spool.keep(endingOf(run.id, { start_token: run.start_token ?? "gone" }));
    ids.push(run.id);
  }
  spool.close(false);
  assert(Deno.statSync(path).size > 0);
  return ids;
}

Deno.test("an heir records what still is the dead worker's, keeps the rest in the audit, and may do it twice", async () => {
  await withStores((stores) =>
    withFolder(async (scene) => {
      const { sql } = stores;
      const { path, state_dir, facts } = scene;
      const [running, orphaned, given_away, failing] = await anEstate(stores, scene, [
        {},
        { state: "ORPHANED", leader_epoch: 1, fence: 1, start_token: "t", started_at: new Date(0) },
        { assigned_worker_id: "w-other", attempt: 2 },
        {},
      ]) as [number, number, number, number];
      const [{ start_token }] = await sql`select start_token from job_run where id = ${failing}` as [
        { start_token: string },
      ];
      const retried = endingOf(failing, {
        start_token,
        outcome: "FAILED",
        error_name: "E",
        result: null,
        retry_max: 3,
      });
      Deno.writeTextFileSync(path, `\n${JSON.stringify(retried)}`, { append: true });
      const text = Deno.readTextFileSync(path);
      const heir = { sql, worker_id: "w10-0000000a", state_dir, told: new Set<string>() };
      assert.equal(await settleEstate(heir, DEAD, true), "settled");
      assert.throws(() => Deno.statSync(path), Deno.errors.NotFound);
      const states = async () =>
        await Promise.all([running, orphaned, given_away, failing].map(async (id) => (await readRun(sql, id))?.state));
      assert.deepEqual(await states(), ["SUCCEEDED", "SUCCEEDED", "RUNNING", "RETRYING"]);

      // The same once more: another heir was at it, or this one died before it had removed the file.
      await sql`update job_run set state = 'ASSIGNED', attempt = 2, start_token = null, fence = null, started_at = null, held = false,
        wakes_at = null where id = ${failing}`;
      Deno.writeTextFileSync(path, text);
      assert.equal(await settleEstate(heir, DEAD, true), "settled");
      assert.deepEqual(await states(), ["SUCCEEDED", "SUCCEEDED", "RUNNING", "ASSIGNED"]);
      const acts = await sql`select actor, action, target_id from admin_action_log`;
      assert.deepEqual([...acts], [
        { actor: heir.worker_id, action: "run.late_result", target_id: String(given_away) },
      ]);
      assert.equal(said(facts, "worker.certified").length, 1);
      const [row] =
        await sql`select state, lease_until = '-infinity' as over from worker where worker_id = ${DEAD.worker_id}`;
      assert.deepEqual(row, { state: "DEAD", over: true });
    })
  );
});

Deno.test("an outcome that Postgres refuses fails its own run with the reason, and no other", async () => {
  await withStores((stores) =>
    withFolder(async (scene) => {
      const [good, bad] = await anEstate(stores, scene, [{}, {}]) as [number, number];
      const text = Deno.readTextFileSync(scene.path).split("\n");
      const spoilt = text.map((line) =>
        line.includes(`"done":${bad}`) ? line.replace(`"exit_code":0`, `"exit_code":1e12`) : line
      );
      Deno.writeTextFileSync(scene.path, spoilt.join("\n"));
      const heir = { sql: stores.sql, worker_id: "w10-0000000a", state_dir: scene.state_dir, told: new Set<string>() };
      assert.equal(await settleEstate(heir, DEAD, true), "settled");
      assert.equal((await readRun(stores.sql, good))?.state, "SUCCEEDED");
      const refused = await readRun(stores.sql, bad);
      assert.deepEqual([refused?.state, refused?.error_name], ["FAILED", "InvalidResult"]);
    })
  );
});

Deno.test("an outcome whose row somebody's transaction keeps holds up no other of its estate, and is recorded later", async () => {
  await withStores((stores) =>
    withFolder(async (scene) => {
      const { sql } = stores;
      const [kept, other] = await anEstate(stores, scene, [{}, {}]) as [number, number];
      const heir = { sql, worker_id: "w10-0000000a", state_dir: scene.state_dir, told: new Set<string>() };
      await sql.begin(async (tx) => {
        await tx`set local idle_in_transaction_session_timeout = 0`;
        await tx`update job_run set priority = 100 where id = ${kept}`;
        await assert.rejects(settleEstate(heir, DEAD, true), /lock timeout/);
        assert.equal((await readRun(sql, other))?.state, "SUCCEEDED");
      });
      assert.equal(await settleEstate(heir, DEAD, true), "settled");
      assert.equal((await readRun(sql, kept))?.state, "SUCCEEDED");
    })
  );
});

Deno.test("of another host the outcomes are recorded, the death is not certified, and the file stays until it is", async () => {
  await withStores((stores) =>
    withFolder(async (scene) => {
      const { sql } = stores;
      const [id] = await anEstate(stores, scene, [{}]) as [number];
      const me = identify("w10-0000000a");
      const live = async (until: () => Promise<true | undefined>) => {
        const stop = new AbortController();
        const vigil = keepVigil({ sql, worker_id: me.worker_id, state_dir: scene.state_dir }, me, stop.signal);
        await waitFor("the vigil", until);
        stop.abort();
        await vigil;
      };
      await live(async () => (await readRun(sql, id))?.state === "SUCCEEDED" || undefined);
      const [row] = await sql`select state from worker where worker_id = ${DEAD.worker_id}`;
      assert.equal(row?.state, "ACTIVE");
      assert(Deno.statSync(scene.path).size > 0);
      await sql`update worker set state = 'DEAD' where worker_id = ${DEAD.worker_id}`;
      await live(() =>
        Promise.resolve([...Deno.readDirSync(estatesFolder(scene.state_dir))].length === 0 || undefined)
      );
      assert.deepEqual(said(scene.facts, "worker.certified"), []);
      assert.deepEqual(said(scene.facts, "run.late_result"), []);
    })
  );
});

Deno.test("the estate of a worker that this database does not know is left to those who do", async () => {
  await withStores((stores) =>
    withFolder(async ({ state_dir, path }) => {
      const spool = opened(state_dir);
      spool.keep(endingOf(1));
      spool.close(false);
      const heir = { sql: stores.sql, worker_id: "w10-0000000a", state_dir, told: new Set<string>() };
      assert.equal(await settleEstate(heir, DEAD, true), "not ours");
      assert.deepEqual(await readSpool(path), [endingOf(1)]);
    })
  );
});

Deno.test("a file that is written anew while more waits than it may hold is one that an heir reads", async () => {
  await withFolder(async ({ state_dir, path }) => {
    const spool = opened(state_dir);
    const large = "x".repeat(1024 * 1024 - 2);
    for (let id = 1; id <= 70; id++) spool.keep(endingOf(id, { result: large }));
    await Promise.resolve();
    const written = (await readSpool(path)).length;
    assert(written >= 60 && written < 70, `${written} of 70 had room`);
    spool.drop(endingOf(1));
    const kept = await readSpool(path);
    assert.equal(kept.length, written);
    assert(kept.every(({ job_run_id }) => job_run_id !== 1), "what Postgres has recorded is gone");
    spool.close(false);
  });
});
