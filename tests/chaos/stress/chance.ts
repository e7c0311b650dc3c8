/** Chance that a seed decides: the same seed throws the same faults, as far as what they fall on is the same. */

/** splitmix32: small, quick, and good enough to choose faults by. */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A number in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let mixed = this.#state ^ (this.#state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    mixed ^= mixed >>> 15;
    return (mixed >>> 0) / 2 ** 32;
  }

  happens(probability: number): boolean {
    return this.next() < probability;
  }

  between(least: number, most: number): number {
    return least + this.next() * (most - least);
  }

  whole(least: number, most: number): number {
    return Math.floor(this.between(least, most + 1));
  }

  pick<T>(list: readonly T[]): T {
    return list[this.whole(0, list.length - 1)] as T;
  }

  /** A stream of its own, so that what one part of the stress draws does not move what another one gets. */
  fork(name: string): Chance {
    let seed = this.whole(0, 2 ** 31);
    for (const letter of name) seed = Math.imul(seed ^ letter.charCodeAt(0), 0x01000193);
    return new Chance(seed);
  }
}
