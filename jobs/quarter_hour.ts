// A schedule: cron in a time zone. `misfire` says what becomes of slots that passed while no worker was up.
//   deno task schedule preview quarter_hour
import { defineJob } from "dandori";

export default defineJob({
  description: "Note the time each quarter of an hour on working days",
  schedule: { cron: "*/15 9-17 * * 1-5", timezone: "Asia/Tokyo", misfire: "skip" },
  concurrency: "forbid",
  timeoutSeconds: 60,
  run({ log, scheduledFor }) {
    log.info(`it was ${scheduledFor} when this was due`);
    return { due: scheduledFor };
  },
});
