// May read one folder, see one variable and reach one host. Its process can do nothing else, whatever it imports.
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Convert the prices into another currency",
  args: z.object({ rates: z.url() }),
  permissions: {
    read: ["examples/least_privilege/data"],
    env: ["SHOP_CURRENCY"],
    net: ["127.0.0.1"],
  },
  async run({ args, signal }) {
    const currency = Deno.env.get("SHOP_CURRENCY") ?? "EUR";
    const prices: Record<string, number> = JSON.parse(
      await Deno.readTextFile("examples/least_privilege/data/prices.json"),
    );
    const rates: Record<string, number> = await (await fetch(args.rates, { signal })).json();
    const rate = rates[currency];
    if (rate === undefined) throw new Error(`There is no rate for ${currency}`);
    return Object.fromEntries(
      Object.entries(prices).map(([name, yen]) => [name, `${(yen * rate).toFixed(2)} ${currency}`]),
    );
  },
});
