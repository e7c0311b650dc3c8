/** A sync with everything real: job files in a folder, a sandbox, a database of the test's own. */
import assert from "node:assert/strict";
import { PROJECT_DIR } from "../../../src/platform/config.ts";
import { sync, type SyncOptions, type SyncParts, type SyncReport } from "../../../src/sync/sync.ts";
import { ProcessPool } from "../../../src/sandbox/process_pool.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import { withStores } from "../stores.ts";
import { type JobFolder, withJobs } from "./folder.ts";

export interface Bench {
  sql: Sql;
  database_url: string;
  jobs: JobFolder;
  parts: SyncParts;
  /** `meanwhile` is done while it describes files: it has read what is stored, and has written nothing. */
  sync(
    mode?: SyncOptions["mode"],
    meanwhile?: () => Promise<unknown>,
    confirm?: SyncOptions["confirm"],
  ): Promise<SyncReport>;
}

/** Gives `test` a jobs folder with these files, and a way to sync it. */
export async function withSync(files: Record<string, string>, test: (bench: Bench) => Promise<void>): Promise<void> {
  const state_dir = await Deno.makeTempDir({ prefix: "dandori-sync-" });
  const sandbox = new ProcessPool({ project_dir: PROJECT_DIR, state_dir, spares: 0, env: {} });
  try {
    await withStores(({ sql, database_url }) =>
      withJobs(files, (jobs) => {
        const by = { actor: "ann", reason: "a release" };
        const parts = { sql, sandbox, jobs_dir: jobs.dir, project_dir: PROJECT_DIR, by };
        return test({
          sql,
          database_url,
          jobs,
          parts,
          sync: (mode = "apply", meanwhile, confirm) => {
            const on = { ...parts, sandbox: describing(sandbox, meanwhile) };
            return sync(on, { mode, describe_ms: 3_000, confirm });
          },
        });
      })
    );
  } finally {
    await sandbox.close();
    await Deno.remove(state_dir, { recursive: true });
  }
}

function describing(sandbox: ProcessPool, meanwhile?: () => Promise<unknown>): Pick<ProcessPool, "describe"> {
  return {
    async describe(...args) {
      await meanwhile?.();
      return await sandbox.describe(...args);
    },
  };
}

/** A job file with these options, written as source. */
export function job(options = ""): string {
  return `import { defineJob } from "dandori";\nimport { z } from "zod";\nvoid z;\nexport default defineJob({\n  ${options}\n  run() {},\n});\n`;
}

export function assertApplied(report: SyncReport): void {
  assert.deepEqual(report.problems, []);
  assert.equal(report.applied, true, "nothing was applied");
}
