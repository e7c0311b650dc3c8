/** The gap between the statements of a busy worker, those that start runs and those that record their ends alike. */
import { BatchInterval } from "../platform/timers.ts";

/** Less than a line of runs lasts (sandbox/duration_estimate.ts): a longer gap would leave processes idle. */
const FLUSH_GAP_MS = 50;
/** So many come without it: a run that comes now and then waits for none of this. */
const FLUSH_BURST = 10;

export function batchInterval(): BatchInterval {
  return new BatchInterval(FLUSH_GAP_MS, FLUSH_BURST);
}
