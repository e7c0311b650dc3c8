/** Which jobs take an event with this payload: who emits by hand is told when it starts nothing, or nothing that can succeed. */
import { unfitIn } from "../definitions/args_schema.ts";
import { counted } from "../platform/text.ts";
import { issuesText } from "../sandbox/child/issues.ts";
import type { Db } from "../postgres/connection.ts";
import { readListeners } from "../events/events.ts";

export interface EventFit {
  /** Jobs that are on and name the type. */
  listening: number;
  /** Those of them whose condition and schema the payload fits. */
  fits: string[];
  unfit: { job_name: string; why: string }[];
}

export async function eventFit(sql: Db, event: { event_type: string; payload: unknown }): Promise<EventFit> {
  const listeners = await readListeners(sql, event);
  const fit: EventFit = { listening: listeners.length, fits: [], unfit: [] };
  for (const { job_name, args_schema, is_wanted } of listeners) {
    const issues = is_wanted ? unfitIn(args_schema, event.payload) : undefined;
    if (!is_wanted) fit.unfit.push({ job_name, why: "its condition (where) does not match" });
    else if (issues) fit.unfit.push({ job_name, why: issuesText(issues) });
    else fit.fits.push(job_name);
  }
  return fit;
}

const NAMED = 5;

/** Undefined: a job takes it, or none is for its type, which is another mistake. */
export function unfitText({ listening, fits, unfit }: EventFit): string | undefined {
  if (listening === 0 || fits.length > 0) return undefined;
  const named = unfit.slice(0, NAMED).map(({ job_name, why }) => `${job_name}: ${why}`).join("; ");
  const more = unfit.length > NAMED ? `; and ${unfit.length - NAMED} more` : "";
  return `the payload fits none of the ${counted(listening, "job")} for this type: ${named}${more}`;
}
