/** The lines that bodies of workflows leave (jobs/_steps.ts), as evidence. */
import type { Effect } from "../checker.ts";
import type { Delivery, StepBody, StepEvidence } from "../steps_evidence.ts";

interface Trace {
  at_ms: number;
  job_run_id: number;
  fence: number;
  pid: number;
  what: "start" | "began" | "did" | "threw" | "told";
  key: string;
  tries: number;
  once?: boolean;
  overlaps?: true;
  place: number;
  outcome: string;
  value?: unknown;
}

export interface Traced {
  steps: StepEvidence;
  /** Executions, from the first to the last line of each; which attempt that was, the rows say. */
  executions: Omit<Effect, "attempt">[];
  overlaps: { job_run_id: number; detail: string }[];
}

export function readTraces(file: string): Traced {
  const traces = linesOf(file);
  const open = new Map<string, StepBody>();
  const bodies: StepBody[] = [];
  const deliveries: Delivery[] = [];
  const executions = new Map<string, Omit<Effect, "attempt">>();
  for (
    const [line, { at_ms, job_run_id, fence, pid, what, key, tries, once, place, outcome, value }] of traces.entries()
  ) {
    const execution = executions.get(`${job_run_id}:${fence}:${pid}`) ?? { job_run_id, fence, started_ms: at_ms };
    executions.set(`${job_run_id}:${fence}:${pid}`, { ...execution, ended_ms: at_ms });
    const body = `${job_run_id}:${fence}:${key}:${tries}`;
    if (what === "began") {
      const one: StepBody = { job_run_id, fence, key, tries, line, began_ms: at_ms, ...(once ? { once } : {}) };
      bodies.push(one);
      open.set(body, one);
    } else if (what === "did") Object.assign(open.get(body) ?? {}, { ended_ms: at_ms, value });
    else if (what === "threw") Object.assign(open.get(body) ?? {}, { ended_ms: at_ms, value: "it threw" });
    else if (what === "told") deliveries.push({ job_run_id, fence, place, key, line, at_ms, outcome, value });
  }
  const overlaps = traces.filter(({ overlaps }) => overlaps).map(({ job_run_id, key }) => ({
    job_run_id,
    detail: `"${key}" began while another body of it held its lock`,
  }));
  return { steps: { bodies, deliveries }, executions: [...executions.values()], overlaps };
}

function linesOf(file: string): Trace[] {
  try {
    return Deno.readTextFileSync(file).trimEnd().split("\n").map((line) => JSON.parse(line) as Trace);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}
