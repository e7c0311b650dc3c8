/** The admin page without a socket: requests as a browser sends them, with a jar of cookies, and users to log in as. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { scryptSync } from "node:crypto";
import { buildAdmin } from "../../src/admin/app.ts";
import type { Archive } from "../../src/archive/archive.ts";
import { Live } from "../../src/admin/live.ts";
import { type BaseUrl, placeOf } from "../../src/admin/base_url.ts";
import { type CookieKind, cookieName } from "../../src/admin/preferences.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import { addUser, type UserRole } from "../../src/access/users.ts";
import { type Stores, withStores } from "./stores.ts";

export const PASSWORD = "correct horse battery";

export interface AdminScene extends Stores {
  /** Looks when it is told to, and not by itself. */
  live: Live;
  /** Adds a user with `PASSWORD` and logs it in. */
  login(role: UserRole, name?: string): Promise<Browser>;
  /** Somebody who is not logged in. */
  stranger(address?: string): Browser;
}

interface SceneOptions {
  /** SCHEDULER_ADMIN_URL. */
  url?: string;
  proxies?: number;
  /** SCHEDULER_ADMIN_HOSTS. */
  hosts?: string[];
  metrics_token?: string;
  callback_secret?: string;
  archive?: Archive;
  /** Of the pages' requests, for a scene in which Postgres is away. */
  sql?: (sql: Sql) => Sql;
}

export function withAdmin(test: (on: AdminScene) => Promise<void>, options: SceneOptions = {}): Promise<void> {
  return withStores((stores) => adminOn(stores, test, options));
}

/** The same over stores that are there already, such as those of real workers. */
export async function adminOn(
  stores: Stores,
  test: (on: AdminScene) => Promise<void>,
  options: SceneOptions = {},
): Promise<void> {
  const stop = new AbortController();
  const sql = options.sql?.(stores.sql) ?? stores.sql;
  const public_url = options.url ? new URL(options.url) : undefined;
  const { archive, metrics_token, callback_secret, proxies = 0, hosts = ["admin.test"] } = options;
  const place = placeOf({ public_url, proxies, hosts });
  const live = new Live(sql);
  const app = buildAdmin({ sql, place, live, stop: stop.signal, archive, metrics_token, callback_secret });
  const origin = public_url?.origin ?? "http://admin.test";
  const stranger = (address = "10.0.0.1") =>
    new Browser((request) => Promise.resolve(app.fetch(request, { address })), { origin, place });
  try {
    await test({
      ...stores,
      live,
      stranger,
      async login(role, name = role) {
        await aUser(stores.sql, { name, role });
        const browser = stranger();
        assert.equal((await browser.logIn(name, PASSWORD)).status, 303);
        return browser;
      },
    });
  } finally {
    stop.abort();
  }
}

/** At a hundredth of the usual cost, which whoever logs in pays again: tests log in all the time. */
const [N, r, p] = [1024, 8, 1];
const SALT = Buffer.alloc(16, "salt");
const HASH = [
  "scrypt",
  N,
  r,
  p,
  ...[SALT, scryptSync(PASSWORD, SALT, 32, { N, r, p })].map((part) => part.toString("base64url")),
].join("$");

export async function aUser(sql: Sql, user: { name: string; role: UserRole }): Promise<void> {
  assert(await addUser(sql, { ...user, password_hash: HASH }, { actor: "test" }));
}

type Send = (request: Request) => Promise<Response>;

/** Keeps cookies, sends its origin with forms, and follows nothing. */
export class Browser {
  readonly cookies = new Map<string, string>();
  /** As Set-Cookie gave them last. */
  readonly set: string[] = [];
  readonly #send: Send;
  readonly #at: { origin: string; place: BaseUrl };

  constructor(send: Send, at: { origin: string; place: BaseUrl }) {
    this.#send = send;
    this.#at = at;
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Response> {
    return this.#ask(path, { headers });
  }

  async text(path: string, headers: Record<string, string> = {}): Promise<string> {
    return await (await this.get(path, headers)).text();
  }

  /** With the page's own token unless another is given. */
  async post(path: string, fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Response> {
    const csrf = fields.csrf ?? (this.cookie("session") !== undefined ? await this.csrf() : "");
    const body = new URLSearchParams({ ...fields, csrf });
    return await this.#ask(path, { method: "POST", body, headers: { origin: this.#at.origin, ...headers } });
  }

  /** Sends a form, and gives where it leads and what is said there. */
  async act(path: string, fields: Record<string, string> = {}): Promise<{ to: string; tone: string; text: string }> {
    const answer = await this.post(path, fields);
    assert.equal(answer.status, 303, `${path} answers ${answer.status}`);
    const flash = this.cookie("flash");
    this.cookies.delete(cookieName(this.#at.place, "flash"));
    const { tone = "", text = "" } = flash ? JSON.parse(decodeURIComponent(flash)) : {};
    return { to: answer.headers.get("location") ?? "", tone, text };
  }

  cookie(kind: CookieKind): string | undefined {
    return this.cookies.get(cookieName(this.#at.place, kind));
  }

  async csrf(): Promise<string> {
    return /name="csrf" value="([^"]+)"/.exec(await this.text("/runs"))?.[1] ?? "";
  }

  logIn(name: string, password: string): Promise<Response> {
    return this.post("/login", { name, password, back: "/runs" });
  }

  /** As it is given, with the cookies. */
  send(path: string, init: RequestInit): Promise<Response> {
    return this.#ask(path, init);
  }

  async #ask(path: string, init: RequestInit): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const headers = { host: new URL(this.#at.origin).host, ...(cookie ? { cookie } : {}), ...init.headers };
    const response = await this.#send(new Request(this.#at.origin + this.#at.place.base + path, { ...init, headers }));
    const given = response.headers.getSetCookie();
    if (given.length > 0) this.set.splice(0, this.set.length, ...given);
    for (const one of given) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(one) ?? [];
      if (/max-age=0/i.test(one)) this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return response;
  }
}

/** The fields of a form as a browser would send them back, untouched. */
export function fieldsOf(html: string): Record<string, string> {
  const form = /<form class="form".*?<\/form>/s.exec(html)?.[0] ?? "";
  const text = (coded: string) =>
    coded.replaceAll("&quot;", '"').replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&#39;", "'").replaceAll(
      "&amp;",
      "&",
    );
  const fields: Record<string, string> = {};
  for (const [tag] of form.matchAll(/<(input|select)[^>]*>/g)) {
    const attribute = (name: string) => new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1];
    const name = attribute("name");
    if (name === undefined || (attribute("type") === "checkbox" && !/ checked/.test(tag))) continue;
    const rest = form.slice(form.indexOf(tag) + tag.length);
    const chosen = tag.startsWith("<select")
      ? /<option value="([^"]*)" selected/.exec(rest.slice(0, rest.indexOf("</select>")))?.[1]
      : attribute("value");
    fields[text(name)] = text(chosen ?? "");
  }
  for (const [, name = "", value = ""] of form.matchAll(/<textarea[^>]* name="([^"]*)"[^>]*>\n?(.*?)<\/textarea>/gs)) {
    fields[text(name)] = text(value);
  }
  return fields;
}
