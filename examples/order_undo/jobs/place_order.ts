// What was done is undone in reverse order when a later step fails for good.
import { defineJob, Fatal } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Reserve, charge, ship; or none of it",
  args: z.object({ item: z.string(), yen: z.int().positive() }),
  async run({ args, step, log }) {
    const stock = await step("reserve", ({ key }) => ({ reservation: key }), {
      undo: (done) => log.info(`released ${done?.reservation ?? "what may have been reserved"}`),
    });
    // At most once: a charge that may have been made is not made again. Without a result its key tells which one to look for.
    await step("charge", ({ key }) => ({ charge: key, yen: args.yen }), {
      once: true,
      undo: (done, { key }) => log.info(`refunded ${done?.charge ?? key}`),
    });
    return await step("ship", () => {
      if (args.item === "anvil") throw new Fatal("no carrier takes anvils");
      return { shipped: stock.reservation };
    });
  },
});
