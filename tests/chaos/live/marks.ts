/** The marks that bodies leave (jobs/_marks.ts), as the harness reads them. */

export interface Mark {
  at_ms: number;
  mark: "start" | "end";
  job_run_id: number;
  attempt: number;
  fence: number;
  pid: number;
  /** Of a start: locks that another body held. */
  overlaps?: string[];
  /** Of an end: succeeded, failed or fatal. */
  how?: string;
}

export function readMarks(file: string): Mark[] {
  try {
    return Deno.readTextFileSync(file).trimEnd().split("\n").map((line) => JSON.parse(line) as Mark);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return []; // no body ever ran
    throw error;
  }
}

export function bodyOf({ job_run_id, attempt, fence, pid }: Mark): string {
  return `${job_run_id}:${attempt}:${fence}:${pid}`;
}
