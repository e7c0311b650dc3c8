/**
 * The door of callback addresses, `/m/{run}.{name}.{expires}.{mac}` (steps/callback_address.ts): whoever has one sends that message to that run. Needs no
 * session, and gives nothing away: a wrong address is answered alike whatever is wrong with it, one that is over alike whatever ended it.
 *
 * A GET changes nothing, since scanners of mail follow links: it shows a button. A POST of JSON is the payload; one of the button's form is null, or {}.
 */
import type { Context, Hono } from "hono";
import { Refused } from "../actions/args.ts";
import { sendToRun } from "../actions/messages.ts";
import { observe } from "../platform/facts.ts";
import { monotonicMs } from "../platform/timers.ts";
import { isUnreachable, type Sql } from "../postgres/connection.ts";
import { type Callback, readCallback } from "../steps/callback_address.ts";
import { type Lang, t } from "../locale/locale.ts";
import { answerProblem, ApiProblem } from "./api/problem.ts";
import { assetPath } from "./assets.ts";
import type { HonoEnv } from "./auth/authentication.ts";
import type { BaseUrl } from "./base_url.ts";
import { BodyRefused, type Bounds, OF_STRANGERS, readBody } from "./body.ts";
import { FewAtOnce, TooManyAtOnce } from "./few_at_once.ts";
import { marked } from "./marked.ts";
import { langOf } from "./preferences.ts";

interface Door {
  sql: Sql;
  place: BaseUrl;
  /** Undefined: no address leads anywhere. */
  callback_secret?: string;
  /** Of what is sent. */
  callback_body?: Bounds;
}

const OF_CALLBACKS: Bounds = { bytes: 1_048_576, ms: OF_STRANGERS.ms };
const MOST_PER_MINUTE = 60;

export function mountCallbacks(app: Hono<HonoEnv>, door: Door): void {
  const rate = new Rate();
  const few = new FewAtOnce();
  app.get("/m/:token", (c) => guarded(c, door, (callback) => showButton(c, door, callback)));
  app.post("/m/:token", (c) =>
    guarded(c, door, (callback) => {
      if (!rate.takes(callback.job_run_id)) throw tooMany();
      // Messages to a run change its row one after the other: more at once would only hold connections.
      return few.run(String(callback.job_run_id), () => takeMessage(c, door, callback));
    }));
}

/** Nothing that is logged or said has the address in it: it is a secret. */
async function guarded(c: Context<HonoEnv>, door: Door, answer: (callback: Callback) => Promise<Response>) {
  c.header("cache-control", "no-store");
  c.header("x-robots-tag", "noindex, nofollow");
  c.header("referrer-policy", "no-referrer");
  const secret = door.callback_secret;
  const callback = secret === undefined ? undefined : readCallback(secret, c.req.param("token") ?? "");
  if (!callback) return refusal(c, door, "not_found");
  try {
    return await answer(callback);
  } catch (error) {
    if (error instanceof ApiProblem) return refusal(c, door, error);
    if (error instanceof TooManyAtOnce) return refusal(c, door, tooMany());
    const id = crypto.randomUUID();
    const request = `${c.req.method} /m/… (run ${callback.job_run_id}, ${callback.name})`;
    observe("admin.failed", { id, request, error: (error as Error).stack ?? String(error) });
    return answerProblem(
      new ApiProblem(isUnreachable(error) ? "unreachable" : "failed", "Cannot take this message"),
      id,
    );
  }
}

async function showButton(c: Context<HonoEnv>, door: Door, callback: Callback): Promise<Response> {
  if (!await isOpen(door.sql, callback)) return refusal(c, door, "over");
  return page(c, door, "callback.ask", 200);
}

async function takeMessage(c: Context<HonoEnv>, door: Door, callback: Callback): Promise<Response> {
  const { sql, callback_body = OF_CALLBACKS } = door;
  if (!await isOpen(sql, callback)) return refusal(c, door, "over");
  const body = await readBody(c.req.raw, callback_body).catch((error) => {
    if (!(error instanceof BodyRefused)) throw new ApiProblem("malformed", "Cannot read the body: it was cut off");
    throw new ApiProblem(error.status === 408 ? "slow" : "too_large", `Cannot take this message: ${error.message}`);
  });
  const key = c.req.header("idempotency-key");
  if (key !== undefined && (key.length > 400 || key.includes("\0"))) {
    throw new ApiProblem("invalid", "Cannot take this message: Idempotency-Key has more than 400 letters", {
      fix: "send a shorter one",
    });
  }
  const sender = { sent_by: "callback", dedupeKey: key === undefined ? undefined : `callback:${key}` };
  const send = (payload: unknown) => sendToRun(sql, callback.job_run_id, { name: callback.name, payload }, sender);
  try {
    if (isForm(c)) await send({}).catch((error) => isUnfit(error) ? send(null) : Promise.reject(error));
    else await send(jsonOf(body));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return refusal(c, door, said(error, isForm(c)));
  }
  return isForm(c) ? page(c, door, "callback.taken", 200) : c.json({ taken: true }, 202);
}

