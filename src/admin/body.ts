/** The body of a request, read by us: so large and so long at most. Nothing of it is read before it is known who sends it. */
import { DeadlineExceeded, within } from "../platform/timers.ts";

export interface Bounds {
  bytes: number;
  ms: number;
}

/** Of whoever sends something: 200 connections that send a byte now and then must not hold 1 MB each for as long as they like. */
export const OF_STRANGERS: Bounds = { bytes: 8_192, ms: 30_000 };
/** Larger than any form of ours, smaller than what would hurt. */
export const OF_USERS: Bounds = { bytes: 1_048_576, ms: 120_000 };

/** By the status that says it. */
export class BodyRefused extends Error {
  override name = "BodyRefused";
  constructor(readonly status: 408 | 413) {
    super(status === 408 ? "the body did not come in time" : "the body is too large");
  }
}

/** @throws BodyRefused; what the connection says, where it was cut off */
export async function readBody(request: Request, bounds: Bounds): Promise<Uint8Array<ArrayBuffer>> {
  if (Number(request.headers.get("content-length") ?? 0) > bounds.bytes) throw new BodyRefused(413);
  if (!request.body) return new Uint8Array();
  const reader = request.body.getReader();
  try {
    return await within(bounds.ms, "the body", allOf(reader, bounds.bytes));
  } catch (error) {
    reader.cancel().catch(() => {}); // or the rest would still come
    throw error instanceof DeadlineExceeded ? new BodyRefused(408) : error;
  }
}

async function allOf(reader: ReadableStreamDefaultReader<Uint8Array>, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.length;
    if (bytes > most) throw new BodyRefused(413);
    parts.push(value);
  }
  const all = new Uint8Array(bytes);
  for (let place = 0; parts.length > 0;) {
    const part = parts.shift() as Uint8Array;
    all.set(part, place);
    place += part.length;
  }
  return all;
}
