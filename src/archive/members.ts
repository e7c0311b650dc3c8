/**
 * Lines as they lie in an object: JSON, one line each, and each part (some lines of one run) a gzip member of its own. Members one behind
 * another are a valid gzip file, so `zcat` shows the whole object, and a few bytes of it are all that is needed to read one run.
 *
 * What is read is not believed: it is never unpacked beyond a limit, and each line is checked, since others may write to a bucket as well.
 */

export interface ArchivedLine {
  id: number;
  attempt: number;
  at: Date;
  level: string;
  message: string;
  fields: unknown;
}

/** Many times what a part holds: 2,000 lines of a few KiB at most. */
const MOST_UNPACKED_BYTES = 64 * 1024 * 1024;
export const MOST_PACKED_BYTES = 16 * 1024 * 1024;
const LEVELS = ["debug", "info", "warn", "error", "stdout", "stderr", "system"];

/** One gzip member of lines that are JSON already. */
export async function packLines(texts: readonly string[]): Promise<Uint8Array> {
  const plain = new Blob([texts.join("\n"), "\n"]);
  return await new Response(plain.stream().pipeThrough(new CompressionStream("gzip"))).bytes();
}

/** @throws Error when it is not what `packLines` made of lines of this run */
export async function unpackLines(bytes: Uint8Array<ArrayBuffer>, job_run_id: number): Promise<ArchivedLine[]> {
  const text = await unpack(bytes);
  return text.split("\n").filter(Boolean).map((line) => lineOf(line, job_run_id));
}

async function unpack(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  try {
    for await (const chunk of plain) {
      size += chunk.length;
      if (size > MOST_UNPACKED_BYTES) throw new TooLarge();
      text += decoder.decode(chunk, { stream: true });
    }
  } catch (error) {
    if (error instanceof TooLarge) throw error;
    throw new Error("these bytes are not a gzip of log lines: the object was changed or replaced");
  }
  return text + decoder.decode();
}

class TooLarge extends Error {
  constructor() {
    super(`they unpack to more than ${MOST_UNPACKED_BYTES} bytes, which we never pack together`);
  }
}

function lineOf(text: string, job_run_id: number): ArchivedLine {
  const { id, attempt, at, level, message, fields = null, ...more } = objectOf(text);
  const when = new Date(typeof at === "string" ? at : NaN);
  if (
    !Number.isSafeInteger(id) || more.job_run_id !== job_run_id || !Number.isSafeInteger(attempt) ||
    Number.isNaN(when.getTime()) || !LEVELS.includes(level as string) || typeof message !== "string"
  ) throw new Error(`these bytes hold something else than lines of run ${job_run_id}: the object was changed`);
  return {
    id: id as number,
    attempt: attempt as number,
    at: when,
    level: level as string,
    message,
    fields,
  };
}

function objectOf(text: string): Record<string, unknown> {
  try {
    const value = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // as below
  }
  throw new Error("these bytes hold something else than log lines: the object was changed");
}
