/**
 * A Map for what comes and goes thousands of times a second.
 *
 * V8 makes a new table for a Map whenever deleted entries have filled the one it has, and each table keeps its entries and a link to the
 * next. Once one of them is in the old space, all tables after it and all that was ever in them stay until the whole heap is collected: of
 * what a busy worker made for its runs three quarters did, and were copied twice on the way. So after some deletions the Map itself is a new
 * one, to which no table links.
 */
const DELETED = 500;

export class ChurnMap<Key, Value> {
  #map = new Map<Key, Value>();
  #deletions = 0;
  #renewed_at = 0;

  get size(): number {
    return this.#map.size;
  }

  /** How many there were of them since it was made. */
  get deletions(): number {
    return this.#deletions;
  }

  has(key: Key): boolean {
    return this.#map.has(key);
  }

  get(key: Key): Value | undefined {
    return this.#map.get(key);
  }

  set(key: Key, value: Value): void {
    this.#map.set(key, value);
  }

  /** Whether it was there. */
  delete(key: Key): boolean {
    if (!this.#map.delete(key)) return false;
    if (++this.#deletions - this.#renewed_at >= Math.max(DELETED, this.#map.size)) {
      this.#map = new Map(this.#map);
      this.#renewed_at = this.#deletions;
    }
    return true;
  }

  /** In the order in which they came. While they are gone through, those that are deleted may yet come up. */
  values(): MapIterator<Value> {
    return this.#map.values();
  }
}
