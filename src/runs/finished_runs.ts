/** What a worker says of runs that have ended, as the lists that the statement which ends them is given. */
import type { Db, Fragment } from "../postgres/connection.ts";
import { jsonText, numbered } from "../postgres/array_params.ts";

/** How a body ended, of the attempt that its token proves. */
export interface Ending {
  job_run_id: number;
  attempt: number;
  start_token: string;
  outcome: "SUCCEEDED" | "FAILED" | "TIMED_OUT" | "CANCELED";
  exit_code: number | null;
  error_name: string | null;
  error_summary: string | null;
  result: unknown;
  /** Failures after which this kind of error is final; 0: no retry. */
  retry_max: number;
  retry_after_ms: number;
  /** The next attempt must not be on this worker's node, if there is another. */
  other_node: boolean;
  /** `begins`: its steps may have something to undo, before it ends. `ends`: it was the execution that undoes (steps/undo_runs.ts). */
  undo?: "begins" | "ends";
  /** Its body left waits open, such as the one that lost a race: nobody is asked and no event looked for any more. */
  leaves_waits?: true;
}

/**
 * Of the ending at `place` in the list: `columns`, a row with all that it says, and `outcomeAt` for another place. Each kind of ending goes
 * once, and a number for each run.
 */
export function endingsOf(
  sql: Db,
  endings: readonly Ending[],
  place: Fragment,
): { columns: Fragment; outcomeAt: (place: Fragment) => Fragment } {
  const { numbers, kinds } = numbered(endings, kindOf);
  const of = <T>(say: (one: Ending) => T) => kinds.map(say);
  const outcomes = of((one) => one.outcome);
  return {
    columns: sql`
      select (${outcomes}::text[])[kind] as outcome, (${of((one) => one.exit_code)}::int[])[kind] as exit_code,
             (${of((one) => one.retry_max)}::int[])[kind] as retry_max,
             (${of((one) => Math.round(one.retry_after_ms))}::bigint[])[kind] as retry_after_ms,
             (${of((one) => Number(one.other_node))}::int[])[kind] as other_node,
             (${of((one) => one.error_name)}::text[])[kind] as error_name,
             (${of((one) => one.error_summary)}::text[])[kind] as error_summary,
             (${of((one) => jsonText(one.result))}::text[])[kind] as result
        from (select (${numbers}::int[])[${place}] as kind offset 0) once`,
    outcomeAt: (place) => sql`(${outcomes}::text[])[(${numbers}::int[])[${place}]]`,
  };
}

/** Most runs end like others: without words or a result of their own. */
function kindOf(one: Ending): unknown {
  if (one.result !== null || one.error_name !== null || one.error_summary !== null) return one;
  return [one.outcome, one.exit_code, one.retry_max, one.retry_after_ms, one.other_node].join();
}
