/**
 * The admin page as one function from a request to an answer. In this order, the same for every route:
 *
 *   headers -> own host -> API (api/route.ts) -> assets, health -> whose session -> its role (routes say which) -> own form -> page or act -> layout
 *
 * What a page does not know how to answer ends in `onError`: the visitor gets a page in words, the log what happened.
 */
import { type Context, Hono } from "hono";
import { html } from "hono/html";
import { secureHeaders } from "hono/secure-headers";
import { observe } from "../platform/facts.ts";
import { isUnreachable, type JsonValue } from "../postgres/connection.ts";
import { LONGEST_REASON, perform, ROLE_OF } from "../actions/action.ts";
import type { Scope } from "../access/api_tokens.ts";
import type { SessionView } from "../access/sessions.ts";
import { mayActAs, ROLES, type UserRole } from "../access/users.ts";
import { buildApi } from "./api/api.ts";
import { answerAsset, assetPath, isAsset } from "./assets.ts";
import {
  type AdminParts,
  answerPage,
  contextOf,
  type HonoEnv,
  isRefresh,
  ownForm,
  samePath,
} from "./auth/authentication.ts";
import { OF_STRANGERS, OF_USERS } from "./body.ts";
import { mountCallbacks } from "./callbacks.tsx";
import { callerOf, sessionOf } from "./auth/callers.ts";
import { answerHealth, answerMetrics, readiness } from "./health.ts";
import { answerLive } from "./live_stream.ts";
import { mountLogin } from "./auth/login.ts";
import { ownHostsOnly } from "./own_hosts.ts";
import { HOME, OTHER_ROUTES, PAGES } from "./pages.ts";
import { errorPage, needsRole } from "./pages/error.tsx";
import { digestOf } from "./auth/passwords.ts";
import { addressOf, firstPart, pathWithin } from "./base_url.ts";
import { FewAtOnce, OF_PAGES, TooManyAtOnce } from "./few_at_once.ts";
import { t } from "../locale/locale.ts";
import { keepPreferences, langOf, leaveFlash } from "./preferences.ts";
import { type ActionContext, type Done, field, PageError, type Route } from "./request_context.ts";
import { stored } from "../locale/message.ts";

export function buildAdmin(parts: AdminParts): Hono<HonoEnv> {
  const { sql, place, redis, archive } = parts;
  const pages = new Set<string>();
  const app = new Hono<HonoEnv>({ getPath: (request) => pathWithin(place, new URL(request.url).pathname, pages) });
  app.use(secureHeaders(HEADERS));
  app.use(ownHostsOnly(place));
  // Before the session of pages: it has its own callers, and limits of its bodies.
  app.route("/api/v1", buildApi({ sql, redis, archive, callerOf: (c) => callerOf(c, { sql, place }) }));
  mountCallbacks(app, parts);
  app.get("/healthz", answerHealth);
  app.get("/readyz", readiness(parts));
  app.get("/metrics", (c) => answerMetrics(c, parts));
  app.get("/assets/:digest/:name", (c) => {
    const name = c.req.param("name");
    const current = isAsset(name) && c.req.path === assetPath(name);
    return current ? answerAsset(name) : c.text("There is no such file", 404);
  });
  app.use(async (c, next) => {
    c.header("cache-control", "no-store");
    c.set("address", addressOf(place, c.req.raw.headers, c.env?.address ?? ""));
    c.set("session", await sessionOf(c, parts));
    if (c.req.url.includes("%00")) throw new PageError(400); // no text of Postgres holds it, so every lookup would fail
    await next();
  });
  app.post("/preferences", async (c) => {
    const form = await ownForm(c, parts, OF_STRANGERS);
    keepPreferences(c, form, place);
    return c.redirect(place.base + samePath(field(form, "back")), 303);
  });
  mountLogin(app, parts);
  app.get("/live", async (c) => {
    const session = c.get("session");
    if (!session) return c.text("Log in first", 401);
    return answerLive(c, { ...parts, who: session.name, session: await digestOf(session.token) });
  });
  app.get("/", (c) => c.redirect(place.base + HOME, 302));
  const pathOf = (url: string) => {
    const { pathname, search } = new URL(url);
    return pathWithin(place, pathname, pages) + search;
  };
  const routed = { ...parts, pathOf, few: new FewAtOnce(OF_PAGES) };
  const routes = [...PAGES.flatMap((page) => page.routes), ...OTHER_ROUTES];
  for (const route of routes) mount(app, route, routed);
  leadBack(app, routes, place.base);
  for (const { path } of app.routes) pages.add(firstPart(path));
  for (const none of ["", "*"]) pages.delete(none);
  app.notFound((c) => answerRefusal(c, routed, new PageError(404)));
  app.onError((error, c) => answerError(c, routed, error));
  return app;
}

