// Started by the event; whoever emits it need not know of this job.
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Write to whoever placed an order",
  on: "order.placed",
  args: z.object({ order: z.int(), email: z.email() }),
  run({ args, log }) {
    log.info(`order ${args.order} is confirmed`);
    return { to: args.email, subject: `Your order ${args.order}` };
  },
});
