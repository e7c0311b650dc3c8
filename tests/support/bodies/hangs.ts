/** Will not end by itself; how far it must be pushed is in its args. */
import { defineJob } from "dandori";

export default defineJob({
  async run(context) {
    const { args, log } = context;
    if (args === "spin") {
      log.info("running");
      for (;;);
    }
    if (args === "ignores TERM") Deno.addSignalListener("SIGTERM", () => log.info("TERM ignored"));
    const signal = args === "never looks" || args === "ignores TERM" ? undefined : context.signal;
    const aborted = new Promise<string>((resolve) =>
      signal?.addEventListener("abort", () => resolve(String(signal.reason)))
    );
    log.info("running");
    if (args === "signals itself") setInterval(() => Deno.kill(Deno.pid, "SIGHUP"), 20);
    if (args === "stops when told") return await Promise.race([aborted, longWait()]);
    await Promise.all([aborted.then((reason) => log.info(reason)), longWait()]);
  },
});

function longWait(): Promise<string> {
  return new Promise((resolve) => setTimeout(() => resolve("waited"), 60_000));
}
