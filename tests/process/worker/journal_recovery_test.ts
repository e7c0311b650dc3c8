/** What a recovering worker makes of the journal of a dead worker. */
import assert from "node:assert/strict";
import { recoverJournal } from "../../../src/worker/results/journal_recovery.ts";
import { identify, journalsFolder, readJournal } from "../../../src/worker/results/result_journal.ts";
import { monitorSiblings } from "../../../src/worker/sibling_monitor.ts";
import { membersOf } from "../../../src/sandbox/process_table.ts";
import { BODY_MARK } from "../../../src/sandbox/orphan_processes.ts";
import { workerState } from "../../../src/nodes/workers.ts";
import { readRun } from "../../../src/runs/run_view.ts";
import { anEstate, anHeir, DEAD, endingOf, HOST, opened, said, withFolder } from "../../support/estates.ts";
import { withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

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
      const recoverer = anHeir(sql, state_dir);
      assert.equal(await recoverJournal(recoverer, DEAD, true), "settled");
      assert.throws(() => Deno.statSync(path), Deno.errors.NotFound);
      const states = async () =>
        await Promise.all([running, orphaned, given_away, failing].map(async (id) => (await readRun(sql, id))?.state));
      assert.deepEqual(await states(), ["SUCCEEDED", "SUCCEEDED", "RUNNING", "RETRYING"]);

      // The same once more: another recovering worker was at it, or this one died before it had removed the file.
      await sql`update job_run set state = 'ASSIGNED', attempt = 2, start_token = null, fence = null, started_at = null, held = false,
        wakes_at = null where id = ${failing}`;
      Deno.writeTextFileSync(path, text);
      assert.equal(await recoverJournal(recoverer, DEAD, true), "settled");
      assert.deepEqual(await states(), ["SUCCEEDED", "SUCCEEDED", "RUNNING", "ASSIGNED"]);
      const acts = await sql`select actor, action, target_id from admin_action_log`;
      assert.deepEqual([...acts], [
        { actor: recoverer.worker_id, action: "run.late_result", target_id: String(given_away) },
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
      const recoverer = anHeir(stores.sql, scene.state_dir);
      assert.equal(await recoverJournal(recoverer, DEAD, true), "settled");
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
      const recoverer = anHeir(sql, scene.state_dir);
      await sql.begin(async (tx) => {
        await tx`set local idle_in_transaction_session_timeout = 0`;
        await tx`update job_run set priority = 100 where id = ${kept}`;
        await assert.rejects(recoverJournal(recoverer, DEAD, true), /lock timeout/);
        assert.equal((await readRun(sql, other))?.state, "SUCCEEDED");
        const why = "before all is recorded its runs would be given to others";
        assert.equal(await workerState(sql, DEAD.worker_id), "ACTIVE", why);
      });
      assert.equal(await recoverJournal(recoverer, DEAD, true), "settled");
      assert.equal((await readRun(sql, kept))?.state, "SUCCEEDED");
    })
  );
});

/** Who sees other pids, or cannot tell whose it sees, knows nothing of a process by its number. */
for (
  const [what, theirs, mine] of [
    ["another host", HOST, identify("").host],
    ["a host that cannot be told", "", ""],
  ] as const
) {
  const of = { ...DEAD, host: theirs };
  Deno.test(`of ${what} the outcomes are recorded, the death is not certified, nothing is killed, and the file stays`, async () => {
    await withStores((stores) =>
      withFolder(async (scene) => {
        const { sql } = stores;
        const [id] = await anEstate(stores, scene, [{}], of) as [number];
        const me = { ...identify("w10-0000000a"), host: mine };
        const live = async (until: () => Promise<boolean>) => {
          const stop = new AbortController();
          const vigil = monitorSiblings({ sql, worker_id: me.worker_id, state_dir: scene.state_dir }, me, stop.signal);
          await waitFor("the vigil", until);
          stop.abort();
          await vigil;
        };
        await withRemains(of.worker_id, async (isThere) => {
          await live(async () => (await readRun(sql, id))?.state === "SUCCEEDED");
          assert(isThere(), "what carries its mark is not its heir's to kill");
        });
        const [row] = await sql`select state from worker where worker_id = ${of.worker_id}`;
        assert.equal(row?.state, "ACTIVE");
        assert(Deno.statSync(scene.path).size > 0);
        await sql`update worker set state = 'DEAD' where worker_id = ${of.worker_id}`;
        await live(() => Promise.resolve([...Deno.readDirSync(journalsFolder(scene.state_dir))].length === 0));
        assert.deepEqual(said(scene.facts, "worker.certified"), []);
        assert.deepEqual(said(scene.facts, "run.late_result"), []);
      }, of)
    );
  });
}

/** A process that carries a worker's mark, as what it left running does. */
async function withRemains(worker_id: string, test: (isThere: () => boolean) => Promise<void>): Promise<void> {
  const env = { PATH: "/usr/bin:/bin", [BODY_MARK]: worker_id };
  const remains = new Deno.Command("sleep", { args: ["600"], clearEnv: true, env, detached: true }).spawn();
  try {
    await test(() => membersOf(remains.pid).length > 0);
  } finally {
    if (membersOf(remains.pid).length > 0) remains.kill("SIGKILL");
    await remains.status;
  }
}

for (const column of ["host", "pid", "process_started"] as const) {
  Deno.test(`a death is certified of the very process in the row: not where its ${column} is another`, async () => {
    await withStores((stores) =>
      withFolder(async (scene) => {
        const { sql } = stores;
        const [id] = await anEstate(stores, scene, [{}]) as [number];
        await sql`update worker set ${
          sql({ [column]: column === "pid" ? 1 : "1" })
        } where worker_id = ${DEAD.worker_id}`;
        assert.equal(await recoverJournal(anHeir(sql, scene.state_dir), DEAD, true), "not yet");
        assert.equal((await readRun(sql, id))?.state, "SUCCEEDED");
        assert.equal(await workerState(sql, DEAD.worker_id), "ACTIVE");
        assert(Deno.statSync(scene.path).size > 0);
      })
    );
  });
}

Deno.test("a journal that cannot be read is kept, also when its worker is dead, until it can be", async () => {
  await withStores((stores) =>
    withFolder(async (scene) => {
      const { sql } = stores;
      const [id] = await anEstate(stores, scene, [{}]) as [number];
      const { size } = Deno.statSync(scene.path);
      Deno.truncateSync(scene.path, 65 * 1024 * 1024); // takes no room: more than any worker writes
      const recoverer = anHeir(sql, scene.state_dir);
      for (let tries = 0; tries < 2; tries++) {
        assert.equal(await recoverJournal(recoverer, DEAD, true), "not yet");
        assert.equal(await workerState(sql, DEAD.worker_id), "DEAD");
      }
      assert.equal(said(scene.facts, "spool.failed").length, 1);
      Deno.truncateSync(scene.path, size);
      assert.equal(await recoverJournal(recoverer, DEAD, true), "settled");
      assert.equal((await readRun(sql, id))?.state, "SUCCEEDED");
      assert.throws(() => Deno.statSync(scene.path), Deno.errors.NotFound);
    })
  );
});

Deno.test("the estate of a worker that this database does not know is left to those who do", async () => {
  await withStores((stores) =>
    withFolder(async ({ state_dir, path }) => {
      const journal = opened(state_dir);
      journal.keep(endingOf(1));
      journal.close(false);
      const recoverer = anHeir(stores.sql, state_dir);
      assert.equal(await recoverJournal(recoverer, DEAD, true), "not ours");
      assert.deepEqual(await readJournal(path), [endingOf(1)]);
    })
  );
});
