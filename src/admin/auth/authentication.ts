/** From a request to a visit, and from a page to an answer: the same for every route. */
import type { Context } from "hono";
import type { Archive } from "../../archive/archive.ts";
import { wallClock } from "../../platform/timers.ts";
import type { Sql } from "../../postgres/connection.ts";
import { BodyRefused, type Bounds, readBody } from "../body.ts";
import { isOwnForm, type LoginSession, maskedCsrf } from "./callers.ts";
import { wholePage } from "../layout.tsx";
import type { Live } from "../live.ts";
import type { BaseUrl } from "../base_url.ts";
import { langOf, takeFlash, themeOf, zoneOf } from "../preferences.ts";
import { countPrompts } from "../../steps/open_prompts.ts";
import { field, type Page, PageError, type RedisConfig, type RequestContext } from "../request_context.ts";

export interface AdminParts {
  sql: Sql;
  place: BaseUrl;
  live: Live;
  /** What scrapers must show; undefined: nothing. */
  metrics_token?: string;
  /** Of callback addresses; undefined: none leads anywhere. */
  callback_secret?: string;
  /** Ends streams. */
  stop: AbortSignal;
  /** To tell workers at once that they are detached; without it they learn with their next renewal. */
  redis?: RedisConfig;
  /** Of old logs; undefined: none is configured here. */
  archive?: Archive;
}

/** `Bindings.address`: of the peer, as the server saw it; `Variables.address`: of the client. */
export interface HonoEnv {
  Bindings: { address: string };
  Variables: { session: LoginSession | undefined; address: string };
}

/**
 * The body of a request that changes something, if it comes from a page of ours. @throws Refusal 403; 400 for what Postgres cannot hold, and
 * for what cannot be read or was cut off: taken for an empty form it would do something else than what was asked for; 408 and 413: its bounds
 */
export async function ownForm(
  c: Context<HonoEnv>,
  { place }: Pick<AdminParts, "place">,
  bounds: Bounds,
): Promise<FormData> {
  let readable = true;
  const form = await formOf(c.req.raw, bounds).catch((error) => {
    if (error instanceof BodyRefused) throw new PageError(error.status);
    readable = c.req.header("content-type") === undefined; // it has no body
    return new FormData();
  });
  const given = c.req.header("x-csrf") ?? field(form, "csrf");
  if (!isOwnForm({ place, headers: c.req.raw.headers, csrf: c.get("session")?.csrf, given })) throw new PageError(403);
  if (!readable) throw new PageError(400);
  if ([...form.values()].some((value) => typeof value === "string" && value.includes("\0"))) throw new PageError(400);
  return form;
}

async function formOf(request: Request, bounds: Bounds): Promise<FormData> {
  const headers = { "content-type": request.headers.get("content-type") ?? "" };
  return await new Response(await readBody(request, bounds), { headers }).formData();
}

/** Of what waits for people, in the header of each page: more is "99+". */
const MOST_COUNTED = 100;

export function contextOf(c: Context<HonoEnv>, { sql, place, archive }: AdminParts): RequestContext {
  const session = c.get("session");
  return {
    sql,
    archive,
    lang: langOf(c, place),
    zone: zoneOf(c),
    theme: themeOf(c, place),
    base: place.base,
    path: c.req.path,
    query: new URL(c.req.url).searchParams,
    params: c.req.param() as Record<string, string>,
    now: wallClock(),
    user: session && { name: session.name, role: session.role },
    csrf: session ? maskedCsrf(session.csrf) : "",
    flash: isRefresh(c) ? undefined : takeFlash(c, place),
  };
}

export async function answerPage(
  c: Context,
  visit: RequestContext,
  page: Page,
  status: 200 | 400 | 403 | 404 | 408 | 413 | 429 | 500 | 503 = 200,
) {
  const part = isRefresh(c);
  const shows_count = !part && visit.user !== undefined && status < 500;
  const waiting = shows_count ? await countPrompts(visit.sql, MOST_COUNTED).catch(() => 0) : 0;
  return c.html(wholePage({ ...visit, waiting }, page, part), status);
}

/** A part of a page asks for itself again: it needs no frame around it, and takes no flash away from one. */
export function isRefresh(c: Context): boolean {
  return c.req.header("hx-request") === "true";
}

/** Only what leads to a page of ours, so that no link leads elsewhere through us. */
export function samePath(path: string): string {
  return /^\/(?![/\\])[\x21-\x7e]*$/.test(path) ? path : "/";
}
