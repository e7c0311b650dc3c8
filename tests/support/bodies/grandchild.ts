/** Leaves a process behind that ignores TERM, and then does as its args say. */
import { defineJob } from "dandori";

export default defineJob({
  permissions: { unsafe: { run: ["sh"] } },
  async run({ args, log }) {
    const child = new Deno.Command("sh", {
      args: ["-c", 'trap "" TERM HUP; while :; do sleep 0.2; done'],
      stdin: "null",
    }).spawn();
    log.info("grandchild", { pid: child.pid });
    if (args === "returns") return "returned";
    if (args === "spins") { for (;;); }
    await child.status;
  },
});
