/** A process of its own for each body. */
import { defineJob } from "dandori";
import { hold, marked, permissions } from "./_marks.ts";

export default defineJob<{ hold_ms: number }>({
  timeoutSeconds: 60,
  permissions,
  run: (context) => marked(context, () => hold(context.args.hold_ms)),
});
