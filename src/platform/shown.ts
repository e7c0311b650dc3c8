/** Values and words that people wrote, as a message quotes them and what it takes them to mean. */

/** A text from outside as it can be shown on one line of a terminal. */
export function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 120 ? `${text.slice(0, 117)}...` : text;
}

/** The word of a list that somebody who wrote `word` most likely meant: one or two letters off, or the same in another case. */
export function wordLike(word: string, words: readonly string[]): string | undefined {
  const near = words.map((known) => ({ known, off: lettersOff(word.toLowerCase(), known.toLowerCase()) }))
    .filter(({ known, off }) => off <= (known.length > 4 ? 2 : 1));
  return near.sort((a, b) => a.off - b.off)[0]?.known;
}

/** Letters to change, add, remove or swap with their neighbour to make one word of the other. */
function lettersOff(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      const cell = (up: number, left: number) => (rows[i - up]?.[j - left] ?? 0);
      let off = Math.min(cell(1, 0) + 1, (row[j - 1] ?? 0) + 1, cell(1, 1) + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) off = Math.min(off, cell(2, 2) + 1);
      row.push(off);
    }
    rows.push(row);
  }
  return rows[a.length]?.[b.length] ?? Infinity;
}

/** Whether a value from outside is an object with names, as `{ max: 3 }`. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
