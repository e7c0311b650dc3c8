// `onFinish` of the bulk: one run at its end, with what became of the items.
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Report what became of an update of prices",
  args: z.object({ bulk_id: z.int(), state: z.string(), succeeded: z.int(), failed: z.int(), not_done: z.int() }),
  run({ args, log }) {
    if (args.failed > 0) log.warn(`${args.failed} prices were not updated: deno task bulk retry ${args.bulk_id}`);
    const items = args.succeeded + args.failed + args.not_done;
    return `bulk ${args.bulk_id} is ${args.state}: ${args.succeeded} of ${items} prices updated`;
  },
});
