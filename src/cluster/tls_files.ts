/**
 * Certificate, key and pins as they lie on disk, read and judged. Either all three are good together, or nothing is
 * taken and every problem is named with its fix.
 *
 * Pins are whole certificates, PEM, one after the other. A peer's certificate must be byte for byte one of them; that a
 * pinned key signed it is not enough, or any node could make up others.
 */
import { createHash, createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { wallClock } from "../base/loop.ts";

export interface TlsFiles {
  cert_file: string;
  key_file: string;
  pins_file: string;
}

export interface Certificate {
  pem: string;
  /** SHA-256 of the DER, in the form that `openssl x509 -fingerprint -sha256` prints: "0A:3E:…". */
  fingerprint: string;
  subject: string;
  not_before: Date;
  not_after: Date;
  x509: X509Certificate;
}

/** What one process shows to its peers, and whom it lets in. */
export interface TlsMaterial {
  certificate: Certificate;
  private_key: string;
  /** By fingerprint. */
  pins: Map<string, Certificate>;
}

export class TlsFilesError extends Error {
  override name = "TlsFilesError";
}

/** Reads the three files and checks that they are good together. Throws one error that names every problem. */
export function readTlsFiles(files: TlsFiles): TlsMaterial {
  const problems: string[] = [];
  const cert_text = readOr(problems, files.cert_file, "SCHEDULER_TLS_CERT_FILE");
  const key_text = readOr(problems, files.key_file, "SCHEDULER_TLS_KEY_FILE");
  const pins_text = readOr(problems, files.pins_file, "SCHEDULER_TLS_PINS_FILE");
  const certificate = cert_text === undefined ? undefined : firstCertificate(cert_text, files.cert_file, problems);
  const pins = pins_text === undefined ? undefined : pinsIn(pins_text, files.pins_file, problems);
  if (certificate && key_text !== undefined) checkPair(certificate, key_text, { files, problems });
  if (certificate) checkDates(certificate, files.cert_file, problems);
  if (certificate && pins && pins.size > 0 && !pins.has(certificate.fingerprint)) {
    problems.push(
      `"${files.pins_file}" pins ${pins.size} certificates but not this node's own ${certificate.fingerprint}, so its ` +
        `peers would refuse it: give every node a bundle with it, e.g. cat ${files.cert_file} >> ${files.pins_file}`,
    );
  }
  if (problems.length > 0 || !certificate || !pins || key_text === undefined) {
    throw new TlsFilesError(`Cannot use the TLS files: ${problems.join("; ")}`);
  }
  return { certificate, private_key: key_text, pins };
}

/** Every certificate in a text, in order. Throws when one cannot be read. */
export function certificatesIn(text: string): Certificate[] {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return blocks.map((block) => {
    const x509 = new X509Certificate(block);
    return {
      pem: block + "\n",
      fingerprint: fingerprintOf(x509.raw),
      subject: x509.subject,
      not_before: new Date(x509.validFrom),
      not_after: new Date(x509.validTo),
      x509,
    };
  });
}

export function fingerprintOf(der: Uint8Array): string {
  return createHash("sha256").update(der).digest("hex").toUpperCase().match(/../g)!.join(":");
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

function firstCertificate(text: string, file: string, problems: string[]): Certificate | undefined {
  try {
    const [certificate] = certificatesIn(text);
    if (certificate) return certificate;
    problems.push(`"${file}" holds no certificate: it must begin with -----BEGIN CERTIFICATE-----`);
  } catch (error) {
    problems.push(`"${file}" holds a certificate that cannot be read: ${(error as Error).message}`);
  }
  return undefined;
}

function pinsIn(text: string, file: string, problems: string[]): Map<string, Certificate> | undefined {
  if (text.includes("PRIVATE KEY-----")) {
    problems.push(`"${file}" holds a private key: it goes to every node, so leave only certificates in it`);
    return undefined;
  }
  try {
    const pins = certificatesIn(text);
    if (pins.length === 0) problems.push(`"${file}" pins no certificate: put the certificate of every node in it, PEM`);
    for (const pin of pins) {
      if (isVersion3(pin.x509.raw)) continue;
      problems.push(`"${file}" pins ${pin.fingerprint}, an X.509 v1 certificate that proves nothing: make a v3 one`);
    }
    return new Map(pins.map((pin) => [pin.fingerprint, pin]));
  } catch (error) {
    problems.push(`"${file}" holds a certificate that cannot be read: ${(error as Error).message}`);
    return undefined;
  }
}

/**
 * Deno's TLS client does not check the signature of a server that shows an X.509 v1 certificate, so whoever has seen
 * such a certificate could pass for its owner.
 */
function isVersion3(der: Uint8Array): boolean {
  let at = 0;
  for (let sequence = 0; sequence < 2; sequence++) { // into Certificate, then into TBSCertificate
    const length = der[at + 1] ?? 0;
    at += length < 0x80 ? 2 : 2 + (length & 0x7f);
  }
  return der[at] === 0xa0 && der[at + 4] === 2; // [0] EXPLICIT version, counted from 0
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

function checkDates(certificate: Certificate, file: string, problems: string[]): void {
  const outside = outsideItsDates(certificate);
  if (outside) problems.push(`"${file}" ${outside}: make a new one and give its certificate to every node as a pin`);
}

/** "expired on …" or "is not valid before …"; undefined when it is valid now. */
export function outsideItsDates(certificate: Certificate): string | undefined {
  const now = wallClock();
  if (certificate.not_after <= now) return `expired on ${certificate.not_after.toISOString()}`;
  if (certificate.not_before > now) return `is not valid before ${certificate.not_before.toISOString()}`;
  return undefined;
}
