// Takes an order twice, as a client does whose first answer got lost, and then one that it rolls back.
import { createClient } from "dandori/client";
import postgres from "postgres";
import chargeOrder from "./jobs/charge_order.ts";

const databaseUrl = Deno.env.get("DATABASE_URL")!;
const client = createClient({ databaseUrl });
const sql = postgres(databaseUrl, { onnotice: () => {} });

await sql`create schema if not exists shop`;
await sql`create table if not exists shop.orders (id int primary key, email text not null, yen int not null)`;

interface Order {
  id: number;
  email: string;
  yen: number;
}

/** The order, its run and its event are there together or not at all, and one time however often it is asked for. */
function takeOrder(order: Order, { paid = true } = {}): Promise<{ run: number; isNew: boolean }> {
  return sql.begin(async (tx) => {
    await tx`insert into shop.orders ${tx({ ...order })} on conflict (id) do nothing`;
    const dandori = client.within(tx);
    const run = await dandori.enqueue(chargeOrder, { order: order.id, yen: order.yen }, {
      idempotencyKey: `order-${order.id}`,
    });
    await dandori.emit("order.placed", { order: order.id, email: order.email }, { dedupeKey: `order-${order.id}` });
    if (!paid) throw new Error(`order ${order.id} is not paid`);
    return { run: run.id, isNew: run.isNew };
  });
}

const order = { id: 1, email: "ada@example.com", yen: 1200 };
console.log("taken", await takeOrder(order));
console.log("again", await takeOrder(order));
await takeOrder({ ...order, id: 2 }, { paid: false }).catch((error) => console.log("rolled back:", error.message));

await client.close();
await sql.end();
