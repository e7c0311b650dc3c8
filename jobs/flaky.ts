// Errors decide: most are retried with growing waits, `Fatal` never, `RetryAfter` when it says.
//   deno task run flaky --args '{"failures":2}' --wait
import { defineJob, Fatal, RetryAfter } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Fail a few times, then succeed",
  args: z.object({ failures: z.int().min(0).default(2), fatal: z.boolean().default(false) }),
  retry: { max: 3, backoffSeconds: 1, factor: 2, jitter: 0.2 },
  run({ args, attempt, log }) {
    if (args.fatal) throw new Fatal("no other try can help");
    if (attempt === 1 && args.failures > 0) throw new RetryAfter(0.5, "busy, come back in half a second");
    if (attempt <= args.failures) throw new Error(`attempt ${attempt} failed, as asked`);
    log.info(`attempt ${attempt} succeeded`);
    return { attempts: attempt };
  },
});
