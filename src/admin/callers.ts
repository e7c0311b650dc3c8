/** Who asks: somebody with a session's cookie, or a program with a token. Both end as one thing with a name and what it may do. */
import type { Context } from "hono";
import { getCookie } from "hono/cookie";
import { createHmac } from "node:crypto";
import { readApiToken, type Scope, scopesAllow } from "../store/api_tokens.ts";
import type { Db } from "../store/db.ts";
import { readSession, type SessionView } from "../store/sessions.ts";
import type { Role } from "../store/users.ts";
import { digestOf } from "./passwords.ts";
import { isOwnOrigin, type Place } from "./place.ts";

export const SESSION_COOKIE = "dandori_session";

export interface OpenSession extends SessionView {
  token: string;
  csrf: string;
}

/** The session of the cookie, if it is open. */
export async function sessionOf(c: Context, sql: Db): Promise<OpenSession | undefined> {
  const token = getCookie(c, SESSION_COOKIE);
  if (!token) return undefined;
  const session = await readSession(sql, await digestOf(token));
  return session && { ...session, token, csrf: csrfOf(token) };
}

/** Of a session's token, so that nothing more is stored; who knows the one cannot tell the other. */
function csrfOf(token: string): string {
  return createHmac("sha256", token).update("csrf").digest("base64url");
}

/** Whether a request that changes something comes from a page of ours: its origin, and what only that page knew. */
export function isOwnForm(on: { place: Place; headers: Headers; csrf: string | undefined; given: string }): boolean {
  return isOwnOrigin(on.place, on.headers) && (on.csrf === undefined || on.given === on.csrf);
}

/** Whoever uses the API. */
export interface Caller {
  /** For the audit: "user:NAME" or "token:NAME". */
  actor: string;
  allows(scope: Scope): boolean;
}

const SCOPE_OF: Record<Role, Scope> = { viewer: "read", operator: "operate", admin: "admin" };

/**
 * By `Authorization: Bearer TOKEN`, or by the session of our own page, which then sends `x-csrf` with all but GET.
 * Undefined: neither, and the answer is 401.
 */
export async function callerOf(c: Context, on: { sql: Db; place: Place }): Promise<Caller | undefined> {
  const [, bearer] = /^Bearer +(\S+)$/i.exec(c.req.header("authorization") ?? "") ?? [];
  if (bearer) {
    const token = await readApiToken(on.sql, await digestOf(bearer));
    return token && { actor: `token:${token.name}`, allows: (scope) => scopesAllow(token.scopes, scope) };
  }
  const session = await sessionOf(c, on.sql);
  if (!session) return undefined;
  const reads = c.req.method === "GET" || c.req.method === "HEAD";
  const given = c.req.header("x-csrf") ?? "";
  if (!reads && !isOwnForm({ place: on.place, headers: c.req.raw.headers, csrf: session.csrf, given })) {
    return undefined;
  }
  return { actor: `user:${session.name}`, allows: (scope) => scopesAllow([SCOPE_OF[session.role]], scope) };
}