/** `pathOf`: what follows the base in an address of ours. */
type RouteParts = AdminParts & { pathOf(url: string): string; few: FewAtOnce };

/** The one place where a role is asked for. */
function mount(app: Hono<HonoEnv>, route: Route, parts: RouteParts): void {
  const needed = roleFor(route);
  const admit = (c: Context<HonoEnv>) => {
    const session = c.get("session");
    if (session && !mayActAs(session.role, needed)) {
      throw new PageError(403, needsRole(langOf(c, parts.place), { needed, has: session.role }));
    }
    return session;
  };
  const bounded = <T>(c: Context<HonoEnv>, work: () => Promise<T>): Promise<T> =>
    "costly" in route && route.costly ? parts.few.run(c.get("session")?.name ?? "", work) : work();
  if ("get" in route) {
    app.get(route.get, async (c) => {
      if (!admit(c)) return toLogin(c, parts);
      const visit = contextOf(c, parts);
      return answerPage(c, visit, await bounded(c, () => route.show(visit)));
    });
  } else if ("json" in route) {
    app.get(route.json, async (c) => {
      if (!admit(c)) return c.text("Log in first", 401);
      return c.json(await bounded(c, () => route.read(contextOf(c, parts))) as JsonValue);
    });
  } else if ("file" in route) {
    app.get(route.file, async (c) => {
      if (!admit(c)) return toLogin(c, parts);
      const { name, type, text } = await bounded(c, () => route.write(contextOf(c, parts)));
      c.header("content-disposition", `attachment; filename="${name}"`);
      return c.body(text, 200, { "content-type": `${type}; charset=utf-8` });
    });
  } else {
    app.post(route.post, async (c) => {
      const session = admit(c);
      if (!session) return toLogin(c, parts);
      const form = await ownForm(c, parts, OF_USERS);
      const visit = contextOf(c, parts);
      const answer = await route.act({ ...visit, form, perform: performer(route, { session, form, parts }) });
      return "body" in answer ? answerPage(c, visit, answer, answer.status ?? 200) : answerDone(c, parts, answer);
    });
  }
}

/** The least that any of its acts needs; each act is asked again when it is performed. */
function roleFor(route: Route): UserRole {
  if (!("does" in route)) return route.role;
  const roles = [route.does].flat().map(({ needs }) => ROLE_OF[needs]);
  return ROLES.find((role) => roles.includes(role)) ?? "admin";
}

/** What a route did not say that it does, it cannot do. */
function performer(
  route: Extract<Route, { post: string }>,
  { session, form, parts }: { session: SessionView; form: FormData; parts: RouteParts },
): ActionContext["perform"] {
  const caller = {
    sql: parts.sql,
    actor: `user:${session.name}`,
    allows: (scope: Scope) => mayActAs(session.role, ROLE_OF[scope]),
    reason: field(form, "reason").slice(0, LONGEST_REASON),
    unreasoned: stored("reason.page"),
    redis: parts.redis,
  };
  return (act, input) => {
    if (![route.does].flat().includes(act)) throw new TypeError(`${route.post} does not say that it does ${act.name}`);
    return perform(act, caller, input);
  };
}

/**
 * The answer to a form may be a page at an address that shows nothing by itself, and who asks for that again, as by the switch of the language, is
 * led to the nearest page above it.
 */
function leadBack(app: Hono<HonoEnv>, routes: Route[], base: string): void {
  const shown = new Set(routes.flatMap((route) => "get" in route ? [route.get] : []));
  for (const route of routes) {
    if (!("post" in route) || shown.has(route.post)) continue;
    const parts = route.post.split("/");
    while (parts.length > 1 && !shown.has(parts.join("/"))) parts.pop();
    app.get(
      route.post,
      (c) => c.redirect(`${base}${c.req.path.split("/").slice(0, parts.length).join("/") || "/"}`, 303),
    );
  }
}

