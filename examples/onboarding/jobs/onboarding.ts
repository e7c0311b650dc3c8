// Goes on for days, and holds no process while it waits.
import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Make an account, and see that its address gets confirmed",
  args: z.object({
    mail: z.email(),
    remindAfter: z.string().default("3 days"),
    tipsAfter: z.string().default("1 day"),
  }),
  messages: { confirmed: z.object({ by: z.string() }) },
  async run({ args, step, sleep, waitFor, jobRunId, log }) {
    const account = await step("make account", () => ({ id: `account-${jobRunId}` }));
    // `key` is the same in every try: a mail service that is given it sends once.
    const send = (text: string) =>
      step(`${text} mail`, ({ key }) => {
        log.info(`${text} mail to ${args.mail}`, { key });
        return { sent: key };
      });
    await send("welcome");
    let answer = await waitFor("confirmed", { timeout: args.remindAfter });
    if (!answer) {
      await send("reminder");
      answer = await waitFor("confirmed", { timeout: "4 days" });
    }
    if (!answer) return { account: account.id, confirmed: null };
    await sleep(args.tipsAfter);
    await send("tips");
    return { account: account.id, confirmed: answer.by };
  },
});
