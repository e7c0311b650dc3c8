/** Begins a group: another job comes after it. */
import { defineJob, Fatal } from "dandori";
import { hold, marked, permissions } from "./_marks.ts";

export default defineJob<{ fails: boolean }>({
  timeoutSeconds: 60,
  isolation: { reuse: 200 },
  permissions,
  run: (context) =>
    marked(context, async () => {
      await hold(100);
      if (context.args.fails) throw new Fatal("as it was told");
    }),
});
