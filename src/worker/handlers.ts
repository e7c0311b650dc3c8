/**
 * What this worker answers on gRPC. Every handler is idempotent, and orders are obeyed only on authority (authority.ts).
 */
import { failpoint } from "../platform/failpoint.ts";
import { BatchInterval, monotonicMs, rest, Wakeup, wallClock } from "../platform/timers.ts";
import {
  type CancelJobRequest,
  type CancelJobResponse,
  type CodeTime,
  RpcRefusal,
  type StartOrder,
  type StartResult,
  type WorkerHandlers,
  type WorkerStatus,
} from "../rpc/messages.ts";
import type { CodeDuration } from "../sandbox/duration_estimate.ts";
import type { Sql } from "../postgres/connection.ts";
import { noteCheckPart } from "../nodes/node_health.ts";
import { setDraining } from "../nodes/workers.ts";
import { hasEnded } from "../runs/requests.ts";
import { LeaderAuthority } from "./authority.ts";
import { answerContinuation } from "./confirm.ts";
import type { CheckUp } from "./node_probe.ts";
import type { Executor } from "./executor.ts";
import type { Acceptance } from "./inflight_run.ts";
import type { PendingStarts } from "./pending_starts.ts";
import type { LocalWorkerState } from "./worker_state.ts";

export interface HandlerParts {
  sql: Sql;
  local: LocalWorkerState;
  executor: Executor;
  pending_starts: Pick<PendingStarts, "take" | "late">;
  check_up: CheckUp;
}

const STATUS_EVERY_MS = 1_000;
/** More of them would cost more than the runs that they tell of. */
const STATUS_GAP_MS = 10;
const STATUS_BURST = 10;
/** In one status: the others come with the next ones. */
const MOST_TIMES = 200;

export function workerHandlers(parts: HandlerParts): WorkerHandlers {
  const { local, executor } = parts;
  const authority = new LeaderAuthority(parts);
  const observed = () => ({ observed_leader_epoch: local.epoch });
  const startJobs: WorkerHandlers["startJobs"] = async (request, caller) => {
    const old = await authority.refusal(request.leader_epoch, caller);
    const results = await startEach(parts, request.orders, old);
    await failpoint("after-rpc-before-reply");
    return { results, ...observed() };
  };
  return {
    ping: () => ({
      worker_id: local.worker_id,
      node_id: local.node_id,
      now_unix_ms: wallClock().getTime(),
      ...observed(),
    }),
    getStatus: () => {
      const running = executor.runs;
      const current_job_run_id = running[0]?.job_run_id ?? null;
      return {
        ...statusOf(parts),
        running,
        load: executor.load,
        current_job_run_id,
        last_heartbeat_unix_ms: local.last_heartbeat_unix_ms,
      };
    },
    startJob: async (request, caller) => {
      const order = { ...request, due_unix_us: 0, priority: 0 };
      const { results: [said] } = await startJobs({ leader_epoch: request.leader_epoch, orders: [order] }, caller);
      const { result, message, other_code } = said as StartResult;
      return { result, message, other_code, ...observed() };
    },
    startJobs,
    cancelJob: async (request, caller) => {
      const old = await authority.refusal(request.leader_epoch, caller);
      if (old) return { result: "REJECTED_OLD_EPOCH", message: old.message, ...observed() };
      return { ...await cancel(parts, request), ...observed() };
    },
    drain: async (request, caller) => {
      const old = await authority.refusal(request.leader_epoch, caller);
      if (old) return { draining: local.draining, result: "REJECTED_OLD_EPOCH", ...observed() };
      if (local.stopping && !request.enable) {
        throw new RpcRefusal("FAILED_PRECONDITION", "Cannot end the drain: this worker's process is stopping");
      }
      local.draining = request.enable;
      if (request.noted) local.lease_wakeup.signal(); // the row may have changed since: the renewal that follows reads it
      else await setDraining(parts.sql, local.worker_id, request.enable);
      local.tell();
      return { draining: local.draining, result: "ACCEPTED", ...observed() };
    },
    confirmContinuation: (request, caller) => answerContinuation(parts, request, caller),
    checkNode: async (request) => {
      const measured = await parts.check_up.take(
        request.script_ms,
        (part) => noteCheckPart(parts.sql, local.node_id, part),
      );
      const lack = local.lack || measured.lack;
      return { worker_id: local.worker_id, node_id: local.node_id, bodies: executor.load, ...measured, lack };
    },
    watch: ({ status_every_ms = 0 }, _caller, stop) => watch(parts, Math.max(status_every_ms, STATUS_EVERY_MS), stop),
  };
}

