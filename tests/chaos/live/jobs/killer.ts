/** Kills its worker in its first attempts: one that always does must be put away after some. */
import { defineJob } from "dandori";
import { hold, marked, permissions } from "./_marks.ts";

/** Of the process that started this one. Once it is dead Deno.ppid is another's, who must not be killed. */
const WORKER = Deno.ppid;

export default defineJob<{ kills: number }>({
  timeoutSeconds: 60,
  permissions: { ...permissions, unsafe: { run: true } },
  run: (context) =>
    marked(context, async () => {
      await hold(200);
      if (context.attempt > context.args.kills) return;
      if (Deno.ppid === WORKER) Deno.kill(WORKER, "SIGKILL");
      await hold(10_000);
    }),
});
