/** Shares in percent. */

/** A hundred is said only where it is meant: 0.9999 is "99.9 %". */
export function percent(share: number): string {
  const rounded = Math.round(share * 1_000) / 10;
  return `${share < 1 && rounded === 100 ? 99.9 : rounded} %`;
}
