/** The door to Postgres: what a connection that fell silent, and a query that failed, do to the queries on it. */
import assert from "node:assert/strict";
import { monotonicMs, rest } from "../../../src/platform/timers.ts";
import { FaultyLink } from "../../../src/ops/faulty_link.ts";
import { explanation } from "../../../src/ops/explain.ts";
import { driverAddress } from "../../../src/postgres/database_url.ts";
import { connectDb, isShutOut, isUnreachable, onWork } from "../../../src/postgres/connection.ts";
import { whileShut, withStores } from "../../support/stores.ts";
import { waitFor } from "../../support/waiting.ts";

/** Between a client and Postgres; `stall` makes the connections of until now swallow everything, as a lost route does. */
function startLine(database_url: string): { url: string; stall(): void; close(): void } {
  const { hostname, port } = new URL(database_url);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const lines = new Set<{ dead: boolean; ends: Deno.TcpConn[] }>();
  const pump = async (from: Deno.TcpConn, to: Deno.TcpConn, line: { dead: boolean }) => {
    const buffer = new Uint8Array(65_536);
    for (;;) {
      const length = await from.read(buffer).catch(() => null);
      if (length === null) break;
      if (!line.dead) await to.write(buffer.subarray(0, length)).catch(() => undefined);
    }
    if (!line.dead) [from, to].forEach(hangUp);
  };
  (async () => {
    for await (const client of listener) {
      const server = await Deno.connect({ hostname, port: Number(port) });
      const line = { dead: false, ends: [client, server] };
      lines.add(line);
      pump(client, server, line);
      pump(server, client, line);
    }
  })();
  const url = new URL(database_url);
  url.host = `127.0.0.1:${(listener.addr as Deno.NetAddr).port}`;
  return {
    url: url.href,
    stall: () => lines.forEach((line) => line.dead = true),
    close() {
      listener.close();
      for (const line of lines) line.ends.forEach(hangUp);
    },
  };
}

function hangUp(connection: Deno.TcpConn): void {
  try {
    connection.close();
  } catch {
    // closed by the other direction
  }
}

Deno.test("a connection that fell silent is left: its query fails, and the next one goes by another", async () => {
  await withStores(async ({ database_url }) => {
    const line = startLine(database_url);
    const sql = connectDb(line.url, { name: "silent", max: 2, statement_timeout_ms: 500 });
    try {
      assert.equal((await sql`select 1 as one`)[0]?.one, 1);
      line.stall();
      const began_ms = monotonicMs();
      await assert.rejects(async () => await sql`select 2`, (error) => isUnreachable(error));
      assert(monotonicMs() - began_ms < 10_000, "it was given up late");
      assert.equal((await sql`select ${3}::int as three`)[0]?.three, 3);
      await assert.rejects(async () => await sql`select pg_sleep(2)`, { code: "57014" });
      const queued = Array.from({ length: 14 }, () => sql`select pg_sleep(0.4)`); // longer than the limit, together
      assert.equal((await Promise.all(queued)).length, 14, "to wait for a session is no silence");
    } finally {
      line.close();
      await sql.end({ timeout: 0 });
    }
  });
});

Deno.test("sessions that take no writes are left, and those who are made when writes are taken again do", async () => {
  await withStores(async ({ sql: other, database_url }) => {
    const database = other(new URL(database_url).pathname.slice(1));
    await other`alter database ${database} set default_transaction_read_only = on`;
    const sql = connectDb(database_url, { name: "reading", max: 1 });
    try {
      const write = async () => (await sql`insert into key_recheck (line) values ('x') returning 1`).length;
      await assert.rejects(write, (error) => isUnreachable(error));
      await other`alter database ${database} reset default_transaction_read_only`;
      await waitFor("a write", () => write().catch(() => undefined), 10_000);
    } finally {
      await sql.end({ timeout: 1 });
    }
  });
});

