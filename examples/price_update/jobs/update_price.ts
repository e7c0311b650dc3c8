// One article of the bulk. Short bodies share a process: a new one for each would take longer than the work.
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Work out the new price of an article",
  args: z.object({ article: z.int(), yen: z.int(), percent: z.number() }),
  isolation: { reuse: 500 },
  run({ args }) {
    if (args.article % 250 === 0) throw new Error(`article ${args.article} is sold out`);
    return { yen: Math.round(args.yen * (1 + args.percent / 100)) };
  },
});