/** By the database's clock. */
async function isOpen(sql: Sql, { job_run_id, expires_unix_ms }: Callback): Promise<boolean> {
  const [run] = await sql`
    select from job_run where id = ${job_run_id} and finished_at is null
       and (${expires_unix_ms}::float8 = 0 or clock_timestamp() < to_timestamp(${expires_unix_ms}::float8 / 1000))`;
  return run !== undefined;
}

/** Without the words of the act, which name the job. */
function said(error: Refused, form: boolean): ApiProblem | "over" {
  if (isUnfit(error)) {
    const fix = form ? "send it as JSON" : "correct what `issues` names";
    return new ApiProblem("invalid", "Cannot take this message: it does not fit its schema", {
      issues: error.issues,
      fix,
    });
  }
  switch (error.says.code) {
    case "unread_full":
      return tooMany();
    case "too_large":
      return new ApiProblem("too_large", "Cannot take this message: it is too large");
    case "too_deep":
    case "unstorable":
      return new ApiProblem("invalid", "Cannot take this message: it cannot be stored", {
        fix: "send it without NUL, and less deep",
      });
    default:
      return "over"; // it has ended meanwhile, or its job takes no such message any more
  }
}

function isUnfit(error: unknown): boolean {
  return error instanceof Refused && error.says.code === "message_unfit";
}

function tooMany(): ApiProblem {
  return new ApiProblem("too_many", "Cannot take more messages at this address now", { fix: "send it again later" });
}

/** Of the page's button. */
function isForm(c: Context): boolean {
  return /^application\/x-www-form-urlencoded\b/i.test(c.req.header("content-type") ?? "");
}

function jsonOf(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new ApiProblem("malformed", "Cannot read the body: it is not JSON in UTF-8");
  }
}

/** A person gets a page, a program a problem. */
function refusal(
  c: Context<HonoEnv>,
  door: Door,
  why: ApiProblem | "not_found" | "over",
): Response | Promise<Response> {
  if (c.req.method === "GET" || isForm(c)) {
    if (why === "not_found") return page(c, door, "callback.none", 404);
    if (why === "over") return page(c, door, "callback.none", 410);
    return page(
      c,
      door,
      why.kind === "too_many" ? "callback.busy" : "callback.unfit",
      why.kind === "too_many" ? 429 : 422,
    );
  }
  if (typeof why === "object") return answerProblem(why);
  return c.json({ title: "There is nothing at this address, or it is over" }, why === "over" ? 410 : 404);
}

/** Says nothing of the job or the run, and needs no script. */
function page(
  c: Context<HonoEnv>,
  { place }: Door,
  says: "callback.ask" | "callback.taken" | "callback.none" | "callback.busy" | "callback.unfit",
  status: 200 | 404 | 410 | 422 | 429,
): Response | Promise<Response> {
  const on: { lang: Lang } = { lang: langOf(c, place) };
  return c.html(
    marked(`<!DOCTYPE html>${(
      <html lang={on.lang} data-theme="auto">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="robots" content="noindex, nofollow" />
          <title>Dandori</title>
          <link rel="stylesheet" href={`${place.base}${assetPath("style.css")}`} />
        </head>
        <body>
          <main id="main">
            <div class="narrow">
              <h1>{t(on, says)}</h1>
              {says === "callback.ask" && (
                <form method="post">
                  <p>{t(on, "callback.ask_text")}</p>
                  <button type="submit" class="primary">{t(on, "callback.confirm")}</button>
                </form>
              )}
            </div>
          </main>
        </body>
      </html>
    )}`),
    status,
  );
}

/** So many messages to a run in a minute, by this server. Only runs of real addresses are counted, and those of the last minute. */
class Rate {
  #counts = new Map<number, number>();
  #since_ms = monotonicMs();

  takes(job_run_id: number): boolean {
    if (monotonicMs() - this.#since_ms >= 60_000) {
      this.#counts = new Map();
      this.#since_ms = monotonicMs();
    }
    const count = (this.#counts.get(job_run_id) ?? 0) + 1;
    this.#counts.set(job_run_id, count);
    return count <= MOST_PER_MINUTE;
  }
}
