/**
 * Addresses at which anybody who has one sends a message to a run: `{base}/m/{run}.{name}.{expires}.{mac}`.
 *
 * Nothing of them is stored, so no copy of the database gives one away. `mac` is the HMAC-SHA-256 of what stands before it, under a key that only
 * workers and the admin server have (SCHEDULER_CALLBACK_SECRET); another key ends all addresses that are out. One ends with its run, or at
 * `expires`, in milliseconds since 1970 (0: with its run alone).
 */
import { Buffer } from "node:buffer";
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** Which message of which run, and until when. */
export interface Callback {
  job_run_id: number;
  name: string;
  /** 0: as long as the run. */
  expires_unix_ms: number;
}

const MAC_CHARS = 43; // 32 bytes as base64url
const MESSAGE_NAME = /^[a-z0-9][a-z0-9_.-]{0,63}$/;

/** A new key. */
export function makeCallbackSecret(): string {
  return randomBytes(32).toString("base64url");
}

export function callbackAddress(base: URL, secret: string, callback: Callback): string {
  return `${base.href.replace(/\/+$/, "")}/m/${callbackToken(secret, callback)}`;
}

export function callbackToken(secret: string, { job_run_id, name, expires_unix_ms }: Callback): string {
  const said = `${job_run_id}.${name}.${Math.ceil(expires_unix_ms)}`;
  return `${said}.${macOf(secret, said)}`;
}

/** Undefined: it was not made with this secret. Takes as long whatever is wrong with it. Whether it has expired is the caller's to say. */
export function readCallback(secret: string, token: string): Callback | undefined {
  const end = token.lastIndexOf(".");
  const [said, given] = [token.slice(0, Math.max(end, 0)), token.slice(end + 1)];
  const [expected, claimed] = [Buffer.from(macOf(secret, said)), Buffer.alloc(MAC_CHARS)];
  const whole = claimed.write(given) === MAC_CHARS && given.length === MAC_CHARS;
  const equal = timingSafeEqual(expected, claimed);
  const [, run, name, expires] = /^(\d{1,16})\.(.+)\.(\d{1,16})$/.exec(said) ?? [];
  if (!whole || !equal || name === undefined || !MESSAGE_NAME.test(name)) return undefined;
  return { job_run_id: Number(run), name, expires_unix_ms: Number(expires) };
}

function macOf(secret: string, said: string): string {
  return createHmac("sha256", secret).update(said).digest("base64url");
}
