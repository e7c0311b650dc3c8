/** A workflow of the acts that its args name: each may be cut off anywhere, and is gone through again. */
import { defineJob, Fatal, type StepTools } from "dandori";
import { z } from "zod";
import { permissions, rest, Traces } from "./_steps.ts";

export type Act =
  | "step"
  | "shaky"
  | "hopeless"
  | "once"
  | "nap"
  | "sleep"
  | "message"
  | "race"
  | "both"
  | "call"
  | "many"
  | "start"
  | "undo"
  | "fail"
  | "crash";

export default defineJob<{ acts: Act[] }, { acts: Act[] }, unknown, { go: unknown }>({
  timeoutSeconds: 60,
  retry: { max: 2, backoffSeconds: 0.2, jitter: 0 },
  permissions: { ...permissions, call: ["leaf"] },
  messages: { go: z.unknown() },
  async run({ args, step, sleep, waitFor, call, callMany, start, jobRunId, fence, attempt }) {
    const traces = new Traces({ jobRunId, fence });
    const seen: Record<string, number> = {};
    const nth = (base: string) => (seen[base] = (seen[base] ?? 0) + 1) === 1 ? base : `${base}#${seen[base]}`;
    const did = (
      name: string,
      options: Record<string, unknown> = {},
      fails: (tries: number) => boolean = () => false,
    ) => {
      const about = options.once ? { once: true } : {};
      return traces.told(
        `step:${name}`,
        step(name, ({ tries }) =>
          traces.body(`step:${name}`, { tries, ...about }, async () => {
            await rest(20 + 150 * Math.random());
            if (fails(tries)) throw new Error("as it was told");
            return { of: crypto.randomUUID() };
          }), { retry: { max: 3, backoffSeconds: 0.1, jitter: 0 }, ...options }),
      );
    };
    const acts: Record<Act, (n: number) => Promise<unknown>> = {
      step: (n) => did(`s${n}`),
      shaky: (n) => did(`s${n}`, {}, (tries) => tries < 3),
      hopeless: (n) => did(`s${n}`, { retry: 1 }, () => true).catch(passing("StepFailed")),
      once: (n) => did(`s${n}`, { once: true, retry: 0 }).catch(passing("StepFailed")),
      nap: (n) => traces.told(`sleep:s${n}`, sleep(0.3, `s${n}`)),
      sleep: (n) => traces.told(`sleep:s${n}`, sleep(5.5, `s${n}`)),
      message: () => traces.told(nth("message:go"), waitFor("go", { timeout: "40 s" })),
      race: (n) =>
        Promise.race([
          traces.told(nth("message:go"), waitFor("go", { timeout: "6 s" })),
          traces.told(`sleep:r${n}`, sleep(5.2, `r${n}`)),
        ]),
      both: (n) => Promise.all([did(`a${n}`), did(`b${n}`), traces.told(`sleep:s${n}`, sleep(0.2, `s${n}`))]),
      call: (n) =>
        traces.told(nth("call:leaf"), call("leaf", { hold_ms: 300, n, fails: n % 5 === 4 })).catch(
          passing("ChildFailed"),
        ),
      many: (n) =>
        traces.told(
          nth("bulk:leaf"),
          callMany("leaf", [{ n }, { n: n + 1 }, { n, fails: true }], { parallel: 2 }),
          ({ succeeded, failed }) => [succeeded, failed],
        ),
      start: (n) => traces.told(nth("start:leaf"), start("leaf", { n })),
      undo: (n) =>
        did(`s${n}`, {
          undo: (_: unknown, { tries }: StepTools) => traces.body(`undo:s${n}`, { tries }, () => rest(30)),
        }),
      fail: () => Promise.reject(new Fatal("as it was told")),
      crash: () => attempt === 1 ? Promise.reject(new Error("the first time")) : Promise.resolve(),
    };
    for (const [n, act] of args.acts.entries()) await acts[act](n);
    return args.acts.length;
  },
});

/** Expected, and recorded as any other answer. */
function passing(name: string) {
  return (error: Error) => {
    if (error.name !== name) throw error;
  };
}
