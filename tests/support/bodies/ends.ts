/** Ends in every way that is no return and no throw. */
import process from "node:process";
import { defineJob } from "dandori";

export default defineJob({
  async run({ args, log }) {
    switch (args) {
      case "Deno.exit":
        return Deno.exit(3);
      case "process.exit":
        return process.exit(0);
      case "never settles":
        return await new Promise(() => {});
      case "heap": {
        const hoard: unknown[] = [];
        for (;;) hoard.push(new Array(100_000).fill(hoard.length + 0.5));
      }
      case "open timers":
        setInterval(() => {}, 1_000);
        return "done";
      case "wait for a signal":
        log.info("waiting");
        return await new Promise((resolve) => setTimeout(resolve, 60_000));
    }
  },
});
