// Serves rates to the one job that may reach this host.
import { createClient } from "dandori/client";
import convertPrices from "./jobs/convert_prices.ts";

const asked = Promise.withResolvers<void>();
const rates = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
  asked.resolve();
  return Response.json({ EUR: 0.0061, USD: 0.0067 });
});

const client = createClient({ databaseUrl: Deno.env.get("DATABASE_URL")! });
await client.enqueue(convertPrices, { rates: `http://127.0.0.1:${rates.addr.port}/` });
await client.close();
await asked.promise;
await rates.shutdown();
