/** `doctor`: whether job files are what was synced, on this machine and at each worker that is alive. */
import { Digests } from "../sync/module_graph.ts";
import { syncedJobs } from "../runs/code_mismatch.ts";
import type { Sql } from "../postgres/connection.ts";
import { listWorkers } from "../nodes/workers.ts";
import { otherCodeText, versionOf } from "../runs/wait_reason.ts";

const MOST_SHOWN = 5;

export interface FilesFound {
  /** One line for each machine or worker that differs. */
  differ: string[];
  workers: number;
  jobs: number;
}

export async function compareJobFiles(
  sql: Sql,
  folders: { jobs_dir: string; project_dir: string },
): Promise<FilesFound> {
  const [jobs, workers] = [await syncedJobs(sql), await listWorkers(sql)];
  const digests = new Digests(folders);
  const here = await Promise.all(jobs.map(async ({ command_name, digest }) => {
    const mine = await digests.of(command_name);
    if (!("digest" in mine)) return mine.problem;
    return mine.digest === digest ? [] : `${command_name} is ${versionOf(mine.digest)}, synced is ${versionOf(digest)}`;
  }));
  const differ = [
    ...lineOf(`this machine (${folders.jobs_dir})`, here.flat()),
    ...workers.flatMap(({ worker_id, node_id, other_jobs, other_code }) =>
      lineOf(`${worker_id} on ${node_id}`, other_code.map(otherCodeText), other_jobs ?? 0)
    ),
  ];
  return { differ, workers: workers.length, jobs: jobs.length };
}

function lineOf(who: string, differ: string[], all = differ.length): string[] {
  if (differ.length === 0) return [];
  const shown = differ.slice(0, MOST_SHOWN);
  const more = all - shown.length;
  return [`${who}: ${shown.join("; ")}${more > 0 ? `; and ${more} more` : ""}`];
}
