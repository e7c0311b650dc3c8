// One run for each device; one that does not answer fails, and the others go on.
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Wipe one device",
  args: z.object({ device: z.int() }),
  run({ args }) {
    if (args.device % 10 === 0) throw new Error(`device ${args.device} does not answer`);
    return { wiped: args.device };
  },
});
