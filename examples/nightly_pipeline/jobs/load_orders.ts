import { defineJob } from "dandori";

export default defineJob({
  description: "Load the day's orders",
  after: ["nightly"],
  run() {
    return { orders: 3 };
  },
});
