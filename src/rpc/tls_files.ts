/**
 * Certificate, key, pins and authorities as they lie on disk, read and judged. Either all are good together, or nothing
 * is taken and every problem is named with its fix.
 *
 * Pins are whole certificates, PEM, one after the other. A peer's certificate must be byte for byte one of them; that a
 * pinned key signed it is not enough, or any node could make up others.
 */
import { createPrivateKey, type KeyObject } from "node:crypto";
import type { TlsFiles } from "../platform/config.ts";
import { failpoint } from "../platform/failpoint.ts";
import { isVersion3 } from "./der.ts";
import { type Certificate, certificatesIn, outsideItsDates, type Trust, whyNotTrusted } from "./trust.ts";

/** What one process shows to its peers, and whom it lets in. */
export interface TlsMaterial {
  certificate: Certificate;
  /** Its certificate, and those between it and its authority, as they are shown. */
  chain: string;
  private_key: string;
  trust: Trust;
}

/** Reads the files and checks that they are good together. Throws one error that names every problem. */
export function readTlsFiles(files: TlsFiles): TlsMaterial {
  const problems: string[] = [];
  const cert_text = readOr(problems, files.cert_file, "SCHEDULER_TLS_CERT_FILE");
  failpoint("between-cert-read-and-key-read");
  const key_text = readOr(problems, files.key_file, "SCHEDULER_TLS_KEY_FILE");
  const trust: Trust = {
    pins: new Map(peersIn(problems, files.pins_file, "SCHEDULER_TLS_PINS_FILE").map((pin) => [pin.fingerprint, pin])),
    authorities: authoritiesIn(problems, files.ca_file),
    paths: new WeakMap(),
  };
  checkAnchors(trust, { files, problems });
  const shown = cert_text === undefined ? [] : shownIn(cert_text, files.cert_file, problems);
  const [certificate, ...issuers] = shown;
  if (certificate && key_text !== undefined) checkPair(certificate, key_text, { files, problems });
  if (certificate) checkOwn({ certificate, issuers }, trust, { files, problems });
  if (problems.length > 0 || !certificate || key_text === undefined) {
    throw new Error(`Cannot use the TLS files: ${problems.join("; ")}`);
  }
  return { certificate, chain: shown.map((one) => one.pem).join(""), private_key: key_text, trust };
}

function readOr(problems: string[], file: string, variable: string): string | undefined {
  try {
    return Deno.readTextFileSync(file);
  } catch (error) {
    const why = error instanceof Deno.errors.NotFound ? "there is no such file" : String(error);
    problems.push(
      `cannot read "${file}": ${why}; name another with ${variable}, or make them: deno task certs DIR --node ID (\`deno task dev\` makes its own)`,
    );
    return undefined;
  }
}

function shownIn(text: string, file: string, problems: string[]): Certificate[] {
  try {
    const certificates = certificatesIn(text);
    if (certificates.length > 0) return certificates;
    problems.push(`"${file}" holds no certificate: it must begin with -----BEGIN CERTIFICATE-----`);
  } catch (error) {
    problems.push(`"${file}" holds a certificate that cannot be read: ${(error as Error).message}`);
  }
  return [];
}

/** The certificates of a file that says whom to trust; none when it is not named. */
function peersIn(problems: string[], file: string | undefined, variable: string): Certificate[] {
  const text = file === undefined ? undefined : readOr(problems, file, variable);
  if (text === undefined) return [];
  if (text.includes("PRIVATE KEY-----")) {
    problems.push(`"${file}" holds a private key: it goes to every node, so leave only certificates in it`);
    return [];
  }
  try {
    const certificates = certificatesIn(text);
    if (certificates.length === 0) {
      problems.push(
        variable === "SCHEDULER_TLS_CA_FILE"
          ? `"${file}" holds no certificate: put that of the authority in it, PEM`
          : `"${file}" pins no certificate: put the certificate of every node in it, PEM`,
      );
    }
    for (const { x509, fingerprint } of certificates) {
      if (isVersion3(x509.raw)) continue;
      problems.push(`"${file}" pins ${fingerprint}, an X.509 v1 certificate that proves nothing: make a v3 one`);
    }
    return certificates;
  } catch (error) {
    problems.push(`"${file}" holds a certificate that cannot be read: ${(error as Error).message}`);
    return [];
  }
}

function authoritiesIn(problems: string[], file: string | undefined): Certificate[] {
  const certificates = peersIn(problems, file, "SCHEDULER_TLS_CA_FILE");
  for (const { x509, subject } of certificates) {
    if (x509.ca) continue;
    problems.push(
      `"${file}" holds the certificate "${subject}", which is no authority's: it may not sign others; ` +
        "to accept just that certificate, pin it: SCHEDULER_TLS_PINS_FILE",
    );
  }
  return certificates;
}

/** The TLS library asks of a certificate that its issuer is known as well, also of one that is pinned. */
function checkAnchors(trust: Trust, on: { files: TlsFiles; problems: string[] }): void {
  const known = new Set([...trust.pins.values(), ...trust.authorities].map((one) => one.subject));
  for (const { fingerprint, x509 } of trust.pins.values()) {
    if (known.has(x509.issuer)) continue;
    on.problems.push(
      `"${on.files.pins_file}" pins ${fingerprint}, which "${x509.issuer}" has signed: put that authority's ` +
        "certificate there as well, or name it with SCHEDULER_TLS_CA_FILE instead of pins",
    );
  }
}

/** What peers will ask of this node's certificate; they have, or will have, the same pins and authorities. */
function checkOwn(
  own: { certificate: Certificate; issuers: Certificate[] },
  trust: Trust,
  on: { files: TlsFiles; problems: string[] },
): void {
  const { cert_file, pins_file, ca_file, node_id } = on.files;
  const { certificate } = own;
  const outside = outsideItsDates(certificate);
  if (outside) {
    on.problems.push(
      `"${cert_file}" ${outside}: make a new one${ca_file ? "" : " and give it to every node as a pin"}`,
    );
  } else if (trust.authorities.length + trust.pins.size === 0) {
    return; // that is a problem of its own, and said
  } else if (trust.authorities.length === 0 && !trust.pins.has(certificate.fingerprint)) {
    on.problems.push(
      `"${pins_file}" pins ${trust.pins.size} certificates but not this node's own ${certificate.fingerprint}, so its ` +
        `peers would refuse it: give every node a bundle with it, e.g. cat ${cert_file} >> ${pins_file}`,
    );
  } else {
    const refusal = whyNotTrusted(trust, own, { fingerprints: [], node_id });
    if (!refusal) return;
    on.problems.push(
      `peers would refuse "${cert_file}", with ${certificate.fingerprint}: ${refusal}; have one made by an authority of ` +
        `"${ca_file}" with the node's id among its names, or set SCHEDULER_NODE_ID to one of them`,
    );
  }
}

function checkPair(
  certificate: Certificate,
  key_text: string,
  on: { files: TlsFiles; problems: string[] },
): void {
  const { files, problems } = on;
  let key: KeyObject;
  try {
    key = createPrivateKey(key_text);
  } catch (error) {
    problems.push(`"${files.key_file}" holds no private key that can be read: ${(error as Error).message}`);
    return;
  }
  if (certificate.x509.checkPrivateKey(key)) return;
  problems.push(`"${files.key_file}" is not the key of "${files.cert_file}": replace both together`);
}
