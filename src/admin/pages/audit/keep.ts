/** The audit as a file: what the filter of the URL means, the newest first, as many as a spreadsheet or a script takes well. */
import { type AuditEntry, listAudit } from "../../../access/audit.ts";
import type { Download, RequestContext } from "../../request_context.ts";
import { wantedActions } from "./filter.ts";

export const MOST_KEPT = 10_000;

const COLUMNS = ["id", "at", "actor", "action", "target_type", "target_id", "before", "after", "reason"] as const;

export async function keepJson(on: RequestContext): Promise<Download> {
  return { name: "audit.json", type: "application/json", text: JSON.stringify(await actions(on), null, 1) };
}

export async function keepCsv(on: RequestContext): Promise<Download> {
  const rows = (await actions(on)).map((act) => COLUMNS.map((name) => cell(act[name])).join(","));
  return { name: "audit.csv", type: "text/csv", text: [COLUMNS.join(","), ...rows, ""].join("\r\n") };
}

async function actions(on: RequestContext): Promise<AuditEntry[]> {
  return await listAudit(on.sql, { ...wantedActions(on).filter, most: MOST_KEPT });
}

/** A text that a spreadsheet would run as a formula gets an apostrophe before it. */
function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = value instanceof Date
    ? value.toISOString()
    : typeof value === "object"
    ? JSON.stringify(value)
    : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
