/** Chance that is the same in every replay: a hash of the run, the scope, and how often that has asked. For no secrets. */

/** At least 0 and below 1, of 53 bits. */
export function seededRandom(seed: string): number {
  const [high, low] = hash128(seed);
  return (high * 2 ** 21 + (low >>> 11)) / 2 ** 53;
}

/** A UUID of version 8: made by an own rule, as RFC 9562 calls it. */
export function seededUuid(seed: string): string {
  const hex = [...hash128(seed)].map((part) => part.toString(16).padStart(8, "0")).join("");
  const variant = (Number.parseInt(hex.charAt(16), 16) & 3 | 8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`;
}

/** Four hashes of 32 bits that depend on each other, mixed as MurmurHash3 does, one UTF-16 code unit at a time. */
function hash128(text: string): [number, number, number, number] {
  let [a, b, c, d] = [1779033703, 3144134277, 1013904242, 2773480762];
  for (let place = 0; place < text.length; place++) {
    const unit = text.charCodeAt(place);
    a = b ^ Math.imul(a ^ unit, 597399067);
    b = c ^ Math.imul(b ^ unit, 2869860233);
    c = d ^ Math.imul(c ^ unit, 951274213);
    d = a ^ Math.imul(d ^ unit, 2716044179);
  }
  a = Math.imul(c ^ (a >>> 18), 597399067);
  b = Math.imul(d ^ (b >>> 22), 2869860233);
  c = Math.imul(a ^ (c >>> 17), 951274213);
  d = Math.imul(b ^ (d >>> 19), 2716044179);
  a ^= b ^ c ^ d;
  return [a >>> 0, (b ^ a) >>> 0, (c ^ a) >>> 0, (d ^ a) >>> 0];
}
