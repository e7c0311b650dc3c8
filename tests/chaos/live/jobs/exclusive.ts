/** `forbid`: a slot is skipped while a run of it is active, an enqueue waits, and no two bodies ever overlap. */
import { defineJob } from "dandori";
import { hold, marked, permissions } from "./_marks.ts";

export default defineJob<{ hold_ms?: number }>({
  schedule: { cron: "*/2 * * * * *", misfire: { all: true, within: 86_400, max: 1000 }, args: { hold_ms: 700 } },
  concurrency: "forbid",
  timeoutSeconds: 60,
  isolation: { reuse: 200 },
  permissions,
  run: (context) => marked(context, () => hold(context.args.hold_ms ?? 1_500), ["job exclusive"]),
});
