/** What a worker has to say to Postgres, while that is away. */
import { rest } from "../platform/timers.ts";
import { isUnreachable } from "../postgres/connection.ts";

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2_000;

/** Asks until Postgres answers: an outcome is not lost because the database is away. Other errors are errors, and so is every one once it is over. */
export async function untilHeard<T>(ask: () => Promise<T>, over: AbortSignal): Promise<T> {
  for (let wait_ms = FIRST_WAIT_MS;; wait_ms = Math.min(wait_ms * 2, LONGEST_WAIT_MS)) {
    try {
      return await ask();
    } catch (error) {
      if (!isUnreachable(error) || over.aborted) throw error;
      await rest(wait_ms, over);
    }
  }
}
