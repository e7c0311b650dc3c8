/** A filter of the audit as it stands in the URL. What cannot be used is as if it were not there. */
import type { ActFilter } from "../../../store/audit.ts";
import type { Visit } from "../../visit.ts";

export interface WantedActs {
  filter: ActFilter;
  /** As they were typed. */
  since: string | undefined;
  until: string | undefined;
  any: boolean;
  /** Something of the rarer conditions is. */
  any_rare: boolean;
}

export function wantedActs(on: Visit): WantedActs {
  const text = (name: string) => on.query.get(name)?.trim().slice(0, 500) || undefined;
  const [since, until] = [text("since"), text("until")];
  const filter: ActFilter = {
    actor: text("actor"),
    action: text("action"),
    target_type: text("target-type"),
    target_id: text("target"),
    since: instantOf(since),
    until: instantOf(until),
  };
  const any = Object.values(filter).some((value) => value !== undefined);
  const any_rare = [filter.target_type, filter.target_id, filter.until].some((value) => value !== undefined);
  return { filter, since, until, any, any_rare };
}

/** "2026-11-21", with a time if wanted, in UTC where no zone is given. */
function instantOf(text: string | undefined): Date | undefined {
  const [, day, time = "00:00", zone = "Z"] =
    /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?))?(Z|[+-]\d{2}:\d{2})?$/.exec(text ?? "") ?? [];
  if (!day) return undefined;
  const at = new Date(`${day}T${time}${zone}`);
  return Number.isNaN(at.getTime()) ? undefined : at;
}
