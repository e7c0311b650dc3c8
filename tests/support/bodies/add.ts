/** Typed args, and schedules of which one gives args that do not fit. */
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Add two numbers",
  schedule: [
    { id: "good", dailyAt: "02:30", args: { a: 1, b: 2 } },
    { everyNMinutes: 5, args: { a: "one", b: 2 } },
  ],
  args: z.object({ a: z.number(), b: z.number() }),
  run({ args }) {
    return { sum: args.a + args.b };
  },
});