Deno.test("who is shut out, by a password or a closed database, is told apart from what was asked", async () => {
  for (const code of ["28P01", "28000", "3D000", "42501", "42P01", "55000"]) {
    assert(isUnreachable({ code }) && isShutOut({ code }), code);
  }
  for (const code of ["ECONNREFUSED", "57P01", "40P01"]) assert(isUnreachable({ code }) && !isShutOut({ code }), code);
  for (const code of ["23505", "42703", "22P02"]) assert(!isUnreachable({ code }), code);
  await withStores(async ({ sql, database_url }) => {
    assert.equal((await sql`select 1 as one`)[0]?.one, 1);
    await whileShut(database_url, "test", () => assert.rejects(async () => await sql`select 1`, isUnreachable));
    await waitFor("being let in", () => sql`select 1`.catch(() => undefined));
  });
});

Deno.test("a session that is ended for the limit of its transactions is one that was cut, not a refusal of what was asked", async () => {
  await withStores(async ({ sql, database_url }) => {
    const [server] = await sql`select current_setting('server_version_num')::int as version`;
    if (server?.version < 170_000) return; // they have no such limit
    const database = new URL(database_url).pathname.slice(1);
    await sql.unsafe(`alter database ${database} set transaction_timeout = '200ms'`);
    const limited = connectDb(database_url, { name: "test", max: 1 });
    try {
      await assert.rejects(async () => await limited`select pg_sleep(60)`, isUnreachable);
      await assert.rejects(limited.begin((tx) => tx`select pg_sleep(60)`), isUnreachable);
      assert.equal((await limited`select 1 as one`)[0]?.one, 1);
    } finally {
      await limited.end({ timeout: 1 });
    }
  });
});

Deno.test("who listens on a pool that is left for its silence goes on hearing, until it has heard enough", async () => {
  await withStores(async ({ database_url, sql: other }) => {
    const line = startLine(database_url);
    const sql = connectDb(line.url, { name: "listening", max: 2, statement_timeout_ms: 500 });
    try {
      const heard: string[] = [];
      const silence = await onWork(sql, (what) => heard.push(what));
      assert.equal((await sql`select 1 as one`)[0]?.one, 1);
      line.stall();
      await assert.rejects(async () => await sql`select 1`, (error) => isUnreachable(error));
      heard.length = 0;
      await waitFor("news", async () => {
        await other`select pg_notify('scheduler', 'news')`;
        return heard.includes("news") || undefined;
      });
      await silence();
      heard.length = 0;
      await other`select pg_notify('scheduler', 'more')`;
      await sql`select pg_sleep(0.2)`; // whoever still listened would have heard it by then
      assert.deepEqual(heard, []);
    } finally {
      line.close();
      await sql.end({ timeout: 0 });
    }
  });
});

Deno.test("a client that stands still in the midst of a large answer holds its locks for seconds, not for as long as it stands", async () => {
  await withStores(async ({ database_url, sql: other }) => {
    const url = new URL(database_url);
    const link = await FaultyLink.to(Number(url.port), url.hostname);
    url.host = `127.0.0.1:${link.port}`;
    const frozen = connectDb(url.href, { name: "frozen", max: 1 });
    try {
      await frozen`select 1`;
      link.stall("back");
      frozen`
        with seat as materialized (select id from leader_term where id = 1 for update)
        select repeat('x', 50000000) as much from seat`.catch(() => undefined);
      await waitFor("it to be in the midst", async () => {
        const [session] = await other`
          select 1 from pg_stat_activity
           where wait_event = 'ClientWrite' and application_name = 'dandori frozen' and datname = current_database()`;
        return session;
      });
      await waitFor("the seat", () => other`update leader_term set tick = tick`.then(() => true, () => undefined));
    } finally {
      await link.close();
      await frozen.end({ timeout: 0 });
    }
  });
});

Deno.test("Postgres going away while a connection is opened fails the query, and nothing else", async () => {
  await withStores(async ({ database_url }) => {
    const url = new URL(database_url);
    const { hostname, port } = url;
    for (let open_ms = 0; open_ms < 240; open_ms += 10) { // each step of opening is one way to be cut
      const link = await FaultyLink.to(Number(port), hostname); // a port that was given up may be somebody else's
      link.delay(10);
      url.host = `127.0.0.1:${link.port}`;
      const sql = connectDb(url.href, { name: "cut", max: 1 });
      const asked = sql`select 1`.then(() => true, (error) => isUnreachable(error) || error);
      await rest(open_ms);
      await link.refuse();
      assert.equal(await asked, true);
      await sql.end({ timeout: 0 });
    }
  });
});

