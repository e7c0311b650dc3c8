/** Comes after each run of another job that has succeeded, once. */
import { defineJob } from "dandori";
import { marked, permissions } from "./_marks.ts";

export default defineJob({
  after: ["source"],
  timeoutSeconds: 60,
  isolation: { reuse: 200 },
  permissions,
  run: (context) => marked(context, () => undefined),
});
