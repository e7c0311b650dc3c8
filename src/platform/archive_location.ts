/**
 * Where old logs go, as the environment says it (platform/config.ts): checked, and every problem named without any secret.
 */
import { fromFileUrl } from "./paths.ts";

export type ArchivePlace =
  /** Shared by all machines. */
  | { kind: "folder"; path: string }
  | {
    kind: "bucket";
    bucket: string;
    /** Before each object's name, without slashes at its ends; may be empty. */
    prefix: string;
    /** Scheme, host and port of the store. */
    endpoint: string;
    region: string;
    key_id: string;
    secret: string;
    session_token: string | undefined;
  };

type Env = Record<string, string | undefined>;

const EXAMPLES = "file:///mnt/dandori-logs or s3://bucket/prefix";

/** Undefined: none, or one that is wrong; what is wrong is added to `problems`. `usual`: where it is unless the environment says it. */
export function readArchivePlace(env: Env, problems: string[], usual?: string): ArchivePlace | undefined {
  const text = env.SCHEDULER_ARCHIVE || usual;
  if (!text) return undefined;
  const url = URL.parse(text);
  if (!url || (url.protocol !== "file:" && url.protocol !== "s3:") || url.search || url.hash || url.username) {
    problems.push(`SCHEDULER_ARCHIVE must be like ${EXAMPLES}`); // not repeated: it may hold a secret by mistake
    return undefined;
  }
  return url.protocol === "file:" ? folderIn(url, problems) : bucketIn(url, env, problems);
}

function folderIn(url: URL, problems: string[]): ArchivePlace | undefined {
  const path = url.host ? "/" : fromFileUrl(url).replace(/\/+$/, "");
  if (!url.host && path) return { kind: "folder", path };
  problems.push(`SCHEDULER_ARCHIVE must name a folder by its whole path, with three slashes: ${EXAMPLES}`);
}

function bucketIn(url: URL, env: Env, problems: string[]): ArchivePlace | undefined {
  const before = problems.length;
  const prefix = url.pathname.replace(/^\/+|\/+$/g, "");
  if (
    !/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(url.host) || !/^([\w.-]+(\/[\w.-]+)*)?$/.test(prefix) ||
    /(^|\/)\.\.?(\/|$)/.test(prefix)
  ) {
    problems.push("SCHEDULER_ARCHIVE must be s3://bucket/prefix, of letters, digits, - _ . and /");
  }
  const region = env.SCHEDULER_ARCHIVE_REGION || env.AWS_REGION || "us-east-1";
  const endpoint = endpointIn(env, region, problems);
  const own = env.SCHEDULER_ARCHIVE_KEY_ID || env.SCHEDULER_ARCHIVE_SECRET; // both from one source: a pair that was mixed fits nowhere
  const key_id = own ? env.SCHEDULER_ARCHIVE_KEY_ID : env.AWS_ACCESS_KEY_ID;
  const secret = own ? env.SCHEDULER_ARCHIVE_SECRET : env.AWS_SECRET_ACCESS_KEY;
  const session_token = own ? env.SCHEDULER_ARCHIVE_SESSION_TOKEN : env.AWS_SESSION_TOKEN;
  if (!key_id || !secret) {
    problems.push(
      "SCHEDULER_ARCHIVE is a bucket, so its keys are needed: set SCHEDULER_ARCHIVE_KEY_ID and SCHEDULER_ARCHIVE_SECRET, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    );
  }
  if (problems.length > before || !endpoint || !key_id || !secret) return undefined;
  return {
    kind: "bucket",
    bucket: url.host,
    prefix,
    endpoint,
    region,
    key_id,
    secret,
    session_token: session_token || undefined,
  };
}

function endpointIn(env: Env, region: string, problems: string[]): string | undefined {
  const url = URL.parse(env.SCHEDULER_ARCHIVE_ENDPOINT || `https://s3.${region}.amazonaws.com`);
  const plain = env.SCHEDULER_ARCHIVE_HTTP === "allow";
  if (
    url && (url.protocol === "https:" || (plain && url.protocol === "http:")) && url.pathname === "/" &&
    !url.username && !url.search
  ) {
    return url.origin;
  }
  problems.push(
    url?.protocol === "http:" && !plain
      ? "SCHEDULER_ARCHIVE_ENDPOINT must be https; where plain http is meant, set SCHEDULER_ARCHIVE_HTTP=allow"
      : "SCHEDULER_ARCHIVE_ENDPOINT must be the address of an S3-compatible store, such as https://minio.internal:9000",
  );
}
