/** Called by workflows. What it returns is of chance, and must be what its caller is told. */
import { defineJob } from "dandori";
import { hold, marked, permissions } from "./_marks.ts";

export default defineJob<{ n: number; hold_ms?: number; fails?: boolean }>({
  timeoutSeconds: 60,
  isolation: { reuse: 200 },
  permissions,
  run: (context) =>
    marked(context, async () => {
      await hold(context.args.hold_ms ?? 20);
      if (context.args.fails) throw new Error("as it was told");
      return { of: crypto.randomUUID() };
    }),
});
