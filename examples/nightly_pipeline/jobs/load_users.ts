import { defineJob } from "dandori";

export default defineJob({
  description: "Load the day's users",
  after: ["nightly"],
  run() {
    return { users: 2 };
  },
});
