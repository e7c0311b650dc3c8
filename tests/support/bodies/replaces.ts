/** Takes a timer away from everybody, and reports as often as it can. */
import { defineJob } from "dandori";

const setTimer = globalThis.setTimeout;

export default defineJob({
  async run({ progress }) {
    globalThis.setTimeout = (() => {
      throw new Error("nobody is to call this");
    }) as never;
    await progress(0.1);
    await progress(0.5);
    await new Promise<void>((resolve) => setTimer(resolve, 60));
    await progress(0.9);
  },
});
