/** A filter of runs as it stands in the URL: the words of the command line's --where. */
import type { RunFilter } from "../../../runs/run_filter.ts";
import { type RunState, STATES } from "../../../runs/run_states.ts";
import type { RequestContext } from "../../request_context.ts";

/** What the page offers, in hours. */
export const SPANS = { hour: 1, day: 24, week: 7 * 24 } as const;
export type RunSpan = keyof typeof SPANS;

const HOUR_MS = 3_600_000;

export interface RunListQuery {
  filter: RunFilter;
  states: RunState[];
  span: RunSpan | undefined;
  /** Anything is asked for, or something that stands among the rarer conditions. */
  any: boolean;
  any_rare: boolean;
}

/** What cannot be used is as if it were not there: a URL is often typed. */
export function wantedRuns(on: RequestContext): RunListQuery {
  const text = (name: string) => on.query.get(name) || undefined;
  const states = STATES.filter((state) => on.query.getAll("state").includes(state));
  const span = (Object.keys(SPANS) as RunSpan[]).find((one) => one === text("within"));
  const bulk = text("bulk");
  const rare: RunFilter = {
    serial_key: text("serial-key"),
    error_name: text("error"),
    ran_on: text("ran-on"),
    bulk_id: bulk && /^\d{1,15}$/.test(bulk) ? Number(bulk) : undefined,
  };
  const filter: RunFilter = {
    ...rare,
    job_name: text("job"),
    states: states.length > 0 ? states : undefined,
    since: span && new Date(on.now.getTime() - SPANS[span] * HOUR_MS),
  };
  const given = (one: RunFilter) => Object.values(one).some((value) => value !== undefined);
  return { filter, states, span, any: given(filter), any_rare: given(rare) };
}
