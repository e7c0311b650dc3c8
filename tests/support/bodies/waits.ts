/** Says that it has begun, and then does what its args say. */
import { defineJob } from "dandori";

let served = 0;

export default defineJob<string>({
  async run(context) {
    const { args, log, signal } = context;
    served++;
    log.info(`begun ${args}`);
    const [what, ms = "0"] = args.split(" ");
    if (what === "hang") {
      await new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, 60_000);
        signal.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)));
      });
    }
    if (what === "rest") await new Promise((resolve) => setTimeout(resolve, Number(ms)));
    if (what === "spin") { for (const until = performance.now() + Number(ms); performance.now() < until;); }
    if (what === "print") {
      console.log(`out ${ms}`);
      console.error(`err ${ms}`);
    }
    if (what === "exit") Deno.exit(3);
    if (what === "close") Deno[ms as "stdin"].close();
    if (what === "leave") setTimeout(() => Promise.reject(new Error("of a run before")));
    return { pid: Deno.pid, served, found: what === "print" ? filesIn(context.tempDir) : 0 };
  },
});

/** How many there are, before one is left behind. */
function filesIn(folder: string): number {
  const found = [...Deno.readDirSync(folder)].length;
  Deno.writeTextFileSync(`${folder}/left`, "");
  return found;
}
