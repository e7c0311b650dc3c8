/** Facts as lines for a person who watches `dev`. Nothing reads these; programs read the JSON of the workers. */
import { harmless } from "../platform/text.ts";
import type { FactName, Facts } from "../platform/facts.ts";

/** Too many, and of no use to somebody who tries out a job. */
const QUIET = new Set<string>(["process.started", "body.spawned", "run.assigned", "events.taken", "leader.ticks"]);
/** Deno's own, when processes start together in a fresh checkout: they wait for each other, and nothing is wrong. */
const OF_DENO = /^Blocking waiting for file lock/;

// deno-lint-ignore no-control-regex
const COLORS = /\x1b\[[0-9;]*m/g;

type Tellings = { [K in FactName]?: (fact: Facts[K]) => string };

const TELLINGS: Tellings = {
  "worker.ready": (fact) => `ready as ${fact.worker_id} at ${fact.grpc_address}, ${fact.slots} slots`,
  "worker.draining": (fact) => `draining: ${fact.reason}`,
  "worker.stopped": () => "stopped",
  "worker.detached": (fact) => `${fact.worker_id} is detached by ${fact.by}: ${fact.reason}`,
  "worker.lost": (fact) => `${fact.worker_id} is no more: ${fact.reason}`,
  "worker.buried": (fact) => `found ${fact.worker_id} dead`,
  "leader.elected": (fact) => `leads, epoch ${fact.epoch}`,
  "leader.tick_slow": (fact) => `is slow: a look for work took ${fact.tick_ms} ms`,
  "subleader.seated": () => "watches the leader",
  "node.status": (fact) => `node ${fact.node_id} is ${fact.status}${fact.problem ? `: ${fact.problem}` : ""}`,
  "leader.ended": (fact) => `leads no more: ${fact.reason}`,
  "run.started": (fact) => `run ${fact.job_run_id} ${fact.job_name} started${tryText(fact.attempt)}`,
  "run.finished": (fact) =>
    `run ${fact.job_run_id} ${fact.job_name} ${fact.state} after ${Math.round(fact.duration_ms)} ms${
      tryText(fact.attempt)
    }`,
  "run.suspended": (fact) => `run ${fact.job_run_id} ${fact.job_name} waits${tryText(fact.attempt)}`,
  "run.continuation": (fact) =>
    `run ${fact.job_run_id}: ${fact.asked} says ${fact.decision}${fact.message ? `, ${fact.message}` : ""}`,
  "run.canceled": (fact) => `run ${fact.job_run_id} CANCELED by ${fact.by}`,
  "run.deadline_passed": (fact) => `run ${fact.job_run_id} TIMED_OUT: its deadline has passed`,
  "run.skipped": (fact) => `run ${fact.job_run_id} SKIPPED: ${fact.reason}`,
  "run.orphaned": (fact) => `run ${fact.job_run_id} taken back from ${fact.worker_id}: ${fact.cause}`,
  "dev.service": (fact) => `${fact.service}: ${fact.state}, ${fact.detail}`,
  "admin.proxied": (fact) => `${fact.meaning} (a request had ${fact.header})`,
  "settings.problem": (fact) => `settings: ${fact.problem}`,
};

/** A line that a worker printed, in words; undefined when it is not worth telling. */
export function printLine(line: string): string | undefined {
  const said = asFact(line);
  if (!said) {
    const plain = line.replace(COLORS, "");
    return OF_DENO.test(plain) ? undefined : harmless(plain);
  }
  const { fact, at: _, ...details } = said;
  return QUIET.has(fact) ? undefined : harmless(printFact(fact as FactName, details as unknown as Facts[FactName]));
}

/** One fact in words. */
export function printFact<K extends FactName>(name: K, fact: Facts[K]): string {
  const tell = TELLINGS[name] as ((fact: Facts[K]) => string) | undefined;
  if (tell) return tell(fact);
  return [name, ...Object.entries(fact).map(([key, value]) => `${key}=${value}`)].join(" ");
}

function asFact(line: string): { fact: string; at?: string } | undefined {
  try {
    const said = JSON.parse(line) as { fact?: unknown } | null;
    return typeof said?.fact === "string" ? said as { fact: string } : undefined;
  } catch {
    return undefined;
  }
}

function tryText(attempt: number): string {
  return attempt > 1 ? `, attempt ${attempt}` : "";
}
