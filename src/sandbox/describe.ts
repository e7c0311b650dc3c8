/** The worker's side of `describe`: what a job file declares, or why it declares nothing, with the place when it is known. */
import { notInstalledText } from "../platform/not_installed.ts";
import { after } from "../platform/timers.ts";
import type { DescribeRefusal, Description } from "./child/describe_host.ts";
import type { BodyError, FromBody } from "./frames.ts";
import { NEVER_RESOLVED, tidy, urlsOf } from "./outcome.ts";
import type { Child, ChildEnd } from "./process.ts";

export type { Description } from "./child/describe_host.ts";

export type Described =
  | { ok: true; description: Description }
  | { ok: false; kind: RefusalKind; reason: string; line?: number; column?: number };

/**
 * `syntax`: it cannot be parsed, or imports what is not there. `crashed`: its process ended without a word, e.g. by Deno.exit or for want of memory. `invalid`: an option is
 * nothing that can be stored.
 */
export type RefusalKind = "syntax" | "threw" | "timeout" | "no_default" | "not_a_job" | "invalid" | "crashed";

/** Waits for the child's answer, at most `deadline_ms`, and for its end. */
export async function descriptionFrom(
  child: Child,
  on: { job_file: string; project_dir: string; deadline_ms: number },
): Promise<Described> {
  let late = false;
  let answer: FromBody | undefined;
  child.listen({
    onText() {}, // a job file may print what it likes
    onEnd() {},
    onFrame(frame) {
      if (frame.kind === "described" || frame.kind === "error" || frame.kind === "exiting") answer ??= frame;
    },
  });
  const cancel = after(on.deadline_ms, () => {
    late = answer === undefined;
    child.kill();
  });
  const end = await child.ended;
  cancel();
  if (answer?.kind === "described") return described(answer.described as unknown as Description | DescribeRefusal);
  if (answer?.kind === "error") return thrown(answer.error, on);
  if (late) {
    const reason = `the file was not loaded within ${
      on.deadline_ms / 1000
    } s: something at its top level loops or waits`;
    return { ok: false, kind: "timeout", reason };
  }
  if (NEVER_RESOLVED.test(end.last_words)) {
    const reason = "its top-level await waits for something that can no longer come";
    return { ok: false, kind: "threw", reason, ...placeIn(on.job_file, [end.last_words]) };
  }
  const exit_code = answer?.kind === "exiting" ? answer.code : undefined;
  return { ok: false, kind: "crashed", reason: crashOf(end, { ...on, exit_code }) };
}

function described(answer: Description | DescribeRefusal): Described {
  return "kind" in answer ? { ok: false, kind: answer.kind, reason: answer.reason } : { ok: true, description: answer };
}

/** What Deno says of a file that cannot be put together; it comes as a TypeError. */
const UNLOADABLE =
  /^SyntaxError: |^Module not found|^Attempted to load JSON module |^Import ".*" not |^Relative import path|^The module's source code could not be parsed|does not provide an export named/;

function thrown(error: BodyError, on: { job_file: string; project_dir: string }): Described {
  const kind = UNLOADABLE.test(error.message) ? "syntax" : "threw";
  const place = placeIn(on.job_file, [error.message, error.stack]);
  const elsewhere = place ? undefined : /at .*?(file:\/\/\S+?:\d+:\d+)/.exec(`${error.message}\n${error.stack}`)?.[1];
  const [first = ""] = error.message.split("\n"); // below it Deno draws the source
  const said = notInstalledText(error.message) ??
    (kind === "syntax" ? first.replace(/^SyntaxError: /, "") : `${error.name}: ${first}`);
  return { ok: false, kind, reason: tidy(elsewhere ? `${said} (at ${elsewhere})` : said, on.project_dir), ...place };
}

/** The first place in the job file that the texts name. */
function placeIn(job_file: string, texts: string[]): { line: number; column: number } | undefined {
  for (const text of texts) {
    // deno-lint-ignore no-control-regex
    const plain = text.replace(/\x1b\[[0-9;]*m/g, "");
    for (const url of urlsOf(job_file)) {
      const at = plain.indexOf(`${url}:`);
      const [, line, column] = at === -1 ? [] : /^:(\d+):(\d+)/.exec(plain.slice(at + url.length)) ?? [];
      if (line && column) return { line: Number(line), column: Number(column) };
    }
  }
}

function crashOf(end: ChildEnd, on: { project_dir: string; exit_code: number | undefined }): string {
  if (on.exit_code !== undefined) return `the file ends its process with exit code ${on.exit_code} when it is loaded`;
  if (/out of memory/i.test(end.last_words)) return "the file needs too much memory to be loaded";
  const words = tidy(end.last_words.trim(), on.project_dir).slice(-1_000);
  return `the process that loads the file ended with ${end.signal ?? `exit code ${end.code}`}${
    words ? `: ${words}` : ""
  }`;
}
