/**
 * What every body of the chaos run does: it leaves a mark at its start and at its end in one file that all append to,
 * and meanwhile holds locks that the kernel frees at its death and not before. A lock that is held already is the proof,
 * without any clock, that two bodies which must not overlap do.
 */
import { Fatal, type RunContext } from "dandori";
import { FOLDER } from "./_place.ts";

export const permissions = { read: [FOLDER], write: [FOLDER] };

/** Does `work` between the two marks; `keys` are what no other body may hold at the same time, besides the run itself. */
export async function marked(
  { jobRunId: job_run_id, attempt, fence }: RunContext<unknown>,
  work: () => Promise<unknown> | unknown,
  keys: string[] = [],
): Promise<unknown> {
  const who = { job_run_id, attempt, fence, pid: Deno.pid };
  const locks = [`run ${job_run_id}`, ...keys].map((name) => ({ name, file: open(name) }));
  const overlaps = locks.filter(({ file }) => !file.tryLockSync(true)).map(({ name }) => name);
  note({ mark: "start", ...who, overlaps });
  let how = "failed";
  try {
    const result = await work();
    how = "succeeded";
    return result;
  } catch (error) {
    if (error instanceof Fatal) how = "fatal";
    throw error;
  } finally {
    note({ mark: "end", ...who, how });
    for (const { file } of locks) file.close();
  }
}

export function hold(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function open(name: string): Deno.FsFile {
  return Deno.openSync(`${FOLDER}/locks/${name}`, { read: true, write: true, create: true });
}

/** One small write at the end of the file: the kernel keeps such lines whole, and they outlive the process. */
function note(mark: Record<string, unknown>): void {
  Deno.writeTextFileSync(`${FOLDER}/marks.jsonl`, JSON.stringify({ at_ms: Date.now(), ...mark }) + "\n", {
    append: true,
  });
}