/** A part of a page that acts by itself takes its new self from there; where something is to be said, the page is loaded anew. */
function answerDone(c: Context<HonoEnv>, { place }: AdminParts, { to, text, tone }: Done): Response {
  if (text) leaveFlash(c, { text, tone: tone ?? "good" }, place);
  if (!text || !isRefresh(c)) return c.redirect(place.base + to, 303);
  c.header("hx-redirect", place.base + to);
  return c.body(null, 200);
}

/**
 * And from there back to what was looked at: of a form, the page that it stood on, since the session may have ended meanwhile. A refresh must
 * not put the login into the middle of a page: the script loads the whole page anew instead.
 */
function toLogin(c: Context<HonoEnv>, { place, pathOf }: RouteParts): Response | Promise<Response> {
  if (isRefresh(c)) return c.text("Log in first", 401);
  const sent_from = sentFrom(c, pathOf);
  const query: Record<string, string> = sent_from === undefined
    ? { back: pathOf(c.req.url) }
    : { back: sent_from, undone: "1" };
  const login = `${place.base}/login?${new URLSearchParams(query)}`;
  return isFromElsewhere(c) ? c.html(askAgain(login)) : c.redirect(login, 303);
}

/** A link on another site was followed: browsers send no cookie of ours with it (SameSite=Strict), nor with what it is redirected to. */
function isFromElsewhere(c: Context<HonoEnv>): boolean {
  return c.req.header("sec-fetch-site") === "cross-site" && c.req.header("sec-fetch-mode") === "navigate";
}

/** From a page of ours they do: the login leads on whoever is logged in. */
function askAgain(login: string) {
  return html`
    <!DOCTYPE html>
    <title>Dandori</title>
    <meta http-equiv="refresh" content="0; url=${login}">
  `;
}

/** The page of the form that was sent, the first one where the browser does not tell; undefined: none was sent. */
function sentFrom(c: Context<HonoEnv>, pathOf: RouteParts["pathOf"]): string | undefined {
  if (c.req.method !== "POST") return undefined;
  const from = c.req.header("referer") ?? "";
  return URL.canParse(from) ? samePath(pathOf(from)) : "/";
}

function answerRefusal(c: Context<HonoEnv>, parts: RouteParts, { status, message }: PageError): Promise<Response> {
  const visit = contextOf(c, parts);
  const sent_from = sentFrom(c, parts.pathOf);
  return answerPage(c, visit, errorPage(visit, { status, text: message, sent_from }), status);
}

function answerError(c: Context<HonoEnv>, parts: RouteParts, error: Error) {
  if (error instanceof PageError) return answerRefusal(c, parts, error);
  if (error instanceof TooManyAtOnce) {
    c.header("retry-after", "2");
    return answerRefusal(c, parts, new PageError(429, t(contextOf(c, parts), "error.many_at_once")));
  }
  const visit = contextOf(c, parts);
  const id = crypto.randomUUID().slice(0, 8);
  observe("admin.failed", { id, request: `${c.req.method} ${c.req.path}`, error: error.stack ?? String(error) });
  const status = isUnreachable(error) ? 503 : 500;
  if (status === 503) c.header("retry-after", "2");
  return answerPage(c, visit, errorPage(visit, { status, text: id, sent_from: sentFrom(c, parts.pathOf) }), status);
}

/** What no page of ours asks a browser for, so nothing in one may. */
const UNUSED = [
  "accelerometer",
  "camera",
  "clipboardRead",
  "displayCapture",
  "fullscreen",
  "geolocation",
  "gyroscope",
  "magnetometer",
  "microphone",
  "midi",
  "payment",
  "publickeyCredentialsGet",
  "screenWakeLock",
  "serial",
  "usb",
  "xrSpatialTracking",
] as const;

const HEADERS: Parameters<typeof secureHeaders>[0] = {
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    connectSrc: ["'self'"],
    imgSrc: ["'self'", "data:"],
    formAction: ["'self'"],
    frameAncestors: ["'none'"],
    baseUri: ["'none'"],
  },
  xFrameOptions: "DENY",
  referrerPolicy: "same-origin",
  crossOriginResourcePolicy: "same-origin",
  permissionsPolicy: Object.fromEntries(UNUSED.map((feature) => [feature, false])),
  strictTransportSecurity: false, // of the proxy that holds the certificate
};
