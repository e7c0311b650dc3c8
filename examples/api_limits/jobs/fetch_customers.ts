// Three limits at once: of all that have a seat, of each tenant, and of starts per second. A run that waits says for which.
import { defineJob, RetryAfter } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Fetch a page of a tenant's customers",
  args: z.object({ api: z.url(), tenant: z.string(), page: z.int() }),
  resources: { crm_seat: 1 }, // shared with every other job that takes a seat
  concurrency: { limit: 2, key: "{tenant}" }, // no tenant takes them all
  rate: { count: 10, seconds: 1 }, // what the API allows
  retry: { max: 5, backoffSeconds: 5 },
  permissions: { net: ["127.0.0.1"] },
  async run({ args, signal }) {
    const response = await fetch(`${args.api}/${encodeURIComponent(args.tenant)}/customers?page=${args.page}`, {
      signal,
    });
    if (response.status === 429) throw new RetryAfter(Number(response.headers.get("retry-after") ?? 5));
    if (!response.ok) throw new Error(`the API answers ${response.status}`);
    const customers: unknown[] = await response.json();
    return { customers: customers.length };
  },
});
