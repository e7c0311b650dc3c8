/**
 * Makes what tls.ts reads: a self-signed certificate and key for one node, good as server and as client, and the bundle
 * of pinned certificates that all nodes share. Only tools use this; a running worker does not load it.
 *
 * A certificate is pinned as it stands, so the names in it decide nothing by default. They are there for a company CA
 * that checks them, and for the person who reads the file.
 */
import "reflect-metadata"; // what @peculiar/x509 asks of its caller; must come before it
import * as x509 from "@peculiar/x509";
import { wallClock } from "../platform/timers.ts";
import { readIfThere } from "../platform/paths.ts";
import { createPrivateKey } from "node:crypto";
import { rmSync } from "node:fs";
import { certificatesIn, fingerprintOf } from "./trust.ts";

const KEY_ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const DAY_MS = 86_400_000;
/** Valid from now is from so much earlier, and until so much later. */
const CLOCKS_DIFFER_MS = 5 * 60_000;
/** Development certificates live long on purpose: nobody rotates them. */
const DEV_DAYS = 3_650;
/** What is left of a development certificate's life when a new one is made. */
const DEV_RENEW_DAYS = 30;

/** One node's files, where peers are pinned. */
export interface PinnedFiles {
  cert_file: string;
  key_file: string;
  pins_file: string;
}

export interface NodeCertificate {
  certificate: string;
  private_key: string;
  fingerprint: string;
}

/** What signs certificates: an authority's own, and its key. */
export type CertificateAuthority = NodeCertificate;

interface Asked {
  days: number;
  hosts?: string[];
  /** Default: now. */
  from?: Date;
}

/** A new key pair and its certificate, PEM: signed by itself, to be pinned, or by an authority. */
export async function makeCertificate(
  node_id: string,
  options: Asked & { authority?: CertificateAuthority },
): Promise<NodeCertificate> {
  // An authority's word must not make a node "localhost" to all others.
  const here = options.authority ? [] : ["localhost", "127.0.0.1", "::1"];
  return await make(node_id, options, [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]),
    new x509.SubjectAlternativeNameExtension(namesFor([node_id, ...here, ...options.hosts ?? []])),
  ]);
}

