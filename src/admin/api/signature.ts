/**
 * Signatures of deliveries, checked in a time that does not depend on what is wrong.
 *
 *   dandori  X-Dandori-Delivery: ID
 *            X-Dandori-Signature: t=SECONDS,v1=HEX        HMAC-SHA256 of "SECONDS.ID.BODY"; SECONDS since 1970, 5 minutes off at most
 *   github   X-GitHub-Delivery: ID
 *            X-Hub-Signature-256: sha256=HEX              HMAC-SHA256 of "BODY"
 *
 * The id of a github delivery is not signed, so whoever can read a delivery could send it again under another id; TLS is
 * what keeps them from reading it. A dandori delivery is worth nothing a few minutes later, and counts once until then.
 */
import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Signature } from "../../events/webhooks.ts";

const TOLERANCE_SECONDS = 300;

export interface SignedDelivery {
  header(name: string): string | undefined;
  body: Uint8Array;
}

/** `bad` tells nobody more than that. A reason is given only to who knows the secret. */
export type Checked = { bad: true } | { bad: false; id: string } | { bad: false; reason: string };

/** `hook` undefined: there is none, which takes as long as a wrong secret. */
export function checkSignature(
  hook: { signature: Signature; secret: string; now_seconds: number } | undefined,
  delivery: SignedDelivery,
): Checked {
  const { signature, secret, now_seconds } = hook ?? NONE;
  const { id, signed, given, seconds } = signature === "github" ? github(delivery) : dandori(delivery);
  const expected = createHmac("sha256", secret).update(signed).update(delivery.body).digest();
  const claimed = Buffer.alloc(expected.length);
  const whole = /^[0-9a-f]{64}$/i.test(given) && claimed.write(given, "hex") === expected.length;
  const equal = timingSafeEqual(expected, claimed);
  if (!hook || !whole || !equal) return { bad: true };
  if (seconds !== undefined && Math.abs(now_seconds - seconds) > TOLERANCE_SECONDS) {
    const off = Math.round(Math.abs(now_seconds - seconds));
    return {
      bad: false,
      reason: `it was signed ${off} s ${seconds < now_seconds ? "ago" : "ahead"}, at most ${TOLERANCE_SECONDS} s`,
    };
  }
  // deno-lint-ignore no-control-regex
  if (/^[^\u0000]{1,200}$/.test(id)) return { bad: false, id };
  return { bad: false, reason: `its id has 1 to 200 characters: give one in ${ID_HEADER[signature]}` };
}

const NONE = { signature: "dandori", secret: "of nobody", now_seconds: 0 } as const;

const ID_HEADER: Record<Signature, string> = { dandori: "X-Dandori-Delivery", github: "X-GitHub-Delivery" };

interface Claim {
  id: string;
  /** What is signed before the body. */
  signed: string;
  given: string;
  seconds?: number;
}

function dandori({ header }: SignedDelivery): Claim {
  const id = header(ID_HEADER.dandori) ?? "";
  const [, seconds = "0", given = ""] = /^t=(\d{1,12}),v1=(\w+)$/.exec(header("X-Dandori-Signature") ?? "") ?? [];
  return { id, signed: `${seconds}.${id}.`, given, seconds: Number(seconds) };
}

function github({ header }: SignedDelivery): Claim {
  const [, given = ""] = /^sha256=(\w+)$/.exec(header("X-Hub-Signature-256") ?? "") ?? [];
  return { id: header(ID_HEADER.github) ?? "", signed: "", given };
}
