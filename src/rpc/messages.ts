/**
 * The words of proto/worker.proto in TypeScript: messages as plain objects whose fields carry the names of the columns,
 * and the handlers that a worker supplies.
 *
 * Two conversions happen at this edge and nowhere else: a run's id is decimal text on the wire and a number in our code,
 * and an int64 that a number cannot hold exactly makes the message invalid rather than a rounded epoch.
 */
import { loadSync } from "@grpc/proto-loader";
import type { ServiceDefinition } from "@grpc/grpc-js";
import { fromFileUrl } from "../platform/paths.ts";

export type ClusterRole = "leader" | "subleader" | "worker";

export interface PingRequest {
  caller_role: ClusterRole;
  leader_epoch: number;
}
export interface PingResponse {
  worker_id: string;
  node_id: string;
  observed_leader_epoch: number;
  now_unix_ms: number;
}

export type GetStatusRequest = PingRequest;
export interface GetStatusResponse {
  worker_id: string;
  node_id: string;
  role: ClusterRole;
  detached: boolean;
  draining: boolean;
  load: number;
  /** Null when idle. */
  current_job_run_id: number | null;
  observed_leader_epoch: number;
  last_heartbeat_unix_ms: number;
  slots: number;
  running: RunningJob[];
}
export interface RunningJob {
  job_run_id: number;
  attempt: number;
}

export type StartResultCode =
  | "RESULT_UNSPECIFIED"
  | "ACCEPTED"
  | "REJECTED_OLD_EPOCH"
  | "REJECTED_DETACHED"
  | "REJECTED_DRAINING"
  | "REJECTED_ALREADY_RUNNING"
  | "REJECTED_INVALID"
  | "REJECTED_FULL";
export interface StartJobRequest {
  leader_epoch: number;
  job_run_id: number;
  attempt: number;
  /** Hints, as in StartOrder. */
  command_name: string;
  digest: string;
  /** For logs; the worker reads what it runs from Postgres. */
  args_json?: string;
  timeout_seconds?: number;
}
export interface StartJobResponse {
  result: StartResultCode;
  message: string;
  other_code?: RefusedCode | null;
  observed_leader_epoch: number;
}
/** What a worker has instead of the code that was asked for; an empty digest: its file is missing or cannot be read. */
export interface RefusedCode {
  digest: string;
}
export interface StartJobsRequest {
  leader_epoch: number;
  orders: StartOrder[];
}
export interface StartOrder {
  job_run_id: number;
  attempt: number;
  /** Hints, so that a worker can refuse code that it does not have; the row in Postgres decides. */
  command_name: string;
  digest: string;
  /** When it is due by the database's clock, in microseconds since 1970; 0: now. A hint as well. */
  due_unix_us: number;
  /** Lower goes first, where the worker has to let them wait for a slot. */
  priority: number;
  /** It is being assigned while this is on its way: to be refused as invalid is no news. */
  assigning?: boolean;
}
export interface StartJobsResponse {
  /** One for each order, in the order of the orders. */
  results: StartResult[];
  observed_leader_epoch: number;
}
/** One message of the stream for orders. */
export interface OrdersRequest {
  /** The caller's own, which its answer carries. */
  number: number;
  start: StartJobsRequest;
}
export interface OrdersResponse {
  number: number;
  started?: StartJobsResponse | null;
  /** Instead of `started`: the gRPC status that a call would have failed with. */
  refused?: { code: number; message: string } | null;
}
export interface StartResult {
  job_run_id: number;
  attempt: number;
  result: StartResultCode;
  message: string;
  /** Why it was REJECTED_INVALID, if only for the worker's files: the assignment is undone already, and no attempt. */
  other_code?: RefusedCode | null;
}

export interface CancelJobRequest {
  leader_epoch: number;
  job_run_id: number;
  reason: string;
  /** 0: whichever attempt is running. */
  attempt: number;
}
export interface CancelJobResponse {
  result: "RESULT_UNSPECIFIED" | "ACCEPTED" | "REJECTED_OLD_EPOCH" | "NOT_FOUND" | "ALREADY_FINISHED";
  message: string;
  observed_leader_epoch: number;
}

export interface DrainRequest {
  leader_epoch: number;
  enable: boolean;
  /** The worker's row says so already: it is read again, and not written. */
  noted?: boolean;
}
export interface DrainResponse {
  draining: boolean;
  result: "RESULT_UNSPECIFIED" | "ACCEPTED" | "REJECTED_OLD_EPOCH";
  observed_leader_epoch: number;
}

export interface ConfirmContinuationRequest {
  leader_epoch: number;
  worker_id: string;
  job_run_id: number;
  attempt: number;
}
export interface ConfirmContinuationResponse {
  decision: "DECISION_UNSPECIFIED" | "ALLOW_CONTINUE" | "MUST_ABORT" | "UNAVAILABLE";
  message: string;
  /** With ALLOW_CONTINUE: how long the worker's lease is now. */
  lease_ms: number;
  /** With MUST_ABORT: since somebody asked to cancel the run. */
  canceled: boolean;
}

