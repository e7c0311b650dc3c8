/**
 * What pages are made of. A route says its path, which role it needs or which acts it performs and what it answers: it is given a visit, and gives a
 * page, or where to go after an act. It sees no request and sets no header; app.ts does that, the same for all.
 */
import type { Child } from "hono/jsx";
import type { z } from "zod";
import type { Action } from "../actions/action.ts";
import type { Archive } from "../archive/archive.ts";
import type { Config } from "../platform/config.ts";
import type { Sql } from "../postgres/connection.ts";
import type { SessionView } from "../access/sessions.ts";
import { mayActAs, type UserRole } from "../access/users.ts";
import type { Lang } from "../locale/locale.ts";

export type Theme = "auto" | "light" | "dark";

export interface Flash {
  tone: "good" | "bad";
  text: string;
}

/** Somebody looking. */
export interface RequestContext {
  sql: Sql;
  /** Of old logs. */
  archive: Archive | undefined;
  lang: Lang;
  /** The viewer's IANA time zone, UTC until the browser has told. */
  zone: string;
  theme: Theme;
  /** Before every path of ours, "" or such as "/jobs". */
  base: string;
  /** What was asked for, from the base on: "/runs". */
  path: string;
  query: URLSearchParams;
  /** The values of `:name` in the route's path. */
  params: Record<string, string>;
  /** The server's wall clock, for telling how long ago something was. */
  now: Date;
  /** Undefined only on routes for `anyone`. */
  user: SessionView | undefined;
  /** Must come back with every form; empty without a session. */
  csrf: string;
  flash: Flash | undefined;
  /** How many questions of runs are open, counted up to 100; known where a whole page is answered. */
  waiting?: number;
  /** What was sent, where a page answers a form that cannot be taken. */
  form?: FormData;
}

/** Somebody acting. */
export interface ActionContext extends RequestContext {
  form: FormData;
  /** The only way from a page to anything that writes: in the visitor's name, with the reason of the form. @throws Refused */
  perform<Input extends z.ZodObject, Result>(act: Action<Input, Result>, input: z.input<Input>): Promise<Result>;
}

export type RedisConfig = Pick<Config, "redis_url" | "redis_prefix">;

export interface Page {
  title: string;
  body: Child;
  /** The browser asks again after so many seconds; for what has no live part. */
  refresh_seconds?: number;
  /** Scripts and style sheets (assets.ts) that only this page needs. */
  assets?: string[];
  /** A form that cannot be taken as it was sent: it comes back with what is wrong, and everything that was typed. */
  status?: 400;
}

/** After an act: the page to go to (its path from the base on), and what to say there. */
export interface Done extends Partial<Flash> {
  to: string;
}

export type Route =
  /** `costly`: a reader can make it long, so that few of one user are under way at once. */
  | { get: string; role: UserRole; costly?: true; show(on: RequestContext): Promise<Page> }
  /** What a script asks for, as JSON. */
  | { json: string; role: UserRole; costly?: true; read(on: RequestContext): Promise<unknown> }
  /** `does`: the acts that it may perform; whoever may do none of them is not let in. */
  | { post: string; does: Action | readonly Action[]; act(on: ActionContext): Promise<Done | Page> }
  /** A file to keep. */
  | { file: string; role: UserRole; costly?: true; write(on: RequestContext): Promise<Download> };

export interface Download {
  name: string;
  type: "text/csv" | "application/json";
  text: string;
}

/** An answer other than the page, in the visitor's language: 404 there is no such thing, 400 what was asked makes no sense. */
export class PageError extends Error {
  override name = "Refusal";
  constructor(readonly status: 400 | 403 | 404 | 408 | 413 | 429, message = "") {
    super(message);
  }
}

/** Whether to show what needs this role. What is shown is no permission: each route says its own. */
export function may(on: RequestContext, role: UserRole): boolean {
  return on.user !== undefined && mayActAs(on.user.role, role);
}

type Query = URLSearchParams | Record<string, string | number | undefined>;

/** A path of ours as a browser must ask for it, with a query. Parts that are undefined or empty are left out. */
export function link(on: RequestContext, path: string, query: Query = {}): string {
  const all = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const given = all.filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `${on.base}${path}${search && `?${search}`}`;
}

/** A text of a form, without the blanks around it; "" when it is not there. */
export function field(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value.trim() : "";
}

/** What stands in a field of a form that comes back; undefined: it is a new one. */
export function typedIn({ form }: RequestContext, name: string): string | undefined {
  return form && field(form, name);
}

/** The `:id` of a path. @throws Refusal 404 */
export function idParam(on: RequestContext): number {
  const id = on.params.id ?? "";
  if (!/^[1-9]\d{0,14}$/.test(id)) throw new PageError(404);
  return Number(id);
}
