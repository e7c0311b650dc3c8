/** Reads one object of options, names every problem in it at once, and goes on with defaults so that the rest is checked too. */
import { shown, wordLike } from "../platform/shown.ts";
import type { Complaint, Says } from "./problem.ts";

export class Options {
  readonly #object: Record<string, unknown>;
  readonly #at: string;
  readonly #complaints: Complaint[];

  /** `at` goes before each key in complaints, e.g. "retry."; `meant`: what was most likely meant by a value that is no object. */
  constructor(value: unknown, complaints: Complaint[], at = "", meant?: Record<string, unknown>) {
    this.#complaints = complaints;
    this.#at = at;
    this.#object = isPlainObject(value) ? value : {};
    if (!isPlainObject(value)) {
      this.complain("", `must be an object, not ${shown(value)}`, `write it as ${meant ? literal(meant) : "{ ... }"}`, {
        code: "object",
      });
    }
  }

  complain(key: string, reason: string, fix: string, says?: Says): void {
    const full = key === "" ? this.#at.replace(/\.$/, "") : `${this.#at}${key}`;
    this.#complaints.push({ key: full, value: this.#object[key], reason: `${full} ${reason}`.trim(), fix, says });
  }

  has(key: string): boolean {
    return this.#object[key] !== undefined;
  }

  raw(key: string): unknown {
    return this.#object[key];
  }

  /** Refuses keys of other names: a misspelt option must not pass as an absent one. */
  onlyKnows(keys: readonly string[]): void {
    for (const key of Object.keys(this.#object)) {
      if (keys.includes(key)) continue;
      const like = wordLike(key, keys);
      this.complain(
        key,
        "is no option that is known here",
        like ? `did you mean ${like}?` : `remove it; known are ${keys.join(", ")}`,
        { code: "unknown", words: keys },
      );
    }
  }

  number(key: string, range: { least: number; most: number; default: number; whole?: boolean }): number {
    const value = this.#object[key];
    if (value === undefined) return range.default;
    const fits = typeof value === "number" && value >= range.least && value <= range.most &&
      (!range.whole || Number.isInteger(value));
    if (fits) return value;
    const kind = range.whole ? "a whole number" : "a number";
    this.complain(
      key,
      `must be ${kind} from ${range.least} to ${range.most}: current value is ${shown(value)}`,
      `give ${kind} from ${range.least} to ${range.most}, or leave it out for ${range.default}`,
      { code: "number", least: range.least, most: range.most, whole: range.whole ?? false },
    );
    return range.default;
  }

  oneOf<Word extends string>(key: string, words: readonly Word[], otherwise: Word): Word {
    const value = this.#object[key];
    if (value === undefined) return otherwise;
    const found = words.find((word) => word === value);
    if (found !== undefined) return found;
    const like = typeof value === "string" ? wordLike(value, words) : undefined;
    this.complain(
      key,
      `must be one of ${words.map(shown).join(", ")}: current value is ${shown(value)}`,
      like ? `did you mean "${like}"?` : `use one of them, or leave it out for "${otherwise}"`,
      { code: "choice", words },
    );
    return otherwise;
  }

  /** A text of 1 to `most` characters, without control characters. */
  text(key: string, most: number): string | undefined {
    const value = this.#object[key];
    if (value === undefined) return undefined;
    if (isText(value, most)) return value;
    this.complain(
      key,
      `must be a text of 1 to ${most} characters on one line: current value is ${shown(value)}`,
      "shorten it, or leave it out",
      { code: "text", most },
    );
    return undefined;
  }
}

/** As it stands in a job file: { max: 3 }. */
function literal(object: Record<string, unknown>): string {
  return `{ ${Object.entries(object).map(([key, value]) => `${key}: ${shown(value)}`).join(", ")} }`;
}

export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether it is a text that fits one line of a page and Postgres. */
export function isText(value: unknown, most: number): value is string {
  return typeof value === "string" && value.length >= 1 && value.length <= most && !/\p{Cc}/u.test(value) &&
    value.isWellFormed();
}