/** An authority that signs nodes' certificates, and no further authorities. */
export async function makeAuthority(name: string, options: Asked): Promise<CertificateAuthority> {
  return await make(name, options, [
    new x509.BasicConstraintsExtension(true, 0, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
  ]);
}

async function make(
  name: string,
  options: Asked & { authority?: CertificateAuthority },
  extensions: x509.Extension[],
): Promise<NodeCertificate> {
  const slack_ms = options.from ? 0 : CLOCKS_DIFFER_MS;
  const from = options.from ?? wallClock();
  const keys = await crypto.subtle.generateKey(KEY_ALGORITHM, true, ["sign", "verify"]) as CryptoKeyPair;
  const subject = new x509.Name([{ CN: [name] }]);
  const authority = options.authority && new x509.X509Certificate(options.authority.certificate);
  const made = await x509.X509CertificateGenerator.create({
    subject: subject.toString(),
    issuer: authority?.subject ?? subject.toString(),
    notBefore: new Date(from.getTime() - slack_ms),
    notAfter: new Date(from.getTime() + options.days * DAY_MS + slack_ms),
    publicKey: keys.publicKey,
    signingKey: options.authority ? await signingKey(options.authority) : keys.privateKey,
    signingAlgorithm: KEY_ALGORITHM,
    extensions: [
      ...extensions,
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ...(authority ? [await x509.AuthorityKeyIdentifierExtension.create(authority.publicKey)] : []),
    ],
  });
  const key = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  return {
    certificate: made.toString("pem") + "\n",
    private_key: x509.PemConverter.encode(key, "PRIVATE KEY") + "\n",
    fingerprint: fingerprintOf(new Uint8Array(made.rawData)),
  };
}

async function signingKey({ private_key }: CertificateAuthority): Promise<CryptoKey> {
  return await crypto.subtle.importKey(
    "pkcs8",
    x509.PemConverter.decodeFirst(private_key),
    KEY_ALGORITHM,
    false,
    ["sign"],
  );
}

/** The bundle with one more certificate; the same bundle when it is in there already. */
export function addPin(bundle: string, certificate: string): string {
  const known = new Set(certificatesIn(bundle).map((pin) => pin.fingerprint));
  const added = certificatesIn(certificate).filter((pin) => !known.has(pin.fingerprint));
  const start = bundle === "" || bundle.endsWith("\n") ? bundle : bundle + "\n";
  return start + added.map((pin) => pin.pem).join("");
}

/**
 * A certificate for each node under `dir/<node_id>/`, and one bundle of pins that all share. What is there and good for
 * another month stays. Keys are readable by their owner only. Each node's folder is complete: tls.crt, tls.key, pins.pem.
 */
export async function ensureDevCerts(dir: string, node_ids: string[]): Promise<Record<string, PinnedFiles>> {
  const bundle_file = `${dir}/pins.pem`;
  Deno.mkdirSync(dir, { recursive: true, mode: 0o700 });
  let bundle = withoutExpired(readIfThere(bundle_file));
  const files: Record<string, PinnedFiles> = {};
  for (const node_id of node_ids) {
    const home = `${dir}/${folderFor(node_id)}`;
    Deno.mkdirSync(home, { recursive: true, mode: 0o700 });
    const own = { cert_file: `${home}/tls.crt`, key_file: `${home}/tls.key`, pins_file: `${home}/pins.pem` };
    if (!isGood(own)) {
      const made = await makeCertificate(node_id, { days: DEV_DAYS });
      writeWhole(own.key_file, made.private_key);
      writeWhole(own.cert_file, made.certificate);
    }
    bundle = addPin(bundle, Deno.readTextFileSync(own.cert_file));
    files[node_id] = own;
  }
  if (bundle !== readIfThere(bundle_file)) writeWhole(bundle_file, bundle);
  for (const own of Object.values(files)) linkBundle(own.pins_file);
  return files;
}

function namesFor(names: string[]): x509.JsonGeneralName[] {
  return [...new Set(names)].map((name) => ({ type: isAddress(name) ? "ip" : "dns", value: name }));
}

function isAddress(name: string): boolean {
  return name.includes(":") || /^\d+\.\d+\.\d+\.\d+$/.test(name);
}

/** A node's name is anybody's choice; its folder must not lead anywhere else. */
function folderFor(node_id: string): string {
  const folder = encodeURIComponent(node_id);
  if (folder === "" || folder === "." || folder === "..") {
    throw new Error(`Cannot make certificate for node "${node_id}": that is no name for a folder`);
  }
  return folder;
}

function isGood(own: PinnedFiles): boolean {
  try {
    const [certificate] = certificatesIn(Deno.readTextFileSync(own.cert_file));
    Deno.statSync(own.key_file);
    const enough = wallClock().getTime() + DEV_RENEW_DAYS * DAY_MS;
    return certificate !== undefined && certificate.not_after.getTime() > enough &&
      certificate.x509.checkPrivateKey(createPrivateKey(Deno.readTextFileSync(own.key_file)));
  } catch {
    return false; // missing or broken: made anew
  }
}

function withoutExpired(bundle: string): string {
  const now = wallClock();
  return certificatesIn(bundle).filter((pin) => pin.not_after > now).map((pin) => pin.pem).join("");
}

/** Also in place of a copy, as `certs rotate` leaves it. */
function linkBundle(pins_file: string): void {
  rmSync(`${pins_file}.new`, { force: true });
  Deno.symlinkSync("../pins.pem", `${pins_file}.new`);
  Deno.renameSync(`${pins_file}.new`, pins_file);
}

/** Written beside and moved into place, so that nobody reads half a file; never readable by others, not for an instant. */
function writeWhole(file: string, text: string): void {
  const draft = `${file}.${Deno.pid}.new`;
  Deno.writeTextFileSync(draft, text, { mode: 0o600 });
  Deno.renameSync(draft, file);
}
