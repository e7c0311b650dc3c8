/**
 * A proxy in front of the admin page, under a path, as docs/admin.md asks of one: it passes on what it is sent, redirects and
 * streams as they come, and says who asked.
 */

/** What belongs to one connection, or to a body that `fetch` has unpacked. */
const OWN_HEADERS = ["connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding"];

export class Proxy {
  /** As browsers reach what is behind it. */
  readonly url: string;
  /** What the browser sent by forms, and what it was answered. */
  readonly posts: { path: string; status: number; leads: string | null }[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #cut = new AbortController();

  /** `to`: an URL without path; the server behind may start later. */
  constructor(readonly on: { path: string; strips: boolean; to: () => string }) {
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, signal: this.#cut.signal, onListen: () => {} },
      (request, { remoteAddr }) => this.#answer(request, remoteAddr.hostname),
    );
    this.url = `http://127.0.0.1:${this.#server.addr.port}${on.path}/`;
  }

  async stop(): Promise<void> {
    this.#cut.abort();
    await this.#server.finished;
  }

  async #answer(request: Request, peer: string): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const { path, strips, to } = this.on;
    if (!pathname.startsWith(`${path}/`)) return new Response("Nothing is here", { status: 404 });
    const headers = new Headers(request.headers);
    for (const name of OWN_HEADERS) headers.delete(name);
    headers.set("x-forwarded-for", peer);
    const { method, body } = request;
    const asked = new URL((strips ? pathname.slice(path.length) : pathname) + search, to());
    // Of a redirect the browser must hear, not this proxy.
    const answer = await fetch(asked, { method, headers, body, redirect: "manual" }).catch(() => undefined);
    if (!answer) return new Response("Nobody answers behind this proxy", { status: 502 });
    const { status } = answer;
    if (method === "POST") this.posts.push({ path: pathname, status, leads: answer.headers.get("location") });
    const given = new Headers(answer.headers);
    for (const name of OWN_HEADERS) given.delete(name);
    return new Response(answer.body, { status, headers: given });
  }
}
