/** `audit`: who did what to what, when and why. */
import { differencesOf } from "../../admin/pages/audit/differences.ts";
import { type AuditEntry, type AuditFilter, listAudit, listAuditActions } from "../../access/audit.ts";
import { wordLike } from "../../platform/shown.ts";
import { type JsonOption, withDb } from "../operator.ts";
import { instantFrom } from "../inputs.ts";
import { CommandError, EXIT, printJson } from "../../app/output.ts";
import { printTable } from "../table.ts";

interface AuditOptions extends JsonOption {
  actor?: string;
  action?: string;
  target?: string;
  since?: string;
  until?: string;
  limit: number;
}

export async function auditCommand(options: AuditOptions): Promise<void> {
  const filter = filterOf(options);
  const actions = await withDb(async (sql) => {
    const found = await listAudit(sql, { ...filter, most: options.limit });
    if (found.length === 0 && filter.action !== undefined) refuseUnknown(filter.action, await listAuditActions(sql));
    return found;
  });
  if (options.json) return printJson(actions);
  printTable(
    ["id", "at", "actor", "action", "target", "changes", "reason"],
    actions.map((act) => [
      act.id,
      act.at,
      act.actor,
      act.action,
      `${act.target_type} ${act.target_id}`,
      changeText(act),
      act.reason,
    ]),
    Object.values(filter).some((value) => value !== undefined) ? "no matching entries" : "the audit log is empty",
  );
}

function filterOf({ actor, action, target, since, until }: AuditOptions): AuditFilter {
  const [, target_type, target_id] = /^([^ ]+)(?: (.+))?$/s.exec(target ?? "") ?? [];
  if (target !== undefined && target_type === undefined) {
    throw new CommandError(
      `Cannot use --target "${target}": give a kind, such as run, or one target, such as "run 812"`,
      EXIT.usage,
    );
  }
  return {
    actor,
    action,
    target_type,
    target_id,
    since: since === undefined ? undefined : instantFrom(since, "ago"),
    until: until === undefined ? undefined : instantFrom(until, "ago"),
  };
}

/** Acts that were never done are no mistake, but most likely misspelled where another one was. */
function refuseUnknown(action: string, known: string[]): void {
  if (known.some((one) => one === action || one.startsWith(`${action}.`))) return;
  const like = wordLike(action, [...known, ...known.map((one) => one.split(".")[0] as string)]);
  if (like) throw new CommandError(`Cannot find action "${action}": the audit log has none; did you mean "${like}"?`);
}

/** `priority 200 -> 120; enabled true`. */
function changeText({ before, after }: AuditEntry): string | null {
  return differencesOf(before, after).map(({ name, before: was, after: is }) => {
    const values = was === undefined ? is : `${was} -> ${is ?? "none"}`;
    return name === "" ? values : `${name} ${values}`;
  }).join("; ") || null;
}
