/**
 * The answer to ConfirmContinuation: may this body go on? Only a leader or subleader answers, and only from what Postgres
 * says now; the yes is a renewal of the asking worker's lease in Postgres (dispatch/detach.ts). Without Postgres there is
 * neither yes nor no, but UNAVAILABLE.
 *
 * Who asks is known by the certificate: it must be the one in the row of the worker that the question speaks of. Anyone
 * else could keep a dead worker's runs from being given to another.
 */
import { observe } from "../platform/facts.ts";
import { DeadlineExceeded, within } from "../platform/timers.ts";
import {
  type Caller,
  type ConfirmContinuationRequest,
  type ConfirmContinuationResponse,
  RpcRefusal,
} from "../rpc/messages.ts";
import { isUnreachable, type Sql } from "../postgres/connection.ts";
import { confirm, type ContinuationVerdict } from "../dispatch/detach.ts";
import type { LocalWorkerState } from "./worker_state.ts";

/** Shorter than those who ask wait for us: an answer that nobody hears helps nobody. */
const PATIENCE_MS = 800;

export async function answerContinuation(
  parts: { sql: Sql; local: LocalWorkerState },
  request: ConfirmContinuationRequest,
  caller: Caller,
): Promise<ConfirmContinuationResponse> {
  const { sql, local } = parts;
  if (local.role === "worker" || local.detached) {
    return unavailable(`${local.worker_id} is neither leader nor subleader now: ask one that is`);
  }
  const { worker_id, job_run_id, attempt } = request;
  const lease_ms = Math.round(local.settings.worker_lease_seconds * 1000); // 32.3 s are 32299.999999999996 ms, which the wire refuses
  const question = { worker_id, job_run_id, attempt, lease_ms, tls_fingerprint: caller.fingerprint };
  let verdict: ContinuationVerdict;
  try {
    verdict = await within(PATIENCE_MS, "Postgres", confirm(sql, question));
  } catch (error) {
    if (!isUnreachable(error) && !(error instanceof DeadlineExceeded)) throw error;
    return unavailable(`Postgres could not be asked from ${local.worker_id}: ${(error as Error).message}`);
  }
  if (!verdict.known) {
    const reason = `it asks for worker ${worker_id}, which is not known by this certificate`;
    observe("peer.refused", { reason, theirs: caller.fingerprint, ours: verdict.tls_fingerprint ?? "" });
    throw new RpcRefusal("PERMISSION_DENIED", `Only ${worker_id} itself may ask for its runs`);
  }
  if (verdict.allowed) return { decision: "ALLOW_CONTINUE", message: "", lease_ms, canceled: false };
  const message = `Run "${job_run_id}" may not go on as attempt ${attempt} on ${worker_id}: ${
    whyNot(request, verdict)
  }`;
  return { decision: "MUST_ABORT", message, lease_ms: 0, canceled: isMine(request, verdict) && verdict.canceled };
}

function unavailable(message: string): ConfirmContinuationResponse {
  return { decision: "UNAVAILABLE", message, lease_ms: 0, canceled: false };
}

function isMine(asked: ConfirmContinuationRequest, found: ContinuationVerdict): boolean {
  return found.state === "RUNNING" && found.attempt === asked.attempt && found.assigned_worker_id === asked.worker_id;
}

function whyNot(asked: ConfirmContinuationRequest, found: ContinuationVerdict): string {
  if (found.worker_state === "DEAD") return "the worker is DEAD";
  if (found.state === null) return "there is no such run";
  if (isMine(asked, found)) return found.canceled ? "a cancel was requested" : "it changed in this moment";
  return `it is ${found.state}, attempt ${found.attempt}, of ${found.assigned_worker_id ?? "no worker"}`;
}
