// One command at a time per device, in order of priority, and none after one that failed until somebody has looked.
import { defineJob, Fatal, RetryAfter } from "dandori";
import { z } from "zod";
import { send } from "./_gateway.ts";

export default defineJob({
  description: "Send a command to a device",
  args: z.object({ device: z.int(), command: z.string() }),
  serialKey: "device:{device}",
  onFailure: "block",
  retry: { max: 5, backoffSeconds: 30 },
  timeoutSeconds: 60,
  run({ args, attempt, log }) {
    const answer = send(args, attempt);
    log.info(`the gateway answers ${answer.status}`, args);
    if (answer.status === 422) throw new Fatal(answer.why); // no other try can help
    if (answer.status === 503) throw new RetryAfter(answer.retryAfterSeconds, "the gateway is busy");
    return { sent: args.command };
  },
});
