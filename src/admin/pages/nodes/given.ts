/** Labels and limits as they are typed into a form. */

export function labelsText(labels: Record<string, string>): string {
  return Object.entries(labels).map(([name, value]) => `${name}=${value}`).join(", ");
}

/** Labels by name, or the piece that is none. */
export function labelsFrom(text: string): { labels: Record<string, string> } | { bad: string } {
  const labels: Record<string, string> = {};
  for (const piece of text.split(",").map((one) => one.trim()).filter((one) => one !== "")) {
    const [, name, value] = /^([^=,\s]{1,100})=([^=,\s]{1,200})$/.exec(piece) ?? [];
    if (name === undefined || value === undefined) return { bad: piece };
    labels[name] = value;
  }
  return { labels };
}

/** What to change so that `was` becomes `is`; what others changed meanwhile stays. Undefined: nothing. */
export function labelChange(
  was: Record<string, string>,
  is: Record<string, string>,
): Record<string, string> | undefined {
  const gone = Object.keys(was).filter((name) => !Object.hasOwn(is, name)).map((name) => [name, ""]);
  const set = Object.entries(is).filter(([name, value]) => was[name] !== value);
  return gone.length + set.length > 0 ? Object.fromEntries([...gone, ...set]) : undefined;
}

/** Null: no limit; undefined: it is no number that can be one. */
export function limitFrom(text: string): number | null | undefined {
  if (text === "") return null;
  return /^\d{1,6}$/.test(text) && Number(text) <= 100_000 ? Number(text) : undefined;
}
