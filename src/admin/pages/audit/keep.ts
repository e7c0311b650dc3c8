/** The audit as a file: what the filter of the URL means, the newest first, as many as a spreadsheet or a script takes well. */
import { type ActView, listActs } from "../../../access/audit.ts";
import type { Download, Visit } from "../../request_context.ts";
import { wantedActs } from "./filter.ts";

export const MOST_KEPT = 10_000;

const COLUMNS = ["id", "at", "actor", "action", "target_type", "target_id", "before", "after", "reason"] as const;

export async function keepJson(on: Visit): Promise<Download> {
  return { name: "audit.json", type: "application/json", text: JSON.stringify(await acts(on), null, 1) };
}

export async function keepCsv(on: Visit): Promise<Download> {
  const rows = (await acts(on)).map((act) => COLUMNS.map((name) => cell(act[name])).join(","));
  return { name: "audit.csv", type: "text/csv", text: [COLUMNS.join(","), ...rows, ""].join("\r\n") };
}

async function acts(on: Visit): Promise<ActView[]> {
  return await listActs(on.sql, { ...wantedActs(on).filter, most: MOST_KEPT });
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
