/**
 * Places where a process can be made to stop, die or fail on purpose, so that a test decides what happens between two
 * steps instead of hoping for it. `SCHEDULER_FAILPOINT=name:hit:action[,…]`, for workers alone; without it a failpoint is
 * one comparison.
 *
 * `hit` counts from 1 how often this process came by. `action` happens at that hit only:
 *   stop       SIGSTOP to this process, at once; whoever wants it to go on sends SIGCONT
 *   kill       SIGKILL to this process, at once
 *   error      throws what a cut connection throws: after a statement its reply is lost, before it nothing was sent
 *   delay:ms   waits; not at a point in code that cannot wait
 *
 * Never set it in production: a worker says what it was given (`failpoint.set`), and each time that it obeys.
 */
import { observe } from "./facts.ts";
import { rest } from "./timers.ts";

/** Every failpoint and where it stands. */
export const FAILPOINTS = {
  "after-redis-lock": "a candidate has the lock in Redis, and has not asked Postgres for the term",
  "after-pg-acquire": "a term was won, from an empty seat or by deposing; Redis does not know, nothing was led",
  "after-depose": "a subleader has deposed the leader, and its own loop has not heard of it",
  "before-pg-renew": "the leader renews in Redis, and has not renewed in Postgres",
  "after-pg-renew": "the term was renewed, and the steps of the tick have not begun",
  "after-lease-check-slots": "trusted; the slots are planned, their runs not inserted",
  "after-lease-check-forbid": "trusted; slots of forbid jobs have runs, which are not skipped yet",
  "after-lease-check-replaced": "trusted; slots of replace jobs have runs, older ones are not asked to end yet",
  "after-lease-check-events": "trusted; events wait, their runs are not inserted",
  "after-lease-check-followers": "trusted; runs of a group have ended, those that come after are not inserted",
  "after-lease-check-arrivals": "trusted; something has come for suspended runs, which are still held",
  "after-lease-check-late": "trusted; runs that are late are not skipped yet",
  "after-lease-check-cancels": "trusted; requests to cancel are not carried out yet",
  "after-lease-check-refused": "trusted; an order failed or was refused, its run is not taken back yet",
  "after-lease-check-stuck": "trusted; what was assigned long ago is not taken back yet",
  "after-lease-check-detached": "trusted; what detached workers have not started is not taken back yet",
  "after-lease-check-detach": "trusted; workers of which nothing is heard are not detached yet",
  "after-lease-check-bury": "trusted; workers whose lease is over are not marked dead yet",
  "after-bury-before-orphan": "trusted; workers were marked dead, their runs are still theirs",
  "after-lease-check-quarantine": "trusted; runs that were interrupted too often are not given up yet",
  "after-lease-check-wake": "trusted; runs that have come due are still held",
  "after-lease-check-lines": "trusted; who is next in a line is still held",
  "after-lease-check-hold": "trusted; runs behind a key are still in dispatch's sight",
  "after-lease-check-why": "trusted; why lanes are closed is not written down yet",
  "after-lease-check-assign": "trusted; workers are chosen and the runs leased in Redis, not assigned",
  "before-archive-write": "trusted; old log lines are packed, their object is not written yet",
  "after-archive-write": "the object is written; Postgres has its lines still, and no log_ref leads to it",
  "after-assign-before-rpc": "runs were assigned, and their workers were not told",
  "after-rpc-before-reply": "a worker has carried out StartJobs, and has not answered",
  "before-start-commit": "a worker takes a run, and has not said so to Postgres",
  "after-start-commit-before-spawn": "Postgres has the run as RUNNING; that reply was not looked at, there is no body",
  "after-spawn-before-guard": "a process for a body is there; its guard has not heard of it, nor it of its run",
  "after-spawn": "a body has its order on the way",
  "after-body-exit-before-finish": "a body's outcome is known and it is proven gone; Postgres does not know",
  "after-finish-commit": "Postgres has the outcome; that reply was not looked at",
  "before-step-commit": "bodies have said what their steps gave; Postgres does not know",
  "after-step-commit": "Postgres has the steps; that reply was not looked at, the bodies wait for it",
  "before-suspend": "a body waits and is frozen, nothing has come; Postgres does not know",
  "after-suspend-commit": "Postgres has the run as SUSPENDED; that reply was not looked at, its body is still there",
  "before-give-back": "a worker gives back a run that it did not end, and has not said so to Postgres",
  "after-register": "a worker has its row, and does not renew yet",
  "after-worker-renew": "a worker has renewed its lease, and has not looked at what it was told",
  "during-drain": "a worker that stops takes nothing new, and its bodies go on",
  "after-bodies-gone-before-retire": "a worker that stops has ended all bodies, and its row says that it lives",
  "between-cert-read-and-key-read": "new TLS files are read: the certificate was, its key was not. Cannot wait",
} as const;

