/**
 * Why a run, a bulk or a run queue waits: a code, and what it is about. Codes of runs are given by `wait_reason` (schema.sql), of
 * bulks by bulk_view.ts, of run queues by the leader (leader/admission.ts). `runs.wait.CODE` of the locales says it (locale/wait_text.ts).
 */
import type { Messages } from "../../locales/params.ts";
import { type AnyMessage, type Message, message, type MessageKey } from "../locale/message.ts";
import type { OtherCode } from "../nodes/other_code.ts";

export type WaitCode = MessageKey extends infer Key ? Key extends `runs.wait.${infer Code}` ? Code : never : never;

export type Wait<Code extends WaitCode = WaitCode> = {
  [One in Code]: { code: One; params: Messages[`runs.wait.${One}`] };
}[Code];

/** As it is read: a leader of another version may give a code that is not known here. */
export type Waits = AnyMessage;

/** So many workers have this version instead; null: none that they can read. */
export interface OtherVersion {
  digest: string | null;
  workers: number;
}

/** A version as people compare it: as short as a commit. */
export function versionOf(digest: string): string {
  return digest.slice(0, 7);
}

/** "2 have e17994f", "1 has none" */
export function versionsOf(others: readonly OtherVersion[] = []): Message[] {
  return others.map(({ digest, workers }) =>
    digest === null
      ? message("runs.version.none", { workers })
      : message("runs.version.have", { workers, version: versionOf(digest) })
  );
}

/** "hello has e17994f, synced is 06edc18" */
export function otherCodeText({ job_name, digest, found, problem }: OtherCode): string {
  const synced = `synced is ${versionOf(digest)}`;
  return found === null
    ? `${job_name} has none: ${problem}, ${synced}`
    : `${job_name} has ${versionOf(found)}, ${synced}`;
}

/** `on node "gpu-1"`, `with labels gpu=a100`; null: anywhere. */
export function whereOf(selector: string): Message | null {
  if (selector === "") return null;
  return selector.includes("=")
    ? message("runs.where.labels", { labels: selector })
    : message("runs.where.node", { node: selector });
}
