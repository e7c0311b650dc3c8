/** Versions of a job's code, as Japanese pages name what workers have instead of what was synced. */
import { type OtherVersion, versionOf } from "../../runs/wait_reason.ts";

/** "（e17994f：2 台、読めるファイルなし：1 台）" */
export function othersJa(others: OtherVersion[] = []): string {
  if (others.length === 0) return "";
  const each = others.map(({ digest, workers }) =>
    `${digest === null ? "読めるファイルなし" : versionOf(digest)}：${workers} 台`
  );
  return `（${each.join("、")}）`;
}
