// Comes once both loads of the same night have ended, whatever came of them; its args name their runs.
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Report on the night",
  after: { jobs: ["load_orders", "load_users"], when: "end" },
  args: z.object({ runs: z.record(z.string(), z.int()) }),
  run({ args }) {
    return { reported: Object.keys(args.runs).sort() };
  },
});
