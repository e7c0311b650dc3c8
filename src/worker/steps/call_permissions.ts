/** Which jobs the body of a run may start: those that its job's permissions name. Its host checks it too; a body is not trusted. */
import type { ChildOrder, StepFrame } from "../../sandbox/frames/step_frames.ts";
import type { StartedRun } from "../../runs/started_runs.ts";

/** Why it may not, and how it may; undefined: it may. */
export function callRefusal(run: StartedRun, frame: StepFrame, child: ChildOrder): string | undefined {
  const { call } = (run.permissions ?? {}) as { call?: unknown };
  if (call === true || (Array.isArray(call) && call.some((name) => fits(String(name), child.job)))) return undefined;
  const act = frame.request === "start" ? "start" : "call";
  return `Cannot ${act} job "${child.job}" from "${run.job_name}": its permissions do not name it; ` +
    `add "${child.job}" to permissions.call of its job file, and deno task sync`;
}

/** `*` stands for any characters. */
function fits(pattern: string, name: string): boolean {
  const [first = "", ...others] = pattern.split("*");
  const last = others.pop();
  if (last === undefined) return pattern === name;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of others) {
    const found = name.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}
