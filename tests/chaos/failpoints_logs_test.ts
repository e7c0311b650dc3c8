/** Leaders die or freeze while they move old logs: no line is lost, none is there twice, and at most an object is left that nobody refers to. */
import assert from "node:assert/strict";
import type { FailpointName } from "../../src/platform/failpoint.ts";
import { toFileUrl } from "../../src/platform/paths.ts";
import { openArchive } from "../../src/archive/open_archive.ts";
import { RunLog } from "../../src/actions/run_log.ts";
import { readRun } from "../../src/runs/run_view.ts";
import { type Cluster, withProcesses } from "../support/cluster.ts";
import { type Doom, reaches, STEADY } from "../support/doomed.ts";
import { anEndedRun, linesInPostgres, objectsIn } from "../support/old_logs.ts";
import { waitFor } from "../support/waiting.ts";

const RUNS = 30;

async function withOldLogs(
  test: (on: { cluster: Cluster; dir: string; start: Start; said: Said }) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "dandori-archive-" });
  try {
    await withProcesses(0, async (cluster) => {
      const said: Said = new Map();
      for (let n = 0; n < RUNS; n++) {
        const lines = Array.from({ length: 1 + n * 20 }, (_, line) => `run ${n} line ${line}`);
        said.set(await anEndedRun(cluster.sql, { days: 8, lines }), lines);
      }
      const start = (...doom: Doom[]) =>
        cluster.startWorker({ env: { SCHEDULER_FAILPOINT: doom.join(","), SCHEDULER_ARCHIVE: toFileUrl(dir).href } });
      await test({ cluster, dir, start, said });
    }, { settings: STEADY, more_workers: 4 });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

type Said = Map<number, string[]>;
type Start = (...doom: Doom[]) => ReturnType<Cluster["startWorker"]>;

/** All have moved, and each run's log is what was said. */
async function allIsThere({ sql }: Cluster, said: Said, dir: string): Promise<void> {
  await waitFor("all old lines to move", async () => await linesInPostgres(sql) === 0 || undefined);
  const archive = openArchive({ kind: "folder", path: dir });
  for (const [id, lines] of said) {
    const run = await readRun(sql, id);
    assert(run);
    const read = await new RunLog({ sql, archive }, run).read({ after: 0, most: 10_000 });
    assert.deepEqual(read.map(({ message }) => message), lines, `run ${id}: ${run.log_ref}`);
  }
}

for (const point of ["before-archive-write", "after-archive-write"] satisfies FailpointName[]) {
  Deno.test(`a leader that dies ${point} loses no line`, () =>
    withOldLogs(async ({ cluster, dir, start, said }) => {
      const first = await start(`${point}:1:kill`);
      await reaches(cluster, first, point);
      await first.ended;
      const left = [...(await objectsIn(dir)).keys()];
      assert.equal(left.length, point === "after-archive-write" ? 1 : 0);
      await start();
      await allIsThere(cluster, said, dir);
      assert.equal(
        (await objectsIn(dir)).size,
        left.length + 1,
        "what it left is referred to by nobody, and there is one more",
      );
      for (const name of left) {
        assert.equal((await cluster.sql`select from job_run where log_ref like ${`%${name}%`}`).length, 0);
      }
    }));

  Deno.test(`a leader that freezes ${point}, and goes on beside the next one, moves nothing`, () =>
    withOldLogs(async ({ cluster, dir, start, said }) => {
      const old = await start(`${point}:1:stop`);
      await reaches(cluster, old, point);
      const next = await start(
        point === "before-archive-write" ? "before-archive-write:1:stop" : "after-pg-acquire:1:stop",
      );
      await reaches(cluster, next, point === "before-archive-write" ? "before-archive-write" : "after-pg-acquire");
      old.kill("SIGCONT");
      await cluster.hears("leader.ended", {}, { by: old });
      if (point === "before-archive-write") {
        await waitFor("its object", async () => (await objectsIn(dir)).size > 0 || undefined);
      }
      const moved = [...said.values()].flat().length - await linesInPostgres(cluster.sql);
      assert.equal(moved, 0, "lines were moved under a term that is over");
      next.kill("SIGCONT");
      await allIsThere(cluster, said, dir);
      assert.equal(
        (await cluster.sql`select from job_run where array_length(string_to_array(log_ref, ' '), 1) > 1`).length,
        0,
      );
    }));
}
