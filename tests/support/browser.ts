/**
 * The admin page on a socket, and a real Chromium that looks at it: Debian's (`apt-get install chromium`), driven by
 * playwright-core. What a page writes to its console as an error, or its policy refuses, fails the test.
 */
import assert from "node:assert/strict";
import { type Browser, chromium, type Page } from "playwright-core";
import { serveAdmin } from "../../src/admin/server.ts";
import { connectDb } from "../../src/postgres/connection.ts";
import type { UserRole } from "../../src/access/users.ts";
import { aUser, PASSWORD } from "./admin.ts";
import { freePort } from "../../src/ops/free_port.ts";
import { Proxy } from "./proxy.ts";
import { type Stores, withStores } from "./stores.ts";

const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
/** Undefined: there is none, and tests that need one are left out (which fails them where CI is set). */
export const CHROMIUM = PROGRAMS.find(exists);

export interface BrowserScene extends Stores {
  page: Page;
  /** As the browser reaches it. */
  url: string;
  /** In front of it, where `behind` asks for one. */
  proxy: Proxy | undefined;
  /** Adds a user and logs it in through the form. */
  login(role: UserRole): Promise<void>;
  /** Stops the server; `start` brings it back at the same address. */
  stop(): Promise<void>;
  start(): Promise<void>;
  /** What a page may complain about in this test, such as a server that is away. */
  expect(sign: RegExp): void;
}

export interface Look {
  width?: number;
  height?: number;
  locale?: string;
  timezoneId?: string;
  colorScheme?: "light" | "dark";
  /** A proxy under a path, which it takes away or passes on. */
  behind?: { path: string; strips: boolean };
}

export function withBrowser(test: (on: BrowserScene) => Promise<void>, look: Look = {}): Promise<void> {
  return withStores(async (stores) => {
    const { width = 1280, height = 900, behind, ...context } = look;
    const proxy = behind && new Proxy({ ...behind, to: () => server.own_url });
    const server: Server = new Server(stores.database_url, proxy?.url);
    await server.start(behind ? freePort() : 0);
    const browser = await launch();
    const complaints: string[] = [];
    const expected: RegExp[] = [];
    try {
      const page = await browser.newPage({ locale: "en-US", ...context, viewport: { width, height } });
      page.on("console", (message) => void (message.type() === "error" && complaints.push(message.text())));
      page.on("pageerror", (error) => void complaints.push(String(error)));
      await test({
        ...stores,
        page,
        url: server.url,
        proxy,
        stop: () => server.stop(),
        start: () => server.start(),
        expect: (sign) => void expected.push(sign),
        async login(role) {
          await aUser(stores.sql, { name: role, role });
          await page.goto(`${server.url}login`);
          await page.fill("input[name=name]", role);
          await page.fill("input[name=password]", PASSWORD);
          await page.click("main button[type=submit]");
          await page.waitForURL((at) => !at.pathname.endsWith("/login"));
        },
      });
      assert.deepEqual(complaints.filter((text) => !expected.some((sign) => sign.test(text))), []);
    } finally {
      await browser.close();
      await server.stop();
      await proxy?.stop();
    }
  });
}

/** One after another at the same port. */
class Server {
  url = "";
  #port = 0;
  #stop = new AbortController();
  #served: Promise<void> | undefined;

  /** `public_url`: of the proxy in front. */
  constructor(readonly database_url: string, readonly public_url?: string) {}

  get own_url(): string {
    return `http://127.0.0.1:${this.#port}/`;
  }

  async start(port = this.#port): Promise<void> {
    const sql = connectDb(this.database_url, { name: "admin", max: 4 });
    this.#stop = new AbortController();
    const { signal: stop } = this.#stop;
    const public_url = this.public_url === undefined ? undefined : new URL(this.public_url);
    const config = { host: "127.0.0.1", port, public_url, proxies: public_url ? 1 : 0 };
    const ready = Promise.withResolvers<string>();
    this.#served = serveAdmin(config, { sql, stop, ready: ready.resolve }).finally(() => sql.end({ timeout: 2 }));
    this.#served.catch(ready.reject);
    this.url = await ready.promise;
    this.#port = public_url ? port : Number(new URL(this.url).port);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#served;
  }
}

async function launch(): Promise<Browser> {
  return await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}
