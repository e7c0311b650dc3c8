/**
 * What takes long: few at once of one caller, and few that wait for them, so that nobody keeps the others waiting. How long one may
 * take is bounded where it is done: a statement by the connection (5 s), a search of the calendar by its own budget.
 */

/** Too many of one caller are under way: the answer is 429, with Retry-After. */
export class TooManyAtOnce extends Error {
  override name = "TooManyAtOnce";
  constructor(readonly caller: string, readonly under_way: number) {
    super(
      `Cannot compute more for ${caller} now: ${under_way} of its requests are under way; ask for one after another`,
    );
  }
}

interface Caller {
  under_way: number;
  waiting: (() => void)[];
}

export class FewAtOnce {
  readonly #callers = new Map<string, Caller>();
  readonly #bounds: { at_once: number; waiting: number };

  constructor(bounds = { at_once: 2, waiting: 0 }) {
    this.#bounds = bounds;
  }

  /** @throws TooManyAtOnce */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const caller = this.#callers.get(name) ?? { under_way: 0, waiting: [] };
    this.#callers.set(name, caller);
    if (caller.under_way < this.#bounds.at_once) caller.under_way++;
    else if (caller.waiting.length < this.#bounds.waiting) {
      const turn = Promise.withResolvers<void>();
      caller.waiting.push(turn.resolve);
      await turn.promise; // whoever ends hands its place on
    } else throw new TooManyAtOnce(name, caller.under_way + caller.waiting.length);
    try {
      return await work();
    } finally {
      const next = caller.waiting.shift();
      if (next) next();
      else if (--caller.under_way === 0) this.#callers.delete(name);
    }
  }
}

/** Of pages: as many as the parts of a page that a browser asks for anew at a time. */
export const OF_PAGES = { at_once: 4, waiting: 12 };
