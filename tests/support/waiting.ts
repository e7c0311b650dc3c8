/** Waits for a fact that only a question can tell. */
import { rest } from "../../src/base/loop.ts";

/** Asks until the answer is there, which `false` is not; one generous limit, and what was waited for in the error. */
export async function waitFor<T>(
  what: string,
  ask: () => Promise<T | undefined | false>,
  within_ms = 30_000,
): Promise<T> {
  const late = AbortSignal.timeout(within_ms);
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (late.aborted) throw new Error(`Waited ${within_ms} ms for ${what}, in vain`);
    await rest(50);
  }
}
