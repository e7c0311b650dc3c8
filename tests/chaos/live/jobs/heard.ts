/** Started by an event. */
import { defineJob } from "dandori";
import { hold, marked, permissions } from "./_marks.ts";

export default defineJob<{ hold_ms?: number }>({
  on: "chaos.happened",
  timeoutSeconds: 60,
  isolation: { reuse: 200 },
  permissions,
  run: (context) => marked(context, () => hold(context.args.hold_ms ?? 0)),
});
