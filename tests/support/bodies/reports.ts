/** Reports progress as its args say. */
import { defineJob } from "dandori";

const SHARES: Record<string, unknown> = {
  "below 0": -0.01,
  "above 1": 1.01,
  "no number": 0 / 0,
  endless: Infinity,
  text: "0.5",
  nothing: undefined,
};

export default defineJob({
  run({ args, progress }) {
    if (args === "rounded") return void progress(0.6 + 0.2 + 0.1 + 0.1 + Number.EPSILON);
    progress(SHARES[String(args)] as number); // not waited for: it is refused all the same
  },
});
