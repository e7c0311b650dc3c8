/** Long enough to be interrupted, and canceled now and then; it listens to its signal. */
import { defineJob } from "dandori";
import { marked, permissions } from "./_marks.ts";

export default defineJob<{ hold_ms: number }>({
  timeoutSeconds: 60,
  killGraceSeconds: 2,
  permissions,
  run: (context) =>
    marked(context, () =>
      new Promise<void>((resolve, reject) => {
        setTimeout(resolve, context.args.hold_ms);
        context.signal.addEventListener("abort", () => reject(context.signal.reason));
      })),
});
