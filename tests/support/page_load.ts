/**
 * Loads pages from a running admin server as a browser does, over a connection that is kept: when the last byte has come, and how many
 * bytes came, compressed where the server compresses, with all that the page itself loads.
 */
import assert from "node:assert/strict";
import { Agent, request } from "node:http";

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** As transferred. */
  body: Uint8Array;
  ms: number;
}

export class Loader {
  readonly #url: string;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #assets = new Map<string, number>();
  readonly #closed = new AbortController();
  #cookie = "";

  /** `url`: of the server, without a slash at its end. */
  constructor(url: string) {
    this.#url = url;
  }

  async logIn(name: string, password: string): Promise<void> {
    const answer = await this.#ask("/login", new URLSearchParams({ name, password, back: "/runs" }).toString());
    assert.equal(answer.status, 303, `the login as ${name}`);
    this.#cookie = [answer.headers["set-cookie"] ?? []].flat().map((one) => one.split(";")[0]).join("; ");
  }

  get(path: string): Promise<Answer> {
    return this.#ask(path);
  }

  /** Bytes of the answer, and of each style sheet and script that it names. */
  async weight(answer: Answer): Promise<number> {
    const text = await textOf(answer);
    let sum = answer.body.byteLength;
    for (const [, path = ""] of text.matchAll(/<(?:link|script)[^>]* (?:href|src)="(\/[^"]+)"/g)) {
      const known = this.#assets.get(path) ?? await this.#assetWeight(path);
      this.#assets.set(path, known);
      sum += known;
    }
    return sum;
  }

  /** A stream of events that stays open; `hears` waits until a text stood in it. */
  async stream(path: string): Promise<{ hears(text: string): Promise<void> }> {
    const answer = await fetch(this.#url + path, { headers: { cookie: this.#cookie }, signal: this.#closed.signal });
    assert.equal(answer.status, 200, path);
    const texts = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    let heard = "";
    return {
      async hears(text) {
        while (!heard.includes(text)) {
          const part = await texts?.read();
          assert(part && !part.done, `${path} ended before ${text}`);
          heard += part.value;
        }
      },
    };
  }

  close(): void {
    this.#closed.abort();
    this.#agent.destroy();
  }

  /** With what it imports itself. */
  async #assetWeight(path: string): Promise<number> {
    const answer = await this.#ask(path);
    assert.equal(answer.status, 200, path);
    let sum = answer.body.byteLength;
    for (const [, imported = ""] of (await textOf(answer)).matchAll(/(?:\bfrom\s*|new URL\()"([\w./]+\.js)"/g)) {
      sum += await this.#assetWeight(new URL(imported, `http://here${path}`).pathname);
    }
    return sum;
  }

  #ask(path: string, form?: string): Promise<Answer> {
    const began = performance.now();
    return new Promise((resolve, reject) => {
      const asking = request(this.#url + path, {
        agent: this.#agent,
        method: form === undefined ? "GET" : "POST",
        headers: {
          "accept-encoding": "gzip",
          ...this.#cookie ? { cookie: this.#cookie } : {},
          ...form === undefined ? {} : { origin: this.#url, "content-type": "application/x-www-form-urlencoded" },
        },
      }, (response) => {
        const parts: Uint8Array[] = [];
        response.on("data", (part: Uint8Array) => parts.push(part));
        response.on("error", reject);
        response.on("end", () => {
          const ms = performance.now() - began;
          const body = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
          parts.reduce((at, part) => (body.set(part, at), at + part.byteLength), 0);
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body, ms });
        });
      });
      asking.on("error", reject);
      asking.end(form);
    });
  }
}

async function textOf({ headers, body }: Answer): Promise<string> {
  if (headers["content-encoding"] !== "gzip") return new TextDecoder().decode(body);
  const plain = new Blob([body as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream("gzip"));
  return await new Response(plain).text();
}
