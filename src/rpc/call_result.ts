/** What came of a call to another worker: its reply, or why there is none. A failure is a value that the caller must look at. */
import { type ServiceError, status } from "@grpc/grpc-js";
import { admit } from "./messages.ts";

/** A gRPC status by name. DEADLINE_EXCEEDED and UNAVAILABLE are the network's; the rest the peer's. */
export type FailureCode = Exclude<keyof typeof status, "OK">;
export interface Failure {
  ok: false;
  code: FailureCode;
  message: string;
}
export type CallResult<T> = { ok: true; value: T } | Failure;

export function failureFrom(error: Pick<ServiceError, "code" | "details" | "message">): Failure {
  return { ok: false, code: (status[error.code] ?? "UNKNOWN") as FailureCode, message: error.details || error.message };
}

/** A message as it came, made ours. */
export function read<T>(message: unknown): CallResult<T> {
  try {
    return { ok: true, value: admit<T>(message) };
  } catch (error) {
    return { ok: false, code: "INTERNAL", message: (error as Error).message };
  }
}
