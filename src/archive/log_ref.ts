/**
 * What `job_run.log_ref` says about lines that are no longer in Postgres: words with blanks between them, in the order in which the lines
 * were taken.
 *
 *   s3://bucket/prefix/2026-11-22/812-4f3a9c1d.jsonl.gz#bytes=0-1233&lines=5001-7000
 *        these bytes of that object are a gzip of their own and hold the lines of this run from id 5001 to id 7000
 *   deleted:2026-11-22    lines were deleted on that day, as the setting old_logs asks
 *   anything else         somebody's own pointer, such as the address of a page; it is shown, and never opened by us
 *
 * An object is read only where it lies below the archive that this process is configured with, under a name that we give: whoever
 * can write a row cannot make a server read another file.
 */

/** Lines of one run, within an object. */
export interface LogPart {
  /** Where it is, whole: place and name. */
  object: string;
  first_byte: number;
  last_byte: number;
  first_id: number;
  last_id: number;
}

export interface LogRef {
  parts: LogPart[];
  /** The last day on which lines were deleted, "2026-11-22". */
  deleted_on: string | undefined;
  /** Pointers of somebody else. */
  others: string[];
}

const PART = /^((?:s3|file):\/\/\S+\.jsonl\.gz)#bytes=(\d{1,12})-(\d{1,12})&lines=(\d{1,15})-(\d{1,15})$/;
/** The name of an object of ours: its day, its first run, and what keeps it apart from all others. */
const NAME = /^\d{4}-\d\d-\d\d\/\d+-[0-9a-f]{16}\.jsonl\.gz$/;

export function parseLogRef(log_ref: string | null): LogRef {
  const found: LogRef = { parts: [], deleted_on: undefined, others: [] };
  for (const word of log_ref?.split(" ").filter(Boolean) ?? []) {
    const [, object, ...numbers] = PART.exec(word) ?? [];
    const [first_byte = 0, last_byte = 0, first_id = 0, last_id = 0] = numbers.map(Number);
    if (object) found.parts.push({ object, first_byte, last_byte, first_id, last_id });
    else if (/^deleted:\d{4}-\d\d-\d\d$/.test(word)) found.deleted_on = word.slice("deleted:".length);
    else found.others.push(word);
  }
  return found;
}

/** Added to what a run has already. */
export function withPart(log_ref: string | null, part: LogPart): string {
  const { object, first_byte, last_byte, first_id, last_id } = part;
  return joined(log_ref, `${object}#bytes=${first_byte}-${last_byte}&lines=${first_id}-${last_id}`);
}

/** `day`: "2026-11-22". */
export function withDeleted(log_ref: string | null, day: string): string {
  const kept = log_ref?.split(" ").filter((word) => !word.startsWith("deleted:")).join(" ");
  return joined(kept || null, `deleted:${day}`);
}

function joined(log_ref: string | null, word: string): string {
  return log_ref ? `${log_ref} ${word}` : word;
}

/** A name that nobody has given before: no object is ever written twice. */
export function objectName(day: string, first_run: number): string {
  return `${day}/${first_run}-${crypto.getRandomValues(new Uint8Array(8)).toHex()}.jsonl.gz`;
}

/** The name of a part's object within the archive at `place`; undefined: it is not of this archive. */
export function nameWithin(place: string, { object }: LogPart): string | undefined {
  const name = object.startsWith(`${place}/`) ? object.slice(place.length + 1) : "";
  return NAME.test(name) ? name : undefined;
}