Deno.test("rows are those of their own query, also when the one before failed after some of its rows had come", async () => {
  await withStores(async ({ database_url }) => {
    const sql = connectDb(database_url, { name: "test", max: 1 });
    const failing = () =>
      assert.rejects(Promise.resolve(sql`select 1 / (3 - n) from generate_series(1, 5) n`), /division by zero/);
    try {
      const [, rows] = await Promise.all([failing(), sql`select n from generate_series(1, 2) n`]);
      assert.deepEqual(rows.map(({ n }) => n), [1, 2]);
      assert.equal(rows.count, 2);
      await sql.begin(async (tx) => {
        await tx.savepoint((tx) => tx`select 1 / (3 - n) from generate_series(1, 5) n`).catch(() => undefined);
        const [row] = await tx`select 7 as n`;
        assert.equal(row?.n, 7);
      });
    } finally {
      await sql.end();
    }
  });
});

Deno.test("lists go to Postgres and come back as they were", async () => {
  await withStores(async ({ sql }) => {
    const texts = ["plain", "", "a,b", 'a "quoted" one', "back\\slash", "{braces}", "NULL", "two\nlines", "日本"];
    const [row] = await sql`select ${texts}::text[] as texts, ${[1, 2]}::int[] as ints, ${[3]}::bigint[] as bigs,
                                   ${[]}::text[] as none, array['a', null] as holes, 'b' = any(${["a", "b"]}) as found`;
    assert.deepEqual(row, { texts, ints: [1, 2], bigs: [3], none: [], holes: ["a", null], found: true });
  });
});

Deno.test("the URL of another kind of database is refused as such, and nothing of it is shown", () => {
  for (const url of ["mysql://u:secret@127.0.0.1:3306/x", "postgresql+asyncpg://u:secret@127.0.0.1/x", "127.0.0.1/x"]) {
    assert.throws(() => connectDb(url, { name: "test" }), (error) => {
      assert.match(explanation(error), /^Cannot read DATABASE_URL: it is no URL of a Postgres; give postgres:/);
      return true;
    });
  }
});

Deno.test("a Postgres is reached by a socket of this machine, as psql names it", async () => {
  await withStores(async ({ database_url }) => {
    const { hostname, port, username, password, pathname } = new URL(database_url);
    const dir = Deno.makeTempDirSync({ prefix: "dandori-socket-" });
    const door = Deno.listen({ transport: "unix", path: `${dir}/.s.PGSQL.5432` });
    const carrying = carry(door, { hostname, port: Number(port || 5432) });
    try {
      const named = [
        `postgres://${username}:${password}@${pathname}?host=${dir}`,
        `postgres://${username}:${password}@nowhere:1${pathname}?host=${encodeURIComponent(dir)}&port=5432`,
      ];
      for (const url of named) {
        const sql = connectDb(url, { name: "test", max: 1 });
        const [row] = await sql`select current_database() as name, current_setting('application_name') as application`;
        assert.deepEqual({ ...row }, { name: pathname.slice(1), application: "dandori test" });
        await sql.end();
      }
      assert.deepEqual(driverAddress("postgres:///jobs?host=/run/pg&user=taro&options=x"), {
        url: "postgres://localhost/jobs?options=x",
        options: { host: "/run/pg", port: 5432, user: "taro" },
      });
      for (
        const plain of [database_url, "postgres:///jobs", "postgres://a:1,b:2/jobs?target_session_attrs=read-write"]
      ) {
        assert.deepEqual(driverAddress(plain), { url: plain, options: {} });
      }
    } finally {
      door.close();
      await carrying;
      Deno.removeSync(dir, { recursive: true });
    }
  });
});

/** What comes in at the door goes to Postgres, until the door is closed. */
async function carry(door: Deno.UnixListener, to: { hostname: string; port: number }): Promise<void> {
  const under_way: Promise<unknown>[] = [];
  for await (const near of door) {
    const far = await Deno.connect(to);
    const both = [near.readable.pipeTo(far.writable), far.readable.pipeTo(near.writable)];
    under_way.push(Promise.allSettled(both));
  }
  await Promise.all(under_way);
}
