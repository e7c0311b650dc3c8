/** What the machine gives: `deno run` of an empty script, again and again, one after another and two at once for each core. */
import { cpuOf } from "../processes.ts";
import { type Figure, figures, type Workload } from "../workload.ts";

const LOOPS = { "two for each core": 2 * navigator.hardwareConcurrency, "one after another": 1 };

export const bareDeno: Workload = {
  name: "bare-deno",
  about: "processes per second of a loop of bare `deno run` of an empty script",
  async run(bench) {
    const runs = bench.runs ?? (bench.quick ? 60 : 300);
    const script = Deno.makeTempFileSync({ suffix: ".ts" });
    const found: Figure[] = [];
    try {
      for (const [how, at_once] of Object.entries(LOOPS)) {
        bench.say(`bare-deno: ${runs} processes, ${how}`);
        await loop(script, at_once * 2, at_once);
        const [cpu_before = 0] = cpuOf([Deno.pid]);
        const began = performance.now();
        await loop(script, runs, at_once);
        const seconds = (performance.now() - began) / 1000;
        const [cpu_after = 0] = cpuOf([Deno.pid]);
        found.push(...figures({ workload: "bare-deno", who: "machine", how, n: runs }, {
          rate: [runs / seconds, "runs/s"],
          "cpu all": [(cpu_after - cpu_before) * 1_000 / runs, "s/1000"],
        }));
      }
      return found;
    } finally {
      Deno.removeSync(script);
    }
  },
};

async function loop(script: string, runs: number, at_once: number): Promise<void> {
  let left = runs;
  await Promise.all(Array.from({ length: at_once }, async () => {
    while (left-- > 0) {
      const { success } = await new Deno.Command(Deno.execPath(), { args: ["run", script] }).output();
      if (!success) throw new Error("deno run has failed");
    }
  }));
}
