/** A filter of the audit as it stands in the URL. What cannot be used is as if it were not there. */
import type { AuditFilter } from "../../../access/audit.ts";
import { isStorableDate } from "../../../postgres/connection.ts";
import type { RequestContext } from "../../request_context.ts";

export interface WantedActions {
  filter: AuditFilter;
  any: boolean;
  /** Something of the rarer conditions is. */
  any_rare: boolean;
}

export function wantedActions(on: RequestContext): WantedActions {
  const text = (name: string) => on.query.get(name)?.trim().slice(0, 500) || undefined;
  const filter: AuditFilter = {
    actor: text("actor"),
    action: text("action"),
    target_type: text("target-type"),
    target_id: text("target"),
    since: instantOf(text("since"), on.zone),
    until: instantOf(text("until"), on.zone),
  };
  const any = Object.values(filter).some((value) => value !== undefined);
  const any_rare = [filter.target_type, filter.target_id, filter.until].some((value) => value !== undefined);
  return { filter, any, any_rare };
}

/** "2026-11-21", with a time if wanted, on the viewer's wall where no zone is given. */
function instantOf(text: string | undefined, zone: string): Date | undefined {
  const [, day, time = "00:00", offset] =
    /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?))?(Z|[+-]\d{2}:\d{2})?$/.exec(text ?? "") ?? [];
  if (!day) return undefined;
  try {
    const instant = offset
      ? Temporal.Instant.from(`${day}T${time}${offset}`)
      : Temporal.PlainDateTime.from(`${day}T${time}`).toZonedDateTime(zone).toInstant();
    const at = new Date(instant.epochMilliseconds);
    return isStorableDate(at) ? at : undefined;
  } catch {
    return undefined;
  }
}