/** One answer for each order. `old`: why none of them is obeyed. */
async function startEach(
  { pending_starts }: HandlerParts,
  orders: StartOrder[],
  old: Acceptance | undefined,
): Promise<StartResult[]> {
  const answers = orders.map((order) => old ?? pending_starts.take(order));
  const results: StartResult[] = [];
  for (const [place, { job_run_id, attempt }] of orders.entries()) {
    const answer = answers[place] as Acceptance | Promise<Acceptance>;
    const said = answer instanceof Promise ? await answer : answer; // most are known at once
    results.push({ job_run_id, attempt, ...said });
  }
  return results;
}

/** What is not in hand here is looked up in its row, which also knows of ends long ago. */
async function cancel(
  { sql, executor }: HandlerParts,
  run: CancelJobRequest,
): Promise<Pick<CancelJobResponse, "result" | "message">> {
  const told = executor.cancel(run, run.reason);
  if (told === "ACCEPTED") return { result: told, message: "" };
  const refused = (result: CancelJobResponse["result"], why: string) => {
    return { result, message: `Cannot cancel run "${run.job_run_id}": ${why}` };
  };
  const which = run.attempt === 0 ? "it" : `attempt ${run.attempt} of it`;
  const ended = told === "ALREADY_FINISHED" || await hasEnded(sql, run);
  return ended ? refused("ALREADY_FINISHED", `${which} has ended`) : refused("NOT_FOUND", "no body of it runs here");
}

/**
 * The status at once, soon after each change, and else each `every_ms`: silence means trouble. What is long (each run by its id, what runs take)
 * comes with the first, in one of each second, and when of some code it becomes known.
 */
async function* watch(parts: HandlerParts, every_ms: number, stop: AbortSignal): AsyncGenerator<WorkerStatus> {
  const wakeup = new Wakeup();
  const tempo = new BatchInterval(STATUS_GAP_MS, STATUS_BURST);
  const told = new Map<string, number>();
  let said = "";
  let said_ms = 0;
  let silent = true;
  let whole_ms = -Infinity;
  let codes_known = 0;
  parts.local.watchers.add(wakeup);
  try {
    while (!stop.aborted) {
      const { executor } = parts;
      const whole = monotonicMs() - whole_ms >= STATUS_EVERY_MS || executor.codesKnown > codes_known;
      if (whole) [whole_ms, codes_known] = [monotonicMs(), executor.codesKnown];
      const { released } = executor;
      const status = { ...statusOf(parts), released, lack: parts.local.lack, late: parts.pending_starts.late };
      const text = JSON.stringify(status);
      const news: boolean = silent || whole || text !== said; // the bell also rings for what is nobody's concern, as that a body has begun
      if (news) {
        [said, said_ms] = [text, monotonicMs()];
        const code_times = whole ? newsOf(executor.codeTimes(), told) : [];
        yield { ...status, running: whole ? executor.runs : [], code_times };
        await rest(tempo.wait(), stop);
      }
      silent = await wakeup.rest(news ? every_ms : said_ms + every_ms - monotonicMs(), stop) === 0;
    }
  } finally {
    parts.local.watchers.delete(wakeup);
  }
}

/** Of code that has run since it was told last; where that is much code, what has run most since then. */
function newsOf(times: CodeDuration[], told: Map<string, number>): CodeTime[] {
  const untold = ({ digest, runs }: CodeDuration) => runs - (told.get(digest) ?? 0);
  const news = times.filter((one) => untold(one) !== 0).sort((a, b) => untold(b) - untold(a)).slice(0, MOST_TIMES);
  for (const { digest, runs } of news) told.set(digest, runs);
  return news.map(({ digest, body_us }) => ({ digest, body_us }));
}

/** What every status says, asked for or watched. */
function statusOf({ local }: HandlerParts) {
  return {
    worker_id: local.worker_id,
    node_id: local.node_id,
    role: local.role,
    detached: local.detached,
    draining: local.draining,
    slots: local.slots,
    observed_leader_epoch: local.epoch,
  };
}
