// Knows the job that begins the night, and nothing of those that come after.
import { defineJob } from "dandori";

export default defineJob({
  description: "Load the day's orders",
  after: ["nightly"],
  run() {
    return { orders: 3 };
  },
});
