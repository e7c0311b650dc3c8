// Of another team than the orders: both come after the same job.
import { defineJob } from "dandori";

export default defineJob({
  description: "Load the day's users",
  after: ["nightly"],
  run() {
    return { users: 2 };
  },
});
