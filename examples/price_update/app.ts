// Starts a bulk slowly, looks how it goes, and then lets it go faster.
import { createClient } from "dandori/client";
import updatePrice from "./jobs/update_price.ts";

const client = createClient({ databaseUrl: Deno.env.get("DATABASE_URL")! });
const articles = Array.from({ length: 1_000 }, (_, place) => ({ article: place + 1, yen: 1_000 + place, percent: 8 }));

const { id } = await client.bulk(updatePrice, articles, {
  name: "prices +8 %",
  parallel: 1,
  priority: "system.low",
  maxFailures: 20, // more than this pauses the bulk
  onFinish: "price_report",
});

let faster = false;
for (;;) {
  const bulk = await client.bulkProgress(id);
  console.log(`${bulk?.state} ${bulk?.succeeded} done, ${bulk?.failed} failed, ${bulk?.parallel} at once`);
  if (bulk?.state !== "RUNNING") break;
  if (!faster && bulk.succeeded >= 3) { // it works: no need to go slowly
    await client.changeBulk(id, { parallel: 20, priority: "user.high", reason: "the first ones look good" });
    faster = true;
  }
  await new Promise((resolve) => setTimeout(resolve, 250));
}
await client.close();
