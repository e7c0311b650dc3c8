/**
 * What a worker leaves when it dies, and what its recovering worker does with it: a worker that shares its state folder and its
 * kernel's view of pids.
 *
 *   its process is gone -> what it left running is killed and proven gone -> the outcomes in its file are recorded
 *     -> certified dead: its row becomes DEAD at once, whatever is left of its lease -> its file is removed
 *
 * Each step may be done twice, by two heirs at once, or be cut short by the recovering worker's own death: killing, recording (guarded
 * by run, attempt and token) and certifying (guarded by worker, pid, start time and host) change nothing the second time.
 * What cannot be proven is not certified, and the lease decides as it would without a recovering worker.
 *
 * A file of another host or of an earlier boot proves nothing about its process. Its outcomes are true all the same and
 * are recorded; the file stays until Postgres says that its worker is dead.
 */
import { observe } from "../../platform/facts.ts";
import { resolvePath } from "../../platform/paths.ts";
import { messageOf } from "../../platform/text.ts";
import { endOrphanProcesses } from "../../sandbox/orphan_processes.ts";
import { recordOnce } from "../../access/audit.ts";
import { isLockTimeout, isTooLong, isUnreachable, type Sql } from "../../postgres/connection.ts";
import type { Ending } from "../../runs/finished_runs.ts";
import { certifyDeath, workerState } from "../../nodes/workers.ts";
import { recordedBefore } from "../../runs/run_view.ts";
import { endRuns } from "../../steps/undo_runs.ts";
import { unstorable } from "../../runs/retry_policy.ts";
import { draftOf, fileNameOf, type Identity, journalsFolder, readJournal } from "./result_journal.ts";

export interface JournalRecoverer {
  sql: Sql;
  worker_id: string;
  state_dir: string;
  /** What was said already of journals that cannot be settled: it is tried again and again. */
  told: Set<string>;
}

/** "not yet": the lease decides, or a later try. "not ours": its database is another. */
export type Settled = "settled" | "not yet" | "not ours";

/** For killed processes to be gone; the kernel needs milliseconds, unless one is stuck in it. */
const REMAINS_MS = 3_000;
/** A result may have a MiB. */
const AT_ONCE = 50;

/** `proven`: its process is gone. @throws while Postgres is away. */
export async function recoverJournal(recoverer: JournalRecoverer, of: Identity, proven: boolean): Promise<Settled> {
  const { sql } = recoverer;
  if (await workerState(sql, of.worker_id) === undefined) return "not ours";
  const gone = proven && await leftNothing(recoverer, of);
  const replayed = await replay(recoverer, of);
  if (gone && await certifyDeath(sql, of)) {
    observe("worker.certified", { worker_id: of.worker_id, by: recoverer.worker_id });
  }
  if (!replayed || await workerState(sql, of.worker_id) !== "DEAD") return "not yet";
  const file = fileOf(recoverer, of);
  for (const path of [file, draftOf(file)]) await Deno.remove(path).catch(() => {}); // another recovering worker was quicker
  return "settled";
}

/** Kills what it left running. True: proven gone. */
async function leftNothing(recoverer: JournalRecoverer, of: Identity): Promise<boolean> {
  const { killed, left } = await endOrphanProcesses(of, REMAINS_MS);
  const { worker_id } = of;
  if (killed > 0) observe("worker.orphans_killed", { worker_id, by: recoverer.worker_id, groups: killed });
  if (left.length > 0 && isNews(recoverer, `remains ${worker_id}`)) {
    observe("worker.uncertified", { worker_id, by: recoverer.worker_id, left: left.join(" ") });
  }
  return left.length === 0;
}

/** Records the outcomes in a worker's file. False: it cannot be read. */
async function replay(recoverer: JournalRecoverer, of: Identity): Promise<boolean> {
  const { worker_id } = of;
  const file = fileOf(recoverer, of);
  let endings: Ending[];
  try {
    endings = await readJournal(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return true; // another recovering worker was quicker
    if (isNews(recoverer, `file ${worker_id}`)) observe("spool.failed", { file, error: messageOf(error) });
    return false;
  }
  if (endings.length === 0) return true;
  let recorded = 0;
  for (let at = 0; at < endings.length; at += AT_ONCE) {
    recorded += await record(recoverer, of, endings.slice(at, at + AT_ONCE));
  }
  observe("outcomes.replayed", { worker_id, by: recoverer.worker_id, found: endings.length, recorded });
  return true;
}

/** As the worker itself would have done: its token is the proof. How many runs that moved. */
async function record(
  { sql, worker_id: by }: JournalRecoverer,
  { worker_id }: Identity,
  endings: Ending[],
): Promise<number> {
  const done = new Set((await finishAll(sql, worker_id, endings)).map(({ job_run_id }) => job_run_id));
  const others = endings.filter(({ job_run_id }) => !done.has(job_run_id));
  if (others.length === 0) return done.size;
  const before = new Set((await recordedBefore(sql, others)).map(({ job_run_id }) => job_run_id));
  for (const { job_run_id, attempt, outcome } of others) {
    if (before.has(job_run_id)) continue;
    const late = { job_run_id, attempt, worker_id, outcome };
    observe("run.late_result", late);
    await recordOnce(sql, {
      actor: by,
      action: "run.late_result",
      target_type: "run",
      target_id: job_run_id,
      after: late,
      reason: "the run had been taken from its worker before its outcome could be recorded",
    });
  }
  return done.size;
}

/**
 * One outcome that Postgres cannot take must not keep the others from being recorded, nor one whose row somebody's transaction keeps, nor all of
 * them each other, which take too long together.
 */
async function finishAll(sql: Sql, worker_id: string, endings: Ending[]): Promise<{ job_run_id: number }[]> {
  try {
    return await endRuns(sql, worker_id, endings);
  } catch (error) {
    const [only, ...more] = endings as [Ending, ...Ending[]];
    const of_one = (isTooLong(error) || isLockTimeout(error)) && more.length > 0;
    if (isUnreachable(error) && !of_one) throw error;
    if (more.length > 0) return (await Promise.all(endings.map((one) => finishAll(sql, worker_id, [one])))).flat();
    return await endRuns(sql, worker_id, [unstorable(only, messageOf(error))]);
  }
}

function fileOf(recoverer: JournalRecoverer, of: Identity): string {
  return resolvePath(journalsFolder(recoverer.state_dir), fileNameOf(of));
}

function isNews({ told }: JournalRecoverer, what: string): boolean {
  const news = !told.has(what);
  told.add(what);
  return news;
}
