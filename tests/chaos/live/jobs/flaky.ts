/** Fails as often as it is told, and sometimes for good. */
import { defineJob, Fatal } from "dandori";
import { marked, permissions } from "./_marks.ts";

export default defineJob<{ failures: number; fatal: boolean }>({
  timeoutSeconds: 60,
  retry: { max: 3, backoffSeconds: 0.3, factor: 1.5 },
  isolation: { reuse: 200 },
  permissions,
  run: (context) =>
    marked(context, () => {
      if (context.attempt > context.args.failures) return;
      throw context.args.fatal ? new Fatal("as it was told") : new Error("as it was told");
    }),
});
