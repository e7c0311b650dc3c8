/**
 * The two things that must be read from a certificate's bytes and that Deno does not say, or not safely: its version,
 * and the names it is for. As text, `subjectAltName` cannot be trusted: a name that itself holds ", DNS:web-1" reads as
 * two, and `checkHost` also takes the common name, which an authority need not have checked.
 */
interface Element {
  tag: number;
  body: Uint8Array;
}

const SEQUENCE = 0x30;
const OBJECT_ID = 0x06;
const OCTET_STRING = 0x04;
/** [0] EXPLICIT and [3] EXPLICIT of TBSCertificate. */
const VERSION = 0xa0;
const EXTENSIONS = 0xa3;
/** Of GeneralName. */
const DNS_NAME = 0x82;
const IP_ADDRESS = 0x87;
/** 2.5.29.17 */
const SUBJECT_ALT_NAME = "55 1d 11";

/**
 * Deno's TLS client does not check the signature of a server that shows an X.509 v1 certificate, so whoever has seen
 * such a certificate could pass for its owner.
 */
export function isVersion3(der: Uint8Array): boolean {
  const version = fieldsOf(der).find((field) => field.tag === VERSION);
  return version !== undefined && childrenOf(version.body)[0]?.body[0] === 2; // counted from 0
}

/** DNS names in lower case, and IPv4 addresses, that the certificate is for. */
export function namesIn(der: Uint8Array): string[] {
  const extensions = fieldsOf(der).find((field) => field.tag === EXTENSIONS);
  const [list] = extensions ? childrenOf(extensions.body) : [];
  for (const extension of list ? childrenOf(list.body) : []) {
    const parts = childrenOf(extension.body);
    const id = parts.find((part) => part.tag === OBJECT_ID);
    const value = parts.find((part) => part.tag === OCTET_STRING);
    if (!id || !value || hex(id.body) !== SUBJECT_ALT_NAME) continue;
    const [names] = childrenOf(value.body);
    return names ? childrenOf(names.body).flatMap(nameOf) : [];
  }
  return [];
}

/** `*.workers` stands for one label: `w-1.workers`, and neither `workers` nor `a.b.workers`. */
export function isNamed(names: string[], node_id: string): boolean {
  const wanted = node_id.toLowerCase();
  const dot = wanted.indexOf(".");
  return names.includes(wanted) || (dot > 0 && names.includes(`*${wanted.slice(dot)}`));
}

function nameOf({ tag, body }: Element): string[] {
  if (tag === DNS_NAME) return [new TextDecoder().decode(body).toLowerCase()];
  if (tag === IP_ADDRESS && body.length === 4) return [body.join(".")];
  return [];
}

/** Those of TBSCertificate. */
function fieldsOf(der: Uint8Array): Element[] {
  const [certificate] = childrenOf(der);
  const [tbs] = certificate?.tag === SEQUENCE ? childrenOf(certificate.body) : [];
  return tbs?.tag === SEQUENCE ? childrenOf(tbs.body) : [];
}

/** Ends at what is no DER: whoever looks for something there has not found it. */
function childrenOf(bytes: Uint8Array): Element[] {
  const found: Element[] = [];
  for (let at = 0; at + 2 <= bytes.length;) {
    const tag = bytes[at] as number;
    const first = bytes[at + 1] as number;
    const more = first < 0x80 ? 0 : first & 0x7f;
    if (more > 4) break;
    let length = more === 0 ? first : 0;
    for (const byte of bytes.subarray(at + 2, at + 2 + more)) length = length * 256 + byte;
    const start = at + 2 + more;
    if (start + length > bytes.length) break;
    found.push({ tag, body: bytes.subarray(start, start + length) });
    at = start + length;
  }
  return found;
}

function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}
