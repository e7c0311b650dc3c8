/** Shows whether it runs in a process that has served before. */
import { defineJob } from "dandori";

let runs = 0;
console.log("loaded");

export default defineJob({
  run({ args, tempDir, log }) {
    runs++;
    const found = [...Deno.readDirSync(tempDir)].map((entry) => entry.name);
    Deno.writeTextFileSync(`${tempDir}/left-${runs}`, "");
    if (args === "throw") throw new Error("thrown");
    if (args === "exit") Deno.exit(1);
    if (args === "talk on") setTimeout(() => console.log("after the end"), 50);
    if (args === "stderr") { for (let line = 0; line < 500; line++) console.error(`line ${line}`); }
    log.info("served", { pid: Deno.pid });
    return { runs, pid: Deno.pid, found };
  },
});
