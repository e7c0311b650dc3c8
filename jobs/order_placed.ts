// An event starts it; the payload becomes the args.
//   deno task emit order.placed --payload '{"order":7,"total":1200}' --dedupe-key order-7
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Confirm an order when it is placed",
  on: "order.placed",
  args: z.object({ order: z.int(), total: z.number().nonnegative() }),
  priority: "user.high",
  run({ args, log, jobRunId }) {
    log.info(`confirming order ${args.order}`, { total: args.total });
    return { confirmation: `order-${args.order}-run-${jobRunId}` };
  },
});
