/** What the machine gives: `deno run` of an empty script, again and again, as many at once as it has cores twice. */
import { cpuOf } from "../processes.ts";
import { figures, type Workload } from "../workload.ts";

export const bareDeno: Workload = {
  name: "bare-deno",
  about: "processes per second of a loop of bare `deno run` of an empty script",
  async run(bench) {
    const runs = bench.runs ?? (bench.quick ? 60 : 300);
    const at_once = 2 * navigator.hardwareConcurrency;
    bench.say(`bare-deno: ${runs} processes, ${at_once} at once`);
    const script = Deno.makeTempFileSync({ suffix: ".ts" });
    try {
      await loop(script, at_once * 2, at_once);
      const [cpu_before = 0] = cpuOf([Deno.pid]);
      const began = performance.now();
      await loop(script, runs, at_once);
      const seconds = (performance.now() - began) / 1000;
      const [cpu_after = 0] = cpuOf([Deno.pid]);
      return figures({ workload: "bare-deno", who: "machine", how: `${at_once} at once`, n: runs }, {
        rate: [runs / seconds, "runs/s"],
        "cpu all": [(cpu_after - cpu_before) * 1_000 / runs, "s/1000"],
      });
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
