/** Two schedules, one of them each second; no slot may be missing, whoever was down. */
import { defineJob } from "dandori";
import { marked, permissions } from "./_marks.ts";

const misfire = { all: true, within: 86_400, max: 1000 } as const;

export default defineJob({
  schedule: [
    { id: "second", cron: "* * * * * *", misfire },
    { id: "third", cron: "*/3 * * * * *", misfire },
  ],
  timeoutSeconds: 60,
  isolation: { reuse: 200 },
  permissions,
  run: (context) => marked(context, () => undefined),
});