export interface CheckNodeRequest extends PingRequest {
  script_ms: number;
}
export interface CheckNodeResponse {
  worker_id: string;
  node_id: string;
  load_percent: number;
  cores: number;
  /** -1: could not be measured. */
  disk_free_mb: number;
  memory_free_mb: number;
  bodies: number;
  scripts: ScriptCheck[];
  /** What the machine lacks for bodies to begin, in the system's words; empty: nothing. */
  lack: string;
}
export interface ScriptCheck {
  name: string;
  ok: boolean;
  message: string;
  ms: number;
}

export interface WatchRequest extends PingRequest {
  /** How long no status may come where nothing changes; 0 or left out: a second, which is also the least. */
  status_every_ms?: number;
}
export interface WorkerStatus {
  worker_id: string;
  node_id: string;
  role: ClusterRole;
  detached: boolean;
  draining: boolean;
  slots: number;
  /** All of them in the first message of a stream and in one of each second; none in those between. */
  running: RunningJob[];
  /** How many runs it has let go since it began, ended or not: whoever waits for a slot, a limit or a key may look when it rises. */
  released: number;
  observed_leader_epoch: number;
  /** Of code that has run since it was last said on this stream, at most 200 of them. */
  code_times: CodeTime[];
  /** What its machine lacks for bodies to begin: it takes no orders for now. */
  lack: string;
  /** No slot came free in time lately for what it was sent beyond its slots: nothing beyond them for now. */
  late: boolean;
}
/** What a run of this code takes of a worker's slot, lately; at most 2,147 s. */
export interface CodeTime {
  digest: string;
  body_us: number;
}

/** Who calls, as the TLS connection proved it. Everything that a message says about its sender is only a claim. */
export interface Caller {
  /** SHA-256 of the caller's certificate, as `openssl x509 -fingerprint -sha256` prints it; `mesh` for all in a mesh. */
  fingerprint: string;
  address: string;
}

/** The unary calls: their requests and replies. */
export interface UnaryCalls {
  ping: { request: PingRequest; response: PingResponse };
  getStatus: { request: GetStatusRequest; response: GetStatusResponse };
  startJob: { request: StartJobRequest; response: StartJobResponse };
  startJobs: { request: StartJobsRequest; response: StartJobsResponse };
  cancelJob: { request: CancelJobRequest; response: CancelJobResponse };
  drain: { request: DrainRequest; response: DrainResponse };
  confirmContinuation: { request: ConfirmContinuationRequest; response: ConfirmContinuationResponse };
  checkNode: { request: CheckNodeRequest; response: CheckNodeResponse };
}
export type CallName = keyof UnaryCalls;

/**
 * What a worker does on each call. A refusal by rule is a value; a `RpcRefusal` that is thrown becomes its status, and
 * any other error an INTERNAL without its text.
 */
export type WorkerHandlers =
  & {
    [Name in CallName]: (
      request: UnaryCalls[Name]["request"],
      caller: Caller,
    ) => UnaryCalls[Name]["response"] | Promise<UnaryCalls[Name]["response"]>;
  }
  & {
    /** Status now and at each change. `stop` fires when the watcher is gone; the iteration must end then. */
    watch(request: WatchRequest, caller: Caller, stop: AbortSignal): AsyncIterable<WorkerStatus>;
  };

/** A handler's way to answer with a gRPC status. Its message is sent to the caller. */
export class RpcRefusal extends Error {
  override name = "RpcRefusal";
  constructor(
    readonly code: "UNAVAILABLE" | "INVALID_ARGUMENT" | "PERMISSION_DENIED" | "FAILED_PRECONDITION" | "UNIMPLEMENTED",
    message: string,
  ) {
    super(message);
  }
}

/** WorkerService as gRPC wants it. Read from the file beside the sources, whatever the working directory is. */
export const workerService: ServiceDefinition = loadService();

function loadService(): ServiceDefinition {
  const file = fromFileUrl(new URL("../../proto/worker.proto", import.meta.url));
  const loaded = loadSync(file, { keepCase: true, longs: Number, enums: String, defaults: true });
  return loaded["scheduler.v1.WorkerService"] as ServiceDefinition;
}

export class BadMessage extends Error {
  override name = "BadMessage";
}

/**
 * A message as it came from the wire, made ours: run ids become numbers, and what cannot be held exactly is refused.
 * An empty `current_job_run_id` becomes null.
 */
export function admit<T>(message: unknown): T {
  if (Array.isArray(message)) {
    message.forEach((item) => {
      if (typeof item === "object") admit(item);
    });
  } else {
    const fields = message as Record<string, unknown>;
    for (const [name, value] of Object.entries(fields)) {
      if (typeof value === "number" && !Number.isSafeInteger(value)) {
        throw new BadMessage(`Cannot read message: ${name} is beyond 2^53`);
      }
      if (name === "job_run_id") fields[name] = runIdFrom(value);
      else if (name === "current_job_run_id") fields[name] = value === "" ? null : runIdFrom(value);
      else if (typeof value === "object" && value !== null) admit(value);
    }
  }
  return message as T;
}

function runIdFrom(text: unknown): number {
  const id = typeof text === "string" && /^[1-9][0-9]{0,15}$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(id)) {
    throw new BadMessage(`Cannot read message: job_run_id ${JSON.stringify(text)?.slice(0, 40)} is no id of a run`);
  }
  return id;
}
