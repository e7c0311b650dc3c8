/** Sometimes takes longer than it may, and spins: only a signal from outside ends it. */
import { defineJob } from "dandori";
import { marked, permissions } from "./_marks.ts";

export default defineJob<{ spin_ms: number }>({
  timeoutSeconds: 1,
  killGraceSeconds: 1,
  retry: { max: 1, backoffSeconds: 0.5 },
  permissions,
  run: (context) =>
    marked(context, () => {
      for (const until_ms = Date.now() + context.args.spin_ms; Date.now() < until_ms;);
    }),
});
