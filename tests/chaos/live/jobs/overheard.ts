/** Started by the same event as another job, and by one more. */
import { defineJob } from "dandori";
import { marked, permissions } from "./_marks.ts";

export default defineJob({
  on: ["chaos.happened", "chaos.rumored"],
  timeoutSeconds: 60,
  isolation: { reuse: 200 },
  permissions,
  run: (context) => marked(context, () => undefined),
});
