/**
 * An archive in a bucket of an S3-compatible store, by its HTTP interface with path-style addresses, which all of them know. Each request
 * is signed (AWS Signature Version 4, with the digest of what is sent), has a deadline, and follows no redirect. Of an error's answer only the
 * store's own code is told: its text may repeat what was sent.
 */
import type { AwsV4Signer } from "aws4fetch";
import type { ArchivePlace } from "../platform/config.ts";
import { type Archive, ArchiveError } from "./archive.ts";

type BucketPlace = Extract<ArchivePlace, { kind: "bucket" }>;
type Signing = ConstructorParameters<typeof AwsV4Signer>[0];

const PUT_MS = 60_000;
const READ_MS = 10_000;
const MOST_ERROR_BYTES = 4_096;

export class Bucket implements Archive {
  readonly place: string;
  readonly #at: BucketPlace;

  constructor(at: BucketPlace) {
    this.#at = at;
    this.place = `s3://${[at.bucket, ...at.prefix ? [at.prefix] : []].join("/")}`;
  }

  async put(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const what = `write ${this.place}/${name}`;
    const headers = {
      "content-type": "application/gzip",
      "x-amz-content-sha256": new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex(),
    };
    const answer = await this.#ask(what, name, { method: "PUT", headers, body: bytes }, PUT_MS);
    if (!answer.ok) throw await this.#refusal(what, answer);
    await answer.body?.cancel();
  }

  async read(name: string, { first, last }: { first: number; last: number }): Promise<Uint8Array<ArrayBuffer>> {
    const what = `read ${this.place}/${name}`;
    const size = last - first + 1;
    const answer = await this.#ask(
      what,
      name,
      { method: "GET", headers: { range: `bytes=${first}-${last}` } },
      READ_MS,
    );
    if (answer.status !== 206) throw await this.#refusal(what, answer);
    const bytes = await atMost(answer, size).catch(() => undefined);
    if (bytes?.length === size) return bytes;
    throw new ArchiveError(
      `Cannot ${what}: ${this.#host} gave other bytes than ${first} to ${last}`,
      "the object was cut or replaced, or the connection broke: try again, then look at the object",
    );
  }

  /** Asks for an object that nobody has: the answer that it is not there comes only to keys that are let in. */
  async probe(): Promise<string> {
    const what = `use ${this.place}`;
    const answer = await this.#ask(what, "1970-01-01/none", { method: "GET" }, READ_MS);
    const code = answer.ok ? "" : await codeOf(answer);
    if (answer.ok || (answer.status === 404 && code !== "NoSuchBucket")) {
      return `${this.place} answers at ${this.#host}`;
    }
    // Without the right to list, S3 does not tell what is missing from what is forbidden.
    if (answer.status === 403 && code === "AccessDenied") {
      return `${this.place} answers at ${this.#host}; its keys may not list, which is not needed`;
    }
    throw this.#failure(what, answer.status, code);
  }

  get #host(): string {
    return new URL(this.#at.endpoint).host;
  }

  async #ask(
    what: string,
    name: string,
    request: { method: string; headers?: Record<string, string>; body?: Uint8Array<ArrayBuffer> },
    limit_ms: number,
  ): Promise<Response> {
    const { endpoint, bucket, prefix, region, key_id, secret, session_token } = this.#at;
    const url = `${endpoint}/${[bucket, ...prefix ? [prefix] : [], name].join("/")}`;
    const { AwsV4Signer } = await import("aws4fetch"); // loaded where it is used: most processes never ask
    const signing: Signing = {
      ...request,
      url,
      service: "s3",
      region,
      accessKeyId: key_id,
      secretAccessKey: secret,
      sessionToken: session_token,
    };
    const { headers } = await new AwsV4Signer(signing).sign();
    try {
      return await fetch(url, {
        method: request.method,
        headers,
        body: request.body,
        redirect: "manual",
        signal: AbortSignal.timeout(limit_ms),
      });
    } catch (error) {
      const late = error instanceof DOMException && error.name === "TimeoutError";
      throw new ArchiveError(
        `Cannot ${what}: ${this.#host} ${late ? "gave no answer in time" : "could not be reached"}`,
        "look after that server and the way to it, and check SCHEDULER_ARCHIVE_ENDPOINT",
      );
    }
  }

  async #refusal(what: string, answer: Response): Promise<ArchiveError> {
    return this.#failure(what, answer.status, await codeOf(answer));
  }

  #failure(what: string, status: number, code: string): ArchiveError {
    const said = `${this.#host} answered ${status}${code && ` ${code}`}`;
    return new ArchiveError(`Cannot ${what}: ${said}`, FIXES[code] ?? fixOf(status));
  }
}

const KEYS = "SCHEDULER_ARCHIVE_KEY_ID and SCHEDULER_ARCHIVE_SECRET";
const FIXES: Record<string, string> = {
  NoSuchKey: "the object is gone: whoever removed it, such as a lifecycle rule of the bucket, has ended these logs",
  NoSuchBucket: "make the bucket, or correct SCHEDULER_ARCHIVE",
  SignatureDoesNotMatch: `correct ${KEYS}`,
  InvalidAccessKeyId: `correct ${KEYS}`,
  ExpiredToken: "give a session token that is good still: SCHEDULER_ARCHIVE_SESSION_TOKEN",
  RequestTimeTooSkewed: "set this machine's clock right: run a time service (chrony)",
  AuthorizationHeaderMalformed: "set SCHEDULER_ARCHIVE_REGION to the bucket's region",
  PermanentRedirect: "set SCHEDULER_ARCHIVE_REGION and SCHEDULER_ARCHIVE_ENDPOINT to those of the bucket",
};

function fixOf(status: number): string {
  if (status === 403) return "let these keys do s3:PutObject and s3:GetObject below the prefix";
  if (status >= 300 && status < 400) {
    return "set SCHEDULER_ARCHIVE_REGION and SCHEDULER_ARCHIVE_ENDPOINT to those of the bucket";
  }
  if (status >= 500 || status === 429) return "try again; the store is busy or broken";
  return "check SCHEDULER_ARCHIVE and SCHEDULER_ARCHIVE_ENDPOINT";
}

async function codeOf(answer: Response): Promise<string> {
  const bytes = await atMost(answer, MOST_ERROR_BYTES).catch(() => new Uint8Array());
  return /<Code>([A-Za-z0-9]{1,60})<\/Code>/.exec(new TextDecoder().decode(bytes))?.[1] ?? "";
}

/** The first so many bytes of an answer; the rest is not waited for. */
async function atMost(answer: Response, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(most);
  let filled = 0;
  for await (const chunk of answer.body ?? []) {
    const taken = chunk.subarray(0, most - filled);
    bytes.set(taken, filled);
    filled += taken.length;
    if (filled === most) break; // which cancels the rest
  }
  return bytes.subarray(0, filled);
}
