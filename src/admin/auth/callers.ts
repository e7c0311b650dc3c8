/** Who asks: somebody with a session's cookie, or a program with a token. Both end as one thing with a name and what it may do. */
import type { Context } from "hono";
import { getCookie } from "hono/cookie";
import { Buffer } from "node:buffer";
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readApiToken, type Scope, scopesAllow } from "../../access/api_tokens.ts";
import type { Db } from "../../postgres/connection.ts";
import { readSession, type SessionView } from "../../access/sessions.ts";
import type { UserRole } from "../../access/users.ts";
import { digestOf } from "./passwords.ts";
import { type BaseUrl, isOwnOrigin } from "../base_url.ts";
import { cookieName } from "../preferences.ts";

export interface LoginSession extends SessionView {
  token: string;
  csrf: Buffer;
}

/** The session of the cookie, if it is open. */
export async function sessionOf(
  c: Context,
  { sql, place }: { sql: Db; place: BaseUrl },
): Promise<LoginSession | undefined> {
  const token = getCookie(c, cookieName(place, "session"));
  if (!token) return undefined;
  const session = await readSession(sql, await digestOf(token));
  return session && { ...session, token, csrf: csrfOf(token) };
}

/** Of a session's token, so that nothing more is stored; who knows the one cannot tell the other. */
function csrfOf(token: string): Buffer {
  return createHmac("sha256", token).update("csrf").digest();
}

/**
 * As it stands in an answer: other letters each time. Answers are compressed, and who can put text of their own into many of them learns from
 * their lengths what stays the same (BREACH).
 */
export function maskedCsrf(csrf: Buffer): string {
  const mask = randomBytes(csrf.length);
  return Buffer.concat([mask, xor(mask, csrf)]).toString("base64url");
}

function isCsrf(csrf: Buffer, given: string): boolean {
  const masked = Buffer.from(given, "base64url");
  const half = csrf.length;
  return masked.length === 2 * half && timingSafeEqual(xor(masked.subarray(0, half), masked.subarray(half)), csrf);
}

function xor(one: Buffer, other: Buffer): Buffer {
  return Buffer.from(one.map((byte, place) => byte ^ (other[place] as number)));
}

/** Whether a request that changes something comes from a page of ours: its origin, and what only that page knew. */
export function isOwnForm(on: { place: BaseUrl; headers: Headers; csrf: Buffer | undefined; given: string }): boolean {
  return isOwnOrigin(on.place, on.headers) && (on.csrf === undefined || isCsrf(on.csrf, on.given));
}

/** Whoever uses the API. */
export interface ApiCaller {
  /** For the audit: "user:NAME" or "token:NAME". */
  actor: string;
  allows(scope: Scope): boolean;
}

const SCOPE_OF: Record<UserRole, Scope> = { viewer: "read", operator: "operate", admin: "admin" };

/**
 * By `Authorization: Bearer TOKEN`, or by the session of our own page, which then sends `x-csrf` with all but GET.
 * Undefined: neither, and the answer is 401.
 */
export async function callerOf(c: Context, on: { sql: Db; place: BaseUrl }): Promise<ApiCaller | undefined> {
  const [, bearer] = /^Bearer +(\S+)$/i.exec(c.req.header("authorization") ?? "") ?? [];
  if (bearer) {
    const token = await readApiToken(on.sql, await digestOf(bearer));
    return token && { actor: `token:${token.name}`, allows: (scope) => scopesAllow(token.scopes, scope) };
  }
  const session = await sessionOf(c, on);
  if (!session) return undefined;
  const reads = c.req.method === "GET" || c.req.method === "HEAD";
  const given = c.req.header("x-csrf") ?? "";
  if (!reads && !isOwnForm({ place: on.place, headers: c.req.raw.headers, csrf: session.csrf, given })) {
    return undefined;
  }
  return { actor: `user:${session.name}`, allows: (scope) => scopesAllow([SCOPE_OF[session.role]], scope) };
}
