/**
 * Calls that come while others of their kind are under way go together in the next statement, each as if it had come alone: a commit of
 * one costs nearly what one of a hundred does. What keeps one of them from being done has undone all, so then each is asked for by itself.
 */
import { Batcher } from "../platform/timers.ts";
import { isRolledBack, isUnreachable } from "../postgres/connection.ts";

/** `chars`: how much of a statement it takes. */
export interface Sized {
  chars: number;
}

/** Not one: who comes second would wait for the first one's commit, and then for his own. */
const AT_ONCE = 2;
const MOST_TOGETHER = 200;
/** One may have as many by itself. */
const MOST_CHARS = 1_000_000;

/** `all` does all of them or none, and answers in their order. */
export function together<Item extends Sized, Answer>(all: (items: Item[]) => Promise<Answer[]>): Batcher<Item, Answer> {
  return new Batcher(async (items) => {
    const large = items.reduce((sum, { chars }) => sum + chars, 0) > MOST_CHARS;
    try {
      if (items.length === 1 || !large) return await all(items);
    } catch (error) {
      if (items.length === 1 || (isUnreachable(error) && !isRolledBack(error))) throw error; // the second may have been done
    }
    const alone = items.map(async (item) => (await all([item]))[0] as Answer);
    await Promise.allSettled(alone); // whoever comes meanwhile goes together
    return alone;
  }, { most: MOST_TOGETHER, at_once: AT_ONCE });
}
