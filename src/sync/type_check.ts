/**
 * Whether job files fit their types: what `deno check` says of them, with what is installed here and without the network. A mistake of types
 * is a warning: the code may run all the same. Workers never ask.
 */
import { messageOf } from "../platform/text.ts";
import type { Plan } from "./plan.ts";

/** The compiler takes some seconds to start, on a busy machine more. A sync is waited for. */
const CHECK_MS = 30_000;
const MOST_SHOWN = 10;

export interface CheckParts {
  jobs_dir: string;
  project_dir: string;
  /** Default 30 s. */
  check_ms?: number;
  /** Ends it without a word. */
  stop?: AbortSignal;
}

/** Of the jobs that a plan adds or changes: a line for each mistake, with file, line and column. */
export async function typeWarnings(
  { jobs_dir, project_dir, check_ms = CHECK_MS, stop }: CheckParts,
  plan: Plan,
): Promise<string[]> {
  const files = [...plan.added, ...plan.changed].map(({ file }) => `${jobs_dir}/${file}`);
  if (files.length === 0) return [];
  const late = AbortSignal.timeout(check_ms);
  try {
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["check", "--quiet", "--cached-only", "--config", `${project_dir}/deno.json`, ...files],
      cwd: project_dir,
      env: { NO_COLOR: "1" },
      stdin: "null",
      stdout: "null",
      signal: stop ? AbortSignal.any([late, stop]) : late,
    }).output();
    if (stop?.aborted) return [];
    if (late.aborted) return [`types were not checked: that took longer than ${check_ms / 1_000} s`];
    return success ? [] : mistakesIn(new TextDecoder().decode(stderr), jobs_dir);
  } catch (error) {
    return [`types were not checked: ${messageOf(error)}`];
  }
}

/** "TS2322 [ERROR]: why", lines of source, "at file:///jobs/a.ts:3:7", and an empty line. */
function mistakesIn(said: string, jobs_dir: string): string[] {
  const mistakes = said.split(/\n\n+/).flatMap((part) => {
    const [, code, why] = /^(TS\d+) \[ERROR\]: (.*)/m.exec(part) ?? [];
    const [, url, place] = /^ +at (file:\S+?):(\d+:\d+)$/m.exec(part) ?? [];
    if (code === undefined || url === undefined) return [];
    const path = decodeURIComponent(new URL(url).pathname);
    const file = path.startsWith(`${jobs_dir}/`) ? path.slice(jobs_dir.length + 1) : path;
    return [`types: ${file}:${place}: ${why} (${code})`];
  });
  const [first = "deno check failed"] = said.split("\n");
  if (mistakes.length === 0) return [`types were not checked: ${first}`];
  const more = mistakes.length - MOST_SHOWN;
  return [
    ...mistakes.slice(0, MOST_SHOWN),
    ...(more > 0 ? [`types: ${more} more mistakes; deno check shows them`] : []),
  ];
}
