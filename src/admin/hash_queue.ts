/**
 * Whose password is looked at next. Each try costs 32 MB and three passes, so they go one after another, and not for everybody who comes:
 * behind 100 guesses a true login waited for 27 s. A few may wait, of one address fewer still; those who are known here have places of their
 * own, and come first. Whoever finds no place is asked to come back.
 */
const MOST_STRANGERS = 8;
const MOST_OF_ONE = 3;
const MOST_KNOWN = 16;
/** By then those who wait now have had their turn. */
export const COME_BACK_SECONDS = 5;

export interface Comer {
  known: boolean;
  /** What many tries of one have in common: its address, or its browser. */
  from: string;
}

export class HashQueue {
  readonly #inside = new Set<Comer>();
  readonly #waiting: { known: (() => void)[]; strangers: (() => void)[] } = { known: [], strangers: [] };
  #busy = false;

  /** A place among those who wait; the returned function gives it back. Undefined: there is none. */
  enter(comer: Comer): (() => void) | undefined {
    const alike = [...this.#inside].filter(({ known }) => known === comer.known);
    if (alike.length >= (comer.known ? MOST_KNOWN : MOST_STRANGERS)) return undefined;
    if (alike.filter(({ from }) => from === comer.from).length >= MOST_OF_ONE) return undefined;
    this.#inside.add(comer);
    return () => void this.#inside.delete(comer);
  }

  /** Does it when it is its turn. */
  async run<T>(known: boolean, work: () => Promise<T>): Promise<T> {
    if (this.#busy) await new Promise<void>((resolve) => this.#waiting[known ? "known" : "strangers"].push(resolve));
    this.#busy = true;
    try {
      return await work();
    } finally {
      const next = this.#waiting.known.shift() ?? this.#waiting.strangers.shift();
      if (next) next(); // and it stays busy, so that nobody comes between
      else this.#busy = false;
    }
  }
}
