/** Transactions whose session closes before they end: they are rejected, and the process and its pool go on. */
import assert from "node:assert/strict";
import { rest } from "../../../src/platform/timers.ts";
import { connectDb, type Sql } from "../../../src/postgres/connection.ts";
import { withStores } from "../../support/stores.ts";

/** As a restart of Postgres does; until Postgres has none, which this process may not have heard yet. */
async function closeSession(tx: Pick<Sql, "unsafe">, other: Sql): Promise<void> {
  const [row] = await tx.unsafe("select pg_backend_pid() as pid");
  await other`select pg_terminate_backend(${row?.pid}, 5000)`;
}

Deno.test("a transaction whose session closes is rejected, whatever it does then, and nothing else ends", async () => {
  await withStores(async ({ sql, database_url }) => {
    const mine = connectDb(database_url, { name: "test of transactions", max: 1 });
    const begin = (after: (tx: Sql) => Promise<unknown>) =>
      mine.begin(async (tx) => {
        await closeSession(tx, sql);
        await after(tx as unknown as Sql);
      });
    const ways: [string, (tx: Sql) => Promise<unknown>][] = [
      ["it ends at once", () => Promise.resolve()],
      ["it ends later", () => rest(50)],
      ["it fails later", () => rest(50).then(() => Promise.reject(new Error("of its own")))],
      ["it asks at once", (tx) => tx`select 1`],
      ["it asks later", (tx) => rest(50).then(() => tx`select 1`)],
      ["it asks on after an error", (tx) => tx`select 1`.catch(() => tx`select 2`)],
      ["it asks on later after an error", (tx) => tx`select 1`.catch(() => rest(50)).then(() => tx.unsafe("select 2"))],
    ];
    for (const [what, after] of ways) {
      await assert.rejects(begin(after), { code: /CONNECTION_CLOSED|57P01|ECONNRESET/ }, what);
      const [row] = await mine`select 1 as one`;
      assert.equal(row?.one, 1, what);
    }
    await mine.end();
  });
});

Deno.test("one that is left idle for too long is rejected, and what it asks then as well", async () => {
  await withStores(async ({ sql }) => {
    const asked = sql.begin(async (tx) => {
      await tx`set local idle_in_transaction_session_timeout = 50`;
      await rest(300);
      await tx`select 1`;
    });
    await assert.rejects(asked, { code: /CONNECTION_CLOSED|25P03/ });
    assert.equal((await sql`select 1`).length, 1);
  });
});

Deno.test("an error of its own ends a transaction as it was, and is told", async () => {
  await withStores(async ({ sql }) => {
    const name = "transactions_test";
    await assert.rejects(
      sql.begin(async (tx) => {
        await tx`insert into resource (name, capacity) values (${name}, 1)`;
        throw new Error("of its own");
      }),
      /of its own/,
    );
    assert.equal((await sql`select from resource where name = ${name}`).length, 0);
    const result = await sql.begin((tx) =>
      tx`insert into resource (name, capacity) values (${name}, 1) returning name`
    );
    assert.equal(result[0]?.name, name);
    await assert.rejects(sql.begin((tx) => [tx`select 1`, tx`select 1 / 0`]), /division by zero/);
  });
});
