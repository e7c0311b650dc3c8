/**
 * Whose certificate is accepted. Two ways, and a peer needs one of them:
 *   - it is pinned: byte for byte one of those in the pins file;
 *   - an authority of the CA file vouches for it, directly or by way of others that the peer shows as well. A name may
 *     be asked of such a certificate, since the same authority also signs for others.
 * This is judged here again after the TLS library, which also trusts the public authorities of this machine.
 */
import { createHash, X509Certificate } from "node:crypto";
import { wallClock } from "../platform/timers.ts";
import { isNamed, namesIn } from "./der.ts";

export interface Certificate {
  pem: string;
  /** SHA-256 of the DER, in the form that `openssl x509 -fingerprint -sha256` prints: "0A:3E:…". */
  fingerprint: string;
  subject: string;
  not_before: Date;
  not_after: Date;
  x509: X509Certificate;
}

/** What a peer showed in the handshake. */
export interface PresentedCertificates {
  certificate: Certificate;
  /** Those that come after it, up to its authority. */
  issuers: Certificate[];
}

/** Who a peer is meant to be. */
export interface Meant {
  /** Certificates that its worker has by its row in Postgres; none: not known. */
  fingerprints: string[];
  /** The node that a certificate must name when it is not pinned. */
  node_id?: string;
}

/** Whom this process lets in. */
export interface Trust {
  /** By fingerprint. */
  pins: Map<string, Certificate>;
  authorities: Certificate[];
  /** What was found of peers, who are judged again at each call: following signatures costs most of a millisecond. */
  paths: WeakMap<PresentedCertificates, Certificate[]>;
}

const MOST_ISSUERS = 5;

/** Every certificate in a text, in order. Throws when one cannot be read. */
export function certificatesIn(text: string): Certificate[] {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return blocks.map((block) => certificateOf(new X509Certificate(block), block + "\n"));
}

export function fingerprintOf(der: Uint8Array): string {
  return createHash("sha256").update(der).digest("hex").toUpperCase().match(/../g)!.join(":");
}

/** From the bytes of a handshake: the peer's own, then its issuers. Undefined when the first cannot be read. */
export function shownBy(ders: Uint8Array[]): PresentedCertificates | undefined {
  try {
    const [certificate, ...issuers] = ders.map((der) => certificateOf(new X509Certificate(der), ""));
    return certificate && { certificate, issuers };
  } catch {
    return undefined;
  }
}

/** Why a certificate is not acceptable now, undefined when it is. */
export function whyNotTrusted(trust: Trust, shown: PresentedCertificates, meant?: Meant): string | undefined {
  const { certificate } = shown;
  const pinned = trust.pins.has(certificate.fingerprint);
  const unknown = pinned ? undefined : whyUnknown(trust, shown);
  if (unknown) return unknown;
  const outside = outsideItsDates(certificate);
  if (outside) return `its certificate ${outside}`;
  const { fingerprints = [], node_id } = meant ?? {};
  if (fingerprints.length > 0 && !fingerprints.includes(certificate.fingerprint)) {
    return `the worker meant has certificate ${fingerprints.join(" or ")}`;
  }
  if (pinned || node_id === undefined) return undefined;
  const names = namesIn(certificate.x509.raw);
  if (isNamed(names, node_id)) return undefined;
  return `its certificate is for ${names.join(", ") || "no name"}, and the node meant is ${node_id}`;
}

function whyUnknown(trust: Trust, shown: PresentedCertificates): string | undefined {
  if (trust.authorities.length === 0) return "its certificate is not pinned here";
  const problem = whyNotVouchedFor(shown, trust);
  return problem && (trust.pins.size > 0 ? `its certificate is not pinned here, and ${problem}` : problem);
}

function whyNotVouchedFor(shown: PresentedCertificates, trust: Trust): string | undefined {
  let path = trust.paths.get(shown);
  if (!path) trust.paths.set(shown, path = pathUp(shown, trust.authorities));
  for (const issuer of path) {
    const outside = outsideItsDates(issuer);
    if (outside) return `the certificate of its authority "${issuer.subject}" ${outside}`;
  }
  return path.length > 0 ? undefined : "no authority of the CA file has signed its certificate";
}

/** Follows the signatures up to an authority; empty when they lead to none. */
function pathUp({ certificate, issuers }: PresentedCertificates, authorities: Certificate[]): Certificate[] {
  const path: Certificate[] = [];
  for (let below = certificate; path.length <= MOST_ISSUERS;) {
    const authority = authorities.find((one) => hasSigned(one, below));
    if (authority) return [...path, authority];
    const issuer = issuers.find((one) => one !== below && one.x509.ca && hasSigned(one, below));
    if (!issuer) break;
    path.push(issuer);
    below = issuer;
  }
  return [];
}

/** `checkIssued` would also refuse an issuer without a key identifier, which is allowed to be missing. */
function hasSigned({ x509: issuer }: Certificate, { x509: certificate }: Certificate): boolean {
  try {
    return certificate.issuer === issuer.subject && certificate.verify(issuer.publicKey);
  } catch {
    return false; // a key of another kind than the signature
  }
}

/** "expired on …" or "is not valid before …"; undefined when it is valid now. */
export function outsideItsDates(certificate: Certificate): string | undefined {
  const now = wallClock();
  if (certificate.not_after <= now) return `expired on ${certificate.not_after.toISOString()}`;
  if (certificate.not_before > now) return `is not valid before ${certificate.not_before.toISOString()}`;
  return undefined;
}

/** The same for all who accept the same certificates, in whatever order: 16 hexadecimal digits. */
export function trustDigest({ pins, authorities }: Omit<Trust, "paths">): string {
  const all = [...pins.keys(), ...authorities.map((one) => `CA ${one.fingerprint}`)].sort();
  return createHash("sha256").update(all.join("\n")).digest("hex").slice(0, 16);
}

function certificateOf(x509: X509Certificate, pem: string): Certificate {
  return {
    pem,
    fingerprint: fingerprintOf(x509.raw),
    subject: x509.subject,
    not_before: new Date(x509.validFrom),
    not_after: new Date(x509.validTo),
    x509,
  };
}
