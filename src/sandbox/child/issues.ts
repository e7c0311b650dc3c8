/** The complaints of a schema as one line. Loaded into every body. */
import type { SchemaIssue } from "../../job.ts";

/** "tenant: expected string; rows[0].id: required". */
export function issuesText(issues: readonly SchemaIssue[]): string {
  const shown = issues.slice(0, 20).map((issue) => {
    const keys = (issue.path ?? []).map((part) => typeof part === "object" ? part.key : part);
    const path = keys.map((key) => typeof key === "number" ? `[${key}]` : `.${String(key)}`).join("").replace(
      /^\./,
      "",
    );
    return path === "" ? issue.message : `${path}: ${issue.message}`;
  });
  return shown.join("; ") + (issues.length > shown.length ? `; and ${issues.length - shown.length} more` : "");
}
