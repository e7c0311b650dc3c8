/** Workflows, one by one: its args say which. */
import { defineJob } from "dandori";

const moment = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export default defineJob<string>({
  async run({ args, step, sleep, waitFor, now, log, signal, attempt, callbackUrl, again, ...rest }) {
    const wait = waitFor as (name: string, options?: object) => Promise<unknown>;
    switch (args) {
      case "message": {
        const made = await step("make", () => ({ at: new Date(0) }));
        log.info(`made ${made.at} ${now().toISOString()}`);
        console.log(`printed in attempt ${attempt}`);
        const first = await Promise.race([wait("go"), sleep("1 h").then(() => "sleep")]);
        await sleep(0.01);
        return { first, url: await callbackUrl("go" as never) };
      }
      case "busy":
        return await Promise.race([wait("go"), step("work", () => moment(60_000)), moment(60_000)]);
      case "handles": {
        const timer = setInterval(() => {}, 100);
        const got = await wait("go");
        clearInterval(timer);
        return got;
      }
      case "canceled": {
        const error = await wait("go").catch((error) => error as Error) as Error;
        return [error.name, error.message, signal.aborted];
      }
      case "step":
        return await step("a", () => Deno.pid);
      case "dangling":
        void sleep("1 h");
        return await step("a", () => 1);
      case "never":
        return await new Promise(() => {});
      case "delay":
        return await defineJob({ run: () => 1 }).delay({}).catch((error) => error.message);
      case "again":
        return await again({ page: 2 });
      case "rest":
        return Object.keys(rest).sort();
      case "undo":
        await step("reserve", () => 4, { undo: (it) => log.info(`release ${it}`) });
        void sleep("1 day").then(() => log.info("nobody waits for this"));
        return await wait("go");
    }
    return null;
  },
});
