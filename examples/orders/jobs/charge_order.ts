// Enqueued by app.ts in the transaction that stores the order.
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Charge what an order costs",
  args: z.object({ order: z.int(), yen: z.int().positive() }),
  priority: "user.high",
  retry: { max: 5, backoffSeconds: 10 },
  run({ args, jobRunId, log }) {
    // The run's id is the same in every attempt: a payment service that is given it charges once.
    log.info(`charging order ${args.order}`, { yen: args.yen });
    return { charge: `run-${jobRunId}`, yen: args.yen };
  },
});
