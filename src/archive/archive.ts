/**
 * Where old log lines go: a folder that all machines share, or a bucket of an S3-compatible store. Objects are written once, whole, under
 * names that are never used again; we never delete one and never list them, so the keys of a bucket need `PutObject` and `GetObject` alone.
 */

export interface Archive {
  /** Its address without any secret: before every object's name in a `log_ref`. */
  readonly place: string;
  /** Resolves when the object would survive a crash there. @throws ArchiveError */
  put(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Bytes `first` to `last`, both included. @throws ArchiveError */
  read(name: string, range: { first: number; last: number }): Promise<Uint8Array<ArrayBuffer>>;
  /** Whether it can be used from here, by reading alone; what was found, for people. @throws ArchiveError */
  probe(): Promise<string>;
}

/** Why an archive did not do what it was asked, for people: no secret is ever in it. */
export class ArchiveError extends Error {
  override name = "ArchiveError";

  /** `fix`: what to do about it. */
  constructor(message: string, readonly fix: string) {
    super(message);
  }
}
