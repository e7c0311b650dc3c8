// Stands in for the API, asks for pages of three tenants, and tells how many calls it saw at once.
import { createClient } from "dandori/client";
import fetchCustomers from "./jobs/fetch_customers.ts";

const PAGES = 4;
const TENANTS = ["acme", "globex", "initech"];
const open: string[] = [];
const most = { calls: 0, of_one_tenant: 0 };
const all_done = Promise.withResolvers<void>();
let calls = 0;

const api = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
  const tenant = new URL(request.url).pathname.split("/")[1] ?? "";
  open.push(tenant);
  most.calls = Math.max(most.calls, open.length);
  most.of_one_tenant = Math.max(most.of_one_tenant, open.filter((one) => one === tenant).length);
  await new Promise((resolve) => setTimeout(resolve, 300)); // a slow one
  open.splice(open.indexOf(tenant), 1);
  if (++calls === PAGES * TENANTS.length) all_done.resolve();
  return Response.json([{ name: "Ada" }, { name: "Grace" }]);
});

const client = createClient({ databaseUrl: Deno.env.get("DATABASE_URL")! });
const asked = TENANTS.flatMap((tenant) => Array.from({ length: PAGES }, (_, page) => ({ tenant, page })));
await client.enqueueMany(
  fetchCustomers,
  asked.map((page) => ({ args: { ...page, api: `http://127.0.0.1:${api.addr.port}` } })),
);
await client.close();

await all_done.promise;
await api.shutdown(); // waits until the last answer is on its way
console.log(JSON.stringify({ calls, most }));
