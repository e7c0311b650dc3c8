/**
 * What a page costs: however many runs there are, each reads about as many rows, and weighs no more than a slow line takes well. That each
 * is there in 100 ms with 1,000,000 runs is measured: `deno task bench pages`.
 */
import assert from "node:assert/strict";
import { buildAdmin } from "../../../src/admin/app.ts";
import { Live } from "../../../src/admin/live.ts";
import { OTHER_ROUTES, PAGES } from "../../../src/admin/pages.ts";
import { placeOf } from "../../../src/admin/base_url.ts";
import { serveAdmin } from "../../../src/admin/server.ts";
import { connectDb, type Sql } from "../../../src/postgres/connection.ts";
import { aUser, Browser, PASSWORD } from "../../support/admin.ts";
import { everyPage } from "../../support/every_page.ts";
import { fillHistory, type Size } from "../../support/history.ts";
import { Loader } from "../../support/page_load.ts";
import { type Stores, withStores } from "../../support/stores.ts";

const SMALL: Size = { runs: 10_000, waiting: 600, jobs: 20, nodes: 4 };
const LARGE: Size = { ...SMALL, runs: 60_000 };
const HEAVIEST_BYTES = 150_000;
/** Of the tables that grow with what runs, with the entries of their indexes. */
const GROWING = ["job_run", "bulk_item", "event", "admin_action_log", "job_run_log", "job_run_attempt"];
/** Where more is read with more runs: not more than this, in a database with 50,000 more. */
const MOST_MORE = 2_500;

/** These look through a bounded number of rows, more than there are here with few runs: a walk that sifts ends after 20,000. */
const BOUNDED = [
  "/runs/many retry a node's of a day",
  "/bulks/:id open",
  "/bulks/:id ended",
  "/api/v1/runs of a worker",
];
/** Twice that for the ids and where the search ended, and each row with its index's entry. The whole table would be 120,000. */
const MOST_LOOKED_AT = 85_000;

/** By name, what each page reads, in one session that is asked for its counts after each page. */
async function rowsRead({ sql, database_url }: Stores, size: Size): Promise<Map<string, number>> {
  const sights = await fillHistory(sql, size);
  await sql.begin((tx) => [tx`set local statement_timeout = 0`, tx`analyze`]);
  const one = connectDb(database_url, { name: "pages", max: 1, by_index: true });
  const stop = new AbortController();
  const place = placeOf({ public_url: undefined, proxies: 0, hosts: ["admin.test"] });
  const app = buildAdmin({
    sql: one,
    place,
    live: new Live(one),
    stop: stop.signal,
  });
  const browser = new Browser((request) => Promise.resolve(app.fetch(request, { address: "10.0.0.1" })), {
    origin: "http://admin.test",
    place,
  });
  try {
    await aUser(sql, { name: "admin", role: "admin" });
    await browser.logIn("admin", PASSWORD);
    const read = new Map<string, number>();
    for (const { name, path } of everyPage(sights, new Date())) {
      const before = await counted(one);
      const answer = await browser.get(path);
      await answer.text();
      assert.equal(answer.status, 200, path);
      read.set(name, await counted(one) - before);
    }
    return read;
  } finally {
    stop.abort();
    await one.end({ timeout: 2 });
  }
}

async function counted(one: Sql): Promise<number> {
  await one`select pg_stat_force_next_flush()`;
  const [row] = await one<{ rows: number }[]>`
    select (select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables where relname::text = any(${GROWING}::text[]))
         + (select sum(idx_tup_read) from pg_stat_user_indexes where relname::text = any(${GROWING}::text[])) as rows`;
  return Number(row?.rows ?? 0);
}

Deno.test("no page reads more rows because more runs have ended", async () => {
  const few = await withStores((stores) => rowsRead(stores, SMALL));
  const many = await withStores((stores) => rowsRead(stores, LARGE));
  const more = [...many].map(([name, rows]) => [name, few.get(name) ?? 0, rows] as const)
    .filter(([name, before, now]) => BOUNDED.includes(name) ? now > MOST_LOOKED_AT : now - before > MOST_MORE);
  assert.deepEqual(more, [], "page, rows read with few runs, and with many");
  assert(Math.max(...many.values()) > 100, "something was counted");
});

Deno.test("each page with all that it loads is less than 150 kB, and none is forgotten", () =>
  withStores(async ({ sql }) => {
    const sights = await fillHistory(sql, { ...SMALL, runs: 4_000 });
    await aUser(sql, { name: "admin", role: "admin" });
    const stop = new AbortController();
    const ready = Promise.withResolvers<string>();
    const config = { host: "127.0.0.1", port: 0, public_url: undefined, proxies: 0 };
    const serving = serveAdmin(config, { sql, stop: stop.signal, ready: ready.resolve });
    const loader = new Loader((await Promise.race([ready.promise, serving.then(() => "")])).replace(/\/$/, ""));
    try {
      await loader.logIn("admin", PASSWORD);
      const heavy: [string, number][] = [];
      const pages = everyPage(sights, new Date());
      for (const { name, path } of pages) {
        const answer = await loader.get(path);
        assert.equal(answer.status, 200, path);
        const bytes = await loader.weight(answer);
        if (path.startsWith("/overview")) {
          assert(bytes > answer.body.byteLength || !/html/.test(String(answer.headers["content-type"])));
        }
        if (bytes >= HEAVIEST_BYTES) heavy.push([name, bytes]);
      }
      assert.deepEqual(heavy, []);
      const routes = [...PAGES.flatMap((page) => page.routes), ...OTHER_ROUTES];
      const known = routes.flatMap((route) => "get" in route ? [route.get] : "json" in route ? [route.json] : []);
      const paths = pages.map(({ path }) => path.split("?")[0] as string);
      const forgotten = known.filter((route) =>
        !paths.some((path) => new RegExp(`^${route.replace(/:\w+/g, "[^/]+")}$`).test(path))
      );
      assert.deepEqual(forgotten, [], "pages that tests/support/every_page.ts does not name");
    } finally {
      loader.close();
      stop.abort();
      await serving;
    }
  }));
