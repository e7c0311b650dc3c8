/**
 * Passwords as scrypt hashes that say how they were made, and tokens as digests. Nothing that is stored lets anybody in.
 * 32 MB and three passes for each try; one try at a time (hash_queue.ts), so that many at once do not take the server's memory.
 */
import { Buffer } from "node:buffer";
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { HashQueue } from "../hash_queue.ts";

const COST = { N: 2 ** 15, r: 8, p: 3 };
const HASH_BYTES = 32;
const SHORTEST_PASSWORD = 12;

/** `scrypt$N$r$p$salt$hash` */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const hash = await derive(password, { salt, cost: COST, known: true });
  return ["scrypt", COST.N, COST.r, COST.p, salt.toString("base64url"), hash.toString("base64url")].join("$");
}

/** Takes as long when there is no such user (`stored` undefined) as when there is. `known`: comes before those who are not. */
export async function passwordFits(password: string, stored: string | undefined, known = true): Promise<boolean> {
  const [kind, N, r, p, salt = "", hash = ""] = (stored ?? NOBODY).split("$");
  if (kind !== "scrypt") throw new Error("Cannot read a password's hash: it is not one of scrypt");
  const cost = { N: Number(N), r: Number(r), p: Number(p) };
  const found = await derive(password, { salt: Buffer.from(salt, "base64url"), cost, known });
  const expected = Buffer.from(hash, "base64url");
  return expected.length === found.length && timingSafeEqual(expected, found) && stored !== undefined;
}

/** What is wrong with a new password, in words; undefined: nothing. */
export function problemWithPassword(password: string): string | undefined {
  if (password.length < SHORTEST_PASSWORD) {
    return `Cannot use this password: it has ${password.length} characters; give ${SHORTEST_PASSWORD} or more`;
  }
  if (password.length > 1000) return "Cannot use this password: it has more than 1000 characters";
}

/** Of 128 bits or more, without letters that look alike, in groups: for a person to copy. */
export function makePassword(): string {
  const letters = "abcdefghjkmnpqrstuvwxyz23456789";
  const fair = randomBytes(200).filter((byte) => byte < 256 - 256 % letters.length).subarray(0, 28);
  return [...fair].map((byte) => letters[byte % letters.length]).join("").replace(/.{7}(?=.)/g, "$&-");
}

/** 256 bits: of sessions and of API tokens. */
export function makeToken(): string {
  return randomBytes(32).toString("base64url");
}

/** A token has nothing to guess, so a plain digest does. */
export async function digestOf(token: string): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token))).toHex();
}

const NOBODY = `scrypt$${COST.N}$${COST.r}$${COST.p}$${"A".repeat(22)}$${"A".repeat(43)}`;

/** Of this process. Who comes from outside enters it first. */
export const hashing = new HashQueue();

function derive(
  password: string,
  on: { salt: Buffer; cost: { N: number; r: number; p: number }; known: boolean },
): Promise<Buffer> {
  const memory = { ...on.cost, maxmem: 256 * on.cost.N * on.cost.r };
  return hashing.run(on.known, () =>
    new Promise((resolve, reject) => {
      const done = (error: Error | null, key: Buffer) => error ? reject(error) : resolve(key);
      scrypt(password.normalize("NFKC"), on.salt, HASH_BYTES, memory, done);
    }));
}
