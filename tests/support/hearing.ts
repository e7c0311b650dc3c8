/** What processes print, line by line, kept whole; and waiting for a line that says what a test waits for. */
import { after } from "../../src/platform/timers.ts";
import { PATIENCE_MS } from "./waiting.ts";

export interface Line {
  /** Who printed it. */
  who: string;
  text: string;
  /** The line's number among all that were heard. */
  place: number;
}

const SHOWN = 60;

export class Hearing {
  readonly lines: Line[] = [];
  readonly #waiting = new Set<() => void>();

  /** The place of the last line so far: what is heard after it is new. */
  get last(): { place: number } {
    return { place: this.lines.length - 1 };
  }

  /** Takes in all that a stream says; resolves at its end. */
  async listen(who: string, stream: ReadableStream<Uint8Array>): Promise<void> {
    let begun = "";
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      const parts = (begun + text).split("\n");
      begun = parts.pop() as string;
      for (const part of parts) this.#hear(who, part);
    }
    if (begun) this.#hear(who, begun);
  }

  /** The first line after `place` that `find` makes something of: one that was heard already, or one to come. */
  waitFor<T>(what: string, find: (line: Line) => T | undefined, place = -1): Promise<T> {
    let next = place + 1;
    return new Promise((resolve, reject) => {
      const look = () => {
        for (; next < this.lines.length; next++) {
          const found = find(this.lines[next] as Line);
          if (found === undefined) continue;
          stop();
          return resolve(found);
        }
      };
      const stop = () => {
        cancel();
        this.#waiting.delete(look);
      };
      const cancel = after(PATIENCE_MS, () => {
        stop();
        reject(new Error(`Not heard within ${PATIENCE_MS / 1000} s: ${what}\n${this.#shown()}`));
      });
      this.#waiting.add(look);
      look();
    });
  }

  /** The last lines, for a message. */
  #shown(): string {
    if (this.lines.length === 0) return "Nothing was heard at all";
    const shown = this.lines.slice(-SHOWN).map(({ who, text }) => `  ${who.padEnd(8)} ${text}`);
    return [`The last ${shown.length} of ${this.lines.length} lines heard:`, ...shown].join("\n");
  }

  #hear(who: string, text: string): void {
    this.lines.push({ who, text, place: this.lines.length });
    for (const look of [...this.#waiting]) look();
  }
}
