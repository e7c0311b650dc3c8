/**
 * Tells alerts to a webhook: takes what is due (alerts/alerts.ts), sends it signed, and records what came of it. Any worker
 * that knows the address does; a claim keeps two from sending the same, and one that dies loses it after a while. So a
 * message comes at least once; receivers know a repeated one by its `Dandori-AlertDelivery`.
 *
 * The address is boot configuration of this machine and comes from nowhere else: no page, job or event can point it
 * at something. It may hold a secret, so only its host is ever told. Redirects are not followed, an answer's body is not
 * read, and errors of fetch are told by their kind, since their text has the whole address in it.
 */
import type { Webhook } from "../platform/config.ts";
import { observe } from "../platform/facts.ts";
import { chance, every, wallClock } from "../platform/timers.ts";
import { messageOf } from "../platform/text.ts";
import { type AlertDelivery, claimDeliveries, recordDelivery } from "./alerts.ts";
import { isUnreachable, type Sql } from "../postgres/connection.ts";
import { stored } from "../locale/message.ts";
import { english, inEnglish } from "../locale/english.ts";

export interface AlertDeliveryOptions {
  sql: Sql;
  worker_id: string;
  webhook: Webhook;
  /** How often it looks for something to send; default 5000. */
  look_ms?: number;
  /** After how long a receiver that does not answer is given up for now; default 10000. */
  answer_ms?: number;
}

const CLAIM_MARGIN_MS = 20_000;
const AT_ONCE = 10;
const FIRST_RETRY_MS = 5_000;
const LONGEST_RETRY_MS = 10 * 60_000;
/** About two hours. */
const MOST_ATTEMPTS = 18;

/** Until stopped. */
export async function deliverAlerts(options: AlertDeliveryOptions, stop: AbortSignal): Promise<void> {
  await every(options.look_ms ?? 5_000, async () => {
    await deliverDue(options, stop).catch((error) => {
      if (!isUnreachable(error)) throw error;
    });
  }, { name: "alerts", stop });
}

/** Sends all that is due now. */
export async function deliverDue(options: AlertDeliveryOptions, stop?: AbortSignal): Promise<void> {
  const { sql, worker_id } = options;
  const answer_ms = options.answer_ms ?? 10_000;
  for (;;) {
    const due = await claimDeliveries(sql, worker_id, { lease_ms: answer_ms + CLAIM_MARGIN_MS, most: AT_ONCE });
    await Promise.all(due.map((delivery) => deliver(options, delivery, answer_ms, stop)));
    if (due.length < AT_ONCE || stop?.aborted) return;
  }
}

async function deliver(
  { sql, webhook }: AlertDeliveryOptions,
  delivery: AlertDelivery,
  answer_ms: number,
  stop: AbortSignal | undefined,
): Promise<void> {
  const { id, what, attempts } = delivery;
  const error = await send(webhook, delivery, AbortSignal.any([AbortSignal.timeout(answer_ms), ...stop ? [stop] : []]));
  if (error === undefined) {
    if (await recordDelivery(sql, delivery, "delivered")) observe("alert.delivered", { delivery: id, what, attempts });
    return;
  }
  const given_up = attempts >= MOST_ATTEMPTS;
  const backoff_ms = Math.min(FIRST_RETRY_MS * 2 ** (attempts - 1), LONGEST_RETRY_MS) * (0.8 + 0.4 * chance());
  await recordDelivery(sql, delivery, { error, retry_ms: given_up ? null : backoff_ms });
  observe("alert.undelivered", { delivery: id, what, attempts, error, given_up });
}

/** Undefined: it was taken. */
async function send(webhook: Webhook, delivery: AlertDelivery, until: AbortSignal): Promise<string | undefined> {
  const { host } = new URL(webhook.url);
  const body = bodyOf(delivery);
  try {
    const answer = await fetch(webhook.url, {
      method: "POST",
      body,
      redirect: "manual",
      signal: until,
      headers: {
        "content-type": "application/json",
        "user-agent": "dandori",
        "dandori-delivery": String(delivery.id),
        ...webhook.secret === undefined ? {} : { "dandori-signature": await signature(webhook.secret, body) },
      },
    });
    await answer.body?.cancel();
    if (answer.ok) return undefined;
    const redirected = answer.status >= 300 && answer.status < 400;
    return stored("alerts.delivery.answered", { host, status: answer.status, redirect: redirected });
  } catch (error) {
    if (error instanceof DOMException && error.name === "TimeoutError") {
      return stored("alerts.delivery.silent", { host });
    }
    const [, wrong] = /invalid peer certificate: (\w+)/.exec(messageOf((error as Error).cause)) ?? [];
    if (wrong === undefined) return stored("alerts.delivery.unreachable", { host });
    return stored("alerts.delivery.untrusted", { host, wrong });
  }
}

/** What a receiver gets; docs/monitoring.md shows it. */
function bodyOf({ id, what, alert, created_at }: AlertDelivery): string {
  return JSON.stringify({
    delivery: id,
    type: what === "test" ? "test" : `alert.${what}`,
    at: created_at,
    alert: alert ? inEnglish(alert, { messages: true }) : null,
    message: alert ? `${alert.kind} ${alert.subject}: ${english(alert.message)}` : "A test of the webhook for alerts",
  });
}

/** `t=<unix seconds>,v1=<hex>`: HMAC-SHA256 over "<t>.<body>", so that an old message cannot be sent again unnoticed. */
export async function signature(secret: string, body: string, at = wallClock()): Promise<string> {
  const seconds = Math.floor(at.getTime() / 1000);
  const text = new TextEncoder();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", text.encode(secret), algorithm, false, ["sign"]);
  const mac = await crypto.subtle.sign("HMAC", key, text.encode(`${seconds}.${body}`));
  return `t=${seconds},v1=${new Uint8Array(mac).toHex()}`;
}
