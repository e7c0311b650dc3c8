// The night begins here. It knows none of the jobs that come after it.
import { defineJob } from "dandori";

export default defineJob({
  description: "Begin the night's loads",
  schedule: { dailyAt: "02:00", timezone: "Asia/Tokyo" },
  run({ scheduledFor }) {
    return { day: scheduledFor.slice(0, 10) };
  },
});
