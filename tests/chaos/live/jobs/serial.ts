/** Runs that share a key are done one at a time, in order. */
import { defineJob } from "dandori";
import { hold, marked, permissions } from "./_marks.ts";

export default defineJob<{ key: string; hold_ms: number; failures: number }>({
  serialKey: "key:{key}",
  timeoutSeconds: 60,
  retry: { max: 2, backoffSeconds: 0.3 },
  isolation: { reuse: 200 },
  permissions,
  run: (context) =>
    marked(context, async () => {
      await hold(context.args.hold_ms);
      if (context.attempt <= context.args.failures) throw new Error("as it was told");
    }, [`key ${context.args.key}`]),
});
