/** A job whose runs use steps in several ways, by real workers in real processes. */
import assert from "node:assert/strict";
import { sendMessage } from "../../src/steps/run_messages.ts";
import type { Cluster, ClusterOptions } from "./cluster.ts";
import { waitFor } from "./waiting.ts";

const DOUBLE = `
    import { defineJob, Fatal } from "dandori";
    export default defineJob<{ of: number }>({
      run({ args }) {
        if (args.of < 0) throw new Fatal("of nothing");
        return args.of * 2;
      },
    });`;

const FLOW = `
    import { z } from "zod";
    import { defineJob, Fatal } from "dandori";
    const folder = FOLDER;
    export default defineJob<{ kind: string; seconds?: number; steps?: number }>({
      permissions: { write: [folder], call: ["dou*"] },
      messages: { go: z.any() },
      retry: { max: 2, backoffSeconds: 0, jitter: 0 },
      async run({ args, step, sleep, waitFor, call, callMany, start, attempt, jobRunId, signal }) {
        const note = (text) => Deno.writeTextFileSync(folder + "/" + jobRunId, text + "\\n", { append: true });
        const did = (name, value = name, options = {}) => step(name, ({ tries }) => { note(name + "/" + tries); return value; }, options);
        note("run " + attempt);
        switch (args.kind) {
          case "ten": {
            const got = [];
            for (let n = 1; n <= (args.steps ?? 10); n++) got.push(await did("s" + n, n));
            return got;
          }
          case "retry":
            return await step("shaky", ({ tries }) => { note("shaky/" + tries); if (tries < 3) throw new Error("not yet"); return tries; });
          case "gives up":
            return await step("hopeless", ({ tries }) => { note("hopeless/" + tries); throw new Error("never"); }, { retry: 1 });
          case "once":
            return await step("charge", async () => { note("charge"); await new Promise((done) => setTimeout(done, 60_000)); }, { once: true });
          case "sleep":
            console.log("on its way");
            await did("before");
            await sleep(args.seconds);
            return await did("after");
          case "message": {
            await did("before");
            const said = await waitFor("go", { timeout: "1 h" });
            await did("after", said);
            return said;
          }
          case "timeout":
            return { said: await waitFor("go", { timeout: args.seconds }) ?? "nothing" };
          case "busy": { // a handle is open while it waits
            const timer = setInterval(() => note("tick"), 1_000);
            const said = await waitFor("go");
            clearInterval(timer);
            return said;
          }
          case "calls": {
            const two = await Promise.all([call("double", { of: 1 }), call("double", { of: 2 })]);
            const { id } = await start("double", { of: 3 });
            const bad = await call("double", { of: -1 }).catch((error) => error.name + ": " + error.errorName);
            const many = await callMany("double", [{ of: 5 }, { of: 6 }, { of: -1 }], { parallel: 2, maxFailures: 5 });
            const all = [];
            for await (const one of many.results()) all.push(one);
            return { two, started: id > 0, bad, many: [many.succeeded, many.failed], all };
          }
          case "calls another":
            return await call("flow", { kind: "ten" });
          case "undo": {
            const undo = (name) => (it) => note("undo " + name + " of " + it);
            await did("hotel", "h1", { undo: undo("hotel") });
            await did("flight", "f1", { undo: undo("flight") });
            if (args.seconds) await sleep(args.seconds);
            throw new Error("no seats");
          }
          case "undo fails":
            await did("hotel", "h1", { undo: () => { throw new Fatal("the hotel is gone"); } });
            throw new Fatal("no seats");
          case "diverges":
            await did(attempt === 1 ? "one" : "two");
            if (attempt === 1) throw new Error("again");
            return "never";
        }
      },
    });`;

/** Each body of a step, and each line that the run comes to, is a line of a file. */
export const FLOW_JOBS: ClusterOptions["jobs"] = (effects_dir) => ({
  "double.ts": DOUBLE,
  "flow.ts": FLOW.replace("FOLDER", JSON.stringify(effects_dir)),
});

export const ran = (steps: number) => Array.from({ length: steps }, (_, place) => `s${place + 1}/1`);

export function notes(cluster: Cluster, job_run_id: number): string[] {
  try {
    return Deno.readTextFileSync(`${cluster.effects_dir}/${job_run_id}`).trim().split("\n");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

export async function untilNoted(cluster: Cluster, job_run_id: number, text: string): Promise<void> {
  await waitFor(
    `"${text}" of run ${job_run_id}`,
    () => Promise.resolve(notes(cluster, job_run_id).includes(text) || undefined),
  );
}

export async function untilState(cluster: Cluster, job_run_id: number, state: string) {
  return await waitFor(`run ${job_run_id} to be ${state}`, async () => {
    const [row] = await cluster.sql`select *, wakes_at = 'infinity' as endless from job_run where id = ${job_run_id}`;
    return row?.state === state && row;
  });
}

export async function send({ sql }: Cluster, job_run_id: number, payload: unknown): Promise<void> {
  assert("id" in await sendMessage(sql, { job_run_id, name: "go", payload, sent_by: "test" }));
}

export async function stepsOf({ sql }: Cluster, job_run_id: number): Promise<string[]> {
  const rows =
    await sql`select key, state, seq, tries from run_step where job_run_id = ${job_run_id} order by seq nulls last, key`;
  return rows.map(({ key, state, seq, tries }) => [key, state, seq, tries].join(" "));
}
