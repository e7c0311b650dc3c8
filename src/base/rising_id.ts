/** Ids that nobody can guess and nobody else makes, each later one behind those before: a UUID of version 7 (RFC 9562). */
import { wallClock } from "./loop.ts";

/**
 * 48 bits of milliseconds since 1970, 74 random ones. Keys made of these enter an index at its end, where random ones would each touch a page of
 * their own. Of one millisecond they come in any order, and a clock that goes back costs the order and nothing else.
 */
export function risingId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const view = new DataView(bytes.buffer);
  const ms = wallClock().getTime();
  view.setUint32(0, Math.floor(ms / 2 ** 16));
  view.setUint16(4, ms % 2 ** 16);
  view.setUint8(6, 0x70 | view.getUint8(6) & 0x0f);
  view.setUint8(8, 0x80 | view.getUint8(8) & 0x3f);
  const hex = bytes.toHex();
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
