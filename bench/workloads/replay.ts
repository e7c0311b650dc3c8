/** How a long run goes on after a wait: once the 10,000 rows of its journal were replayed. */
import { rest } from "../../src/platform/timers.ts";
import { type Project, withProject } from "../project.ts";
import { figures, median, type Workload } from "../workload.ts";

/** In groups of 100 at once, so that they are there soon; its result says what the replay took by the body's clock. */
const REPLAYED = (rows: number) =>
  `import { defineJob } from "dandori";
import { z } from "zod";
const now = () => performance.timeOrigin + performance.now();
export default defineJob({
  isolation: { reuse: 10000 },
  messages: { go: z.object({}) },
  async run({ step, waitFor }) {
    const began_ms = now();
    for (let made = 0; made < ${rows}; made += 100) {
      await Promise.all(Array.from({ length: 100 }, (_, place) => step("one " + (made + place), () => place)));
    }
    await waitFor("go");
    const ended_ms = now();
    return { began_ms, ended_ms };
  },
});
`;

export const replay: Workload = {
  name: "replay",
  about: "from a message to the end of the replay of 10,000 rows, and the replay itself by the body's clock",
  async run(bench) {
    const rows = bench.runs ?? (bench.quick ? 2_000 : 10_000);
    const tries = bench.quick ? 1 : 3;
    bench.say(`replay: ${rows} rows, ${tries} times`);
    return await withProject(bench, { jobs: { replayed: REPLAYED(rows) } }, async (project) => {
      const took: { replay: number; resume: number }[] = [];
      for (let done = 0; done < tries; done++) took.push(await replayOnce(project));
      return figures({ workload: "replay", who: "dandori", how: `${rows} rows`, n: tries }, {
        replay: [median(took.map(({ replay }) => replay)), "ms"],
        resume: [median(took.map(({ resume }) => resume)), "ms"],
      });
    });
  },
};

async function replayOnce(project: Project): Promise<{ replay: number; resume: number }> {
  const { id } = await project.client.enqueue("replayed", {});
  await project.until(id, "SUSPENDED");
  await rest(500); // idle again
  const sent_ms = performance.timeOrigin + performance.now();
  await project.client.send(id, "go", {});
  const { result } = await project.until(id, "SUCCEEDED");
  const { began_ms, ended_ms } = result as { began_ms: number; ended_ms: number };
  return { replay: ended_ms - began_ms, resume: ended_ms - sent_ms };
}
