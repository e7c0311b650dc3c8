/** Args that take as long to check as they say, before anything of the run is called. */
import { defineJob } from "dandori";

export default defineJob({
  args: {
    "~standard": {
      version: 1,
      vendor: "tests",
      async validate(value: unknown) {
        if (value === "stall") {
          console.log("checking");
          await new Promise((resolve) => setTimeout(resolve, 60_000));
        }
        if (value === "break") {
          console.log("breaking");
          setTimeout(() => Promise.reject(new Error("of the schema")));
          await new Promise((resolve) => setTimeout(resolve, 60_000));
        }
        return { value };
      },
    },
  },
  run: () => ({ pid: Deno.pid, served: 0, found: 0 }),
});