export type FailpointName = keyof typeof FAILPOINTS;

export interface Failpoint {
  name: FailpointName;
  hit: number;
  action: "stop" | "kill" | "error" | "delay";
  delay_ms: number;
}

let set: readonly Failpoint[] = [];
const hits = new Map<FailpointName, number>();

/** Stands in the code, one line each. Nothing is to be waited for unless it is set to wait. */
export function failpoint(name: FailpointName): Promise<void> | undefined {
  if (set.length > 0) return comeBy(name);
}

/** From now on these are obeyed, and nothing else. Facts say so. */
export function setFailpoints(failpoints: readonly Failpoint[]): void {
  set = failpoints;
  hits.clear();
  for (const one of set) observe("failpoint.set", factOf(one));
}

function comeBy(name: FailpointName): Promise<void> | undefined {
  const hit = (hits.get(name) ?? 0) + 1;
  hits.set(name, hit);
  const found = set.find((one) => one.name === name && one.hit === hit);
  if (!found) return;
  observe("failpoint.hit", factOf(found));
  switch (found.action) {
    case "stop":
      Deno.kill(Deno.pid, "SIGSTOP"); // comes back from here when it goes on
      return;
    case "kill":
      Deno.kill(Deno.pid, "SIGKILL");
      return;
    case "error":
      throw Object.assign(new Error(`failpoint ${name}: the connection was cut`), { code: "ECONNRESET" });
    case "delay":
      return rest(found.delay_ms);
  }
}

function factOf({ name, hit, action, delay_ms }: Failpoint) {
  return { failpoint: name, hit, action: action === "delay" ? `delay:${delay_ms}` : action };
}

/** Reads `name:hit:action[,…]`; what cannot be understood is added to `problems`. */
export function failpointsIn(text: string, problems: string[]): Failpoint[] {
  const found: Failpoint[] = [];
  for (const word of text.split(",").map((part) => part.trim()).filter(Boolean)) {
    const one = failpointIn(word);
    if (typeof one === "string") problems.push(`SCHEDULER_FAILPOINT has "${word}": ${one}`);
    else found.push(one);
  }
  return found;
}

function failpointIn(word: string): Failpoint | string {
  const [name = "", hit = "", action = "", ms, ...more] = word.split(":");
  if (!Object.hasOwn(FAILPOINTS, name)) {
    return `there is no failpoint "${name}"; there are ${Object.keys(FAILPOINTS).join(", ")}`;
  }
  if (!/^[1-9]\d*$/.test(hit)) return `the hit must be a whole number from 1: current value is "${hit}"`;
  const to_wait = action === "delay";
  const known = to_wait ? /^\d+$/.test(ms ?? "") : ["stop", "kill", "error"].includes(action) && ms === undefined;
  if (!known || more.length > 0) return `the action must be stop, kill, error or delay:ms`;
  return {
    name: name as FailpointName,
    hit: Number(hit),
    action: action as Failpoint["action"],
    delay_ms: to_wait ? Number(ms) : 0,
  };
}
