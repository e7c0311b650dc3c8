// Typed args: the schema gives `args` its type here, and checks what callers send.
//   deno task run hello --args '{"name":"Dandori"}' --wait
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Say hello",
  args: z.object({ name: z.string().min(1).default("world"), times: z.int().min(1).max(10).default(1) }),
  async run({ args, log, progress }) {
    for (let time = 1; time <= args.times; time++) {
      log.info(`hello ${args.name}`, { time });
      await progress(time / args.times);
    }
    return { greeted: args.name };
  },
});
