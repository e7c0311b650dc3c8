/** What a body threw, as plain data that can cross to the worker. Runs in the body's process. */
import { Fatal, RetryAfter } from "../../job.ts";
import type { BodyError } from "../frames.ts";
import { whyNotJson } from "../json_values.ts";

/** Whatever was thrown, as plain data. Never throws itself, whatever the value's getters do; each text is cut, or the frame would be dropped. */
export function describeError(thrown: unknown): BodyError {
  try {
    const chain = causesOf(thrown);
    const denied = chain.filter(isDenial).map((error) => messageOf(error))[0];
    return {
      phase: "run",
      name: nameOf(thrown),
      message: messageOf(thrown).slice(0, 16 * 1024),
      stack: stackOf(thrown),
      causes: chain.slice(1).map((cause) => `${nameOf(cause)}: ${messageOf(cause)}\n${stackOf(cause)}`.slice(0, 4096)),
      retry: retryOf(thrown),
      ...(denied === undefined ? {} : { denied: denied.slice(0, 16 * 1024) }),
    };
  } catch {
    const message = "what was thrown cannot be read";
    return { phase: "run", name: "NonError", message, stack: "", causes: [], retry: "policy" };
  }
}

function causesOf(thrown: unknown): unknown[] {
  const chain = [thrown];
  while (chain.length < 4 && chain.at(-1) instanceof Error && (chain.at(-1) as Error).cause !== undefined) {
    chain.push((chain.at(-1) as Error).cause);
  }
  return chain;
}

function nameOf(thrown: unknown): string {
  if (isDenial(thrown)) return "NotCapable"; // Deno throws a TypeError where an import is what was not granted
  return thrown instanceof Error ? String(thrown.name || "Error").slice(0, 200) : "NonError";
}

/** Errors that hold each other are told to a depth: they may be a circle, or many. */
function messageOf(thrown: unknown, depth = 2): string {
  if (thrown instanceof AggregateError && depth > 0) {
    const each = thrown.errors.slice(0, 5).map((one) => `${nameOf(one)}: ${messageOf(one, depth - 1)}`.slice(0, 4096));
    return [thrown.message, ...each].join("\n");
  }
  if (thrown instanceof Error) return String(thrown.message);
  return typeof thrown === "string" ? thrown : whyNotJson(thrown, "it") ? Deno.inspect(thrown) : JSON.stringify(thrown);
}

/** The `at` lines only: the message is told apart from them. */
function stackOf(thrown: unknown): string {
  const lines = thrown instanceof Error ? String(thrown.stack ?? "").split("\n") : [];
  return lines.filter((line) => /^\s+at /.test(line)).slice(0, 30).map((line) => line.slice(0, 1024)).join("\n");
}

function isDenial(thrown: unknown): boolean {
  return (thrown instanceof Deno.errors.NotCapable || thrown instanceof TypeError) &&
    /^Requires \w+ access/.test(thrown.message);
}

/** It is, holds, or comes of what a step or a call has ended with: that would be delivered again. */
function isFinal(thrown: unknown, depth: number): boolean {
  if (!(thrown instanceof Error) || depth === 0) return false;
  if (["StepFailed", "ChildFailed", "UndoFailed", "Diverged"].includes(thrown.name)) return true;
  const others = thrown instanceof AggregateError ? thrown.errors.slice(0, 100) : [];
  return [thrown.cause, ...others].some((one) => isFinal(one, depth - 1));
}

/** By structure as well as by class: a library may bring its own copy of the class. */
function retryOf(thrown: unknown): BodyError["retry"] {
  if (!(thrown instanceof Error)) return "policy";
  if (thrown instanceof Fatal || thrown.name === "Fatal" || isFinal(thrown, 4)) return "never";
  const seconds = (thrown as { seconds?: unknown }).seconds;
  const asks = thrown instanceof RetryAfter || thrown.name === "RetryAfter";
  return asks && typeof seconds === "number" && seconds >= 0 && Number.isFinite(seconds)
    ? { after_seconds: seconds }
    : "policy";
}
