/** The relay that drills and chaos tests put between processes: each fault does what it says, and ends when it heals. */
import assert from "node:assert/strict";
import { FaultyLink } from "../../src/ops/faulty_link.ts";
import { rest, within } from "../../src/platform/timers.ts";
import { PATIENCE_MS } from "../support/waiting.ts";

/** A server that answers each byte with the same byte, a link to it, and another one that stays whole. */
async function withEcho(test: (link: FaultyLink, whole: FaultyLink) => Promise<void>): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = (async () => {
    const answers = [];
    for await (const conn of listener) answers.push(conn.readable.pipeTo(conn.writable).catch(() => undefined));
    await Promise.all(answers);
  })();
  const { port } = listener.addr as Deno.NetAddr;
  const [link, whole] = [await FaultyLink.to(port), await FaultyLink.to(port)];
  try {
    await test(link, whole);
  } finally {
    await Promise.all([link.close(), whole.close()]);
    listener.close();
    await serving;
  }
}

class Caller {
  readonly #conn: Deno.TcpConn;
  /** Resolves when the connection ends, with how. */
  readonly ended: Promise<"closed" | "reset">;
  heard = "";
  #news: () => void = () => {};

  private constructor(conn: Deno.TcpConn) {
    this.#conn = conn;
    this.ended = this.#listen();
  }

  static async on(link: FaultyLink): Promise<Caller> {
    return new Caller(await Deno.connect({ hostname: "127.0.0.1", port: link.port }));
  }

  async #listen(): Promise<"closed" | "reset"> {
    const buffer = new Uint8Array(64);
    try {
      for (;;) {
        const count = await this.#conn.read(buffer);
        if (count === null) return "closed";
        this.heard += new TextDecoder().decode(buffer.subarray(0, count));
        this.#news();
      }
    } catch (error) {
      return error instanceof Deno.errors.ConnectionReset ? "reset" : "closed";
    }
  }

  async say(text: string): Promise<void> {
    await this.#conn.write(new TextEncoder().encode(text));
  }

  async hears(text: string): Promise<void> {
    while (this.heard !== text) {
      const news = new Promise<void>((resolve) => this.#news = resolve);
      await within(PATIENCE_MS, `"${text}", of which "${this.heard}" was heard,`, news);
    }
  }

  async hang(): Promise<void> {
    try {
      this.#conn.close();
    } catch { /* it had ended */ }
    await this.ended;
  }
}

/** What would have come back by now has: many others have, one after the other, by a link without a fault. */
async function manyEchoes(whole: FaultyLink): Promise<void> {
  const caller = await Caller.on(whole);
  for (let said = "x"; said.length <= 30; said += "x") {
    await caller.say("x");
    await caller.hears(said);
  }
  await caller.hang();
}

Deno.test("a link passes bytes both ways, and the end of a connection", () =>
  withEcho(async (link) => {
    const caller = await Caller.on(link);
    await caller.say("a");
    await caller.hears("a");
    await caller.hang();
  }));

for (const direction of ["there", "back"] as const) {
  Deno.test(`what is stalled on the way ${direction} arrives when the link heals`, () =>
    withEcho(async (link, whole) => {
      const before = await Caller.on(link);
      link.stall(direction);
      const during = await Caller.on(link);
      await before.say("b");
      await during.say("d");
      await manyEchoes(whole);
      assert.deepEqual([before.heard, during.heard], ["", ""]);
      await link.heal();
      await before.hears("b");
      await during.hears("d");
      await before.hang();
      await during.hang();
    }));
}

Deno.test("a stranded connection stays dead after the link heals, and a new one works", () =>
  withEcho(async (link, whole) => {
    const old = await Caller.on(link);
    await old.say("a");
    await old.hears("a");
    link.strand();
    await old.say("b");
    const fresh = await Caller.on(link);
    await fresh.say("c");
    await fresh.hears("c");
    await link.heal();
    await manyEchoes(whole);
    assert.equal(old.heard, "a");
    await old.hang();
    await fresh.hang();
  }));

Deno.test("a swallowed connection is accepted and never answered; those of before go on", () =>
  withEcho(async (link, whole) => {
    const old = await Caller.on(link);
    await old.say("a");
    await old.hears("a");
    link.swallow();
    const swallowed = await Caller.on(link);
    await swallowed.say("x");
    await old.say("b");
    await old.hears("ab");
    await manyEchoes(whole);
    assert.equal(swallowed.heard, "");
    await swallowed.hang();
    await old.hang();
  }));

Deno.test("a link that refuses resets what is open, refuses what is new, and works again on the same port", () =>
  withEcho(async (link) => {
    const old = await Caller.on(link);
    await old.say("a");
    await old.hears("a");
    const { port } = link;
    await link.refuse();
    assert.equal(await old.ended, "reset");
    await assert.rejects(Caller.on(link), Deno.errors.ConnectionRefused);
    await link.heal();
    assert.equal(link.port, port);
    const fresh = await Caller.on(link);
    await fresh.say("c");
    await fresh.hears("c");
    await fresh.hang();
    await old.hang();
  }));

Deno.test("delayed bytes keep their order, also when the delay gets shorter", () =>
  withEcho(async (link) => {
    const caller = await Caller.on(link);
    link.delay(40);
    await caller.say("1");
    await rest(5);
    link.delay(1);
    await caller.say("2");
    await caller.hears("12");
    await caller.hang();
  }));
