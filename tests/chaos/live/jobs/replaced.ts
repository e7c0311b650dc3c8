/** `replace`: a new slot cancels the run before it, which is still at work; the new one starts when the old body is gone. */
import { defineJob } from "dandori";
import { hold, marked, permissions } from "./_marks.ts";

export default defineJob({
  schedule: { cron: "*/6 * * * * *", misfire: { all: true, within: 86_400, max: 1000 } },
  concurrency: "replace",
  timeoutSeconds: 60,
  killGraceSeconds: 1,
  permissions,
  run: (context) => marked(context, () => hold(8_000), ["job replaced"]),
});
