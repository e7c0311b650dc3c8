/** Gives back what it was given. */
import { defineJob } from "dandori";

export default defineJob({
  async run({ args, attempt, fence, jobRunId, scheduledFor, tempDir, log, progress }) {
    console.log("to stdout");
    console.error("to stderr");
    log.info("with fields", { rows: 2 });
    log.warn("two\nlines");
    await progress(0.25, "a quarter");
    await Deno.writeTextFile(`${tempDir}/note`, "written");
    const note = await Deno.readTextFile(`${tempDir}/note`);
    return { args, attempt, fence, jobRunId, scheduledFor, note, tempDir } as never;
  },
});
