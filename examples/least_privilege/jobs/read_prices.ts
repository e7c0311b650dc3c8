// Forgot to ask for anything: it fails once, unretried, and the error names the line to add.
import { defineJob } from "dandori";

export default defineJob({
  description: "Read the prices without the permission to",
  retry: { max: 3 },
  async run() {
    return JSON.parse(await Deno.readTextFile("examples/least_privilege/data/prices.json"));
  },
});
