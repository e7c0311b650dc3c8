/**
 * A small store that speaks as much of S3 as we do: objects by path, ranges, errors in XML. Each request's signature is checked by
 * the documented algorithm (AWS Signature Version 4), made here from Node's HMAC and not by the library that signs ours.
 */
import { createHash, createHmac } from "node:crypto";

export const KEY_ID = "AKIDTEST";
export const SECRET = "a+secret/that=nobody-may-see";
const REGION = "test-1";

export interface FakeS3 {
  endpoint: string;
  region: string;
  objects: Map<string, Uint8Array>;
  /** What was asked, as "PUT /bucket/name". */
  asked: string[];
  /** The next requests get this instead; undefined: as they should. */
  answer: ((request: Request) => Response | Promise<Response> | undefined) | undefined;
}

export async function withFakeS3<T>(act: (s3: FakeS3) => Promise<T>): Promise<T> {
  const s3: FakeS3 = { endpoint: "", region: REGION, objects: new Map(), asked: [], answer: undefined };
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => answer(s3, request));
  s3.endpoint = `http://127.0.0.1:${server.addr.port}`;
  try {
    return await act(s3);
  } finally {
    await server.shutdown();
  }
}

async function answer(s3: FakeS3, request: Request): Promise<Response> {
  const path = new URL(request.url).pathname;
  const body = new Uint8Array(await request.arrayBuffer());
  s3.asked.push(`${request.method} ${path}`);
  const made = s3.answer?.(request);
  if (made) return await made;
  const wrong = whyRefused(request, body);
  if (wrong) return failure(403, wrong);
  if (!path.startsWith("/logs/")) return failure(404, "NoSuchBucket");
  if (request.method === "PUT") {
    s3.objects.set(path, body);
    return new Response(null, { status: 200, headers: { etag: '"x"' } });
  }
  const object = s3.objects.get(path);
  if (request.method !== "GET" || !object) return failure(404, "NoSuchKey");
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.get("range") ?? "") ?? [];
  if (first === undefined || last === undefined) return new Response(object.slice());
  if (Number(first) >= object.length) return failure(416, "InvalidRange");
  const part = object.slice(Number(first), Number(last) + 1);
  const range = `bytes ${first}-${Number(first) + part.length - 1}/${object.length}`;
  return new Response(part, { status: 206, headers: { "content-range": range } });
}

/** As S3 does it; its text repeats what was sent, which must not come into any message of ours. */
export function failure(status: number, code: string): Response {
  const text = `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${SECRET}</Message></Error>`;
  return new Response(text, { status, headers: { "content-type": "application/xml" } });
}

function whyRefused(request: Request, body: Uint8Array): string | undefined {
  const [, key_id, date, region, signed = "", signature] =
    /^AWS4-HMAC-SHA256 Credential=(\w+)\/(\d{8})\/([\w-]+)\/s3\/aws4_request, SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})$/
      .exec(request.headers.get("authorization") ?? "") ?? [];
  if (!signature || key_id !== KEY_ID) return "InvalidAccessKeyId";
  if (region !== REGION) return "AuthorizationHeaderMalformed";
  const names = signed.split(";");
  const sent_digest = request.headers.get("x-amz-content-sha256") ?? "";
  if (!["host", "x-amz-content-sha256", "x-amz-date"].every((name) => names.includes(name))) return "AccessDenied";
  if (request.method === "PUT" && sent_digest !== sha256(body)) return "XAmzContentSHA256Mismatch";
  const when = request.headers.get("x-amz-date") ?? "";
  if (!when.startsWith(date as string)) return "RequestTimeTooSkewed";
  const { method, headers } = request;
  const path = new URL(request.url).pathname;
  const made = signatureOf({ method, path, headers, names, when, region, digest: sent_digest, secret: SECRET });
  return made === signature ? undefined : "SignatureDoesNotMatch";
}

export interface Signed {
  method: string;
  path: string;
  headers: Headers;
  /** Of the headers that are signed, in order. */
  names: readonly string[];
  /** "20130524T000000Z" */
  when: string;
  region: string;
  digest: string;
  secret: string;
}

/** As the documentation of Signature Version 4 describes it, for a request without a query. */
export function signatureOf({ method, path, headers, names, when, region, digest, secret }: Signed): string {
  const canonical = [
    method,
    path.split("/").map(encoded).join("/"),
    "",
    ...names.map((name) => `${name}:${(headers.get(name) ?? "").trim().replace(/ +/g, " ")}`),
    "",
    names.join(";"),
    digest,
  ].join("\n");
  const date = when.slice(0, 8);
  const to_sign = ["AWS4-HMAC-SHA256", when, `${date}/${region}/s3/aws4_request`, sha256(canonical)].join("\n");
  const key = [date, region, "s3", "aws4_request"].reduce<string | Uint8Array>(hmac, `AWS4${secret}`);
  return hmac(key, to_sign).toHex();
}

function encoded(text: string): string {
  return encodeURIComponent(decodeURIComponent(text)).replace(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

function hmac(key: string | Uint8Array, data: string): Uint8Array {
  return new Uint8Array(createHmac("sha256", key).update(data).digest());
}
