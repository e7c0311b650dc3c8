/** Bodies that use steps, of an executor over a real Postgres: what they say and are told is the test's. */
import assert from "node:assert/strict";
import type { StepFrame } from "../../src/sandbox/frames/step_frames.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import type { ExecutorScene, FakeBody } from "./executor_scene.ts";
import { waitFor } from "./waiting.ts";

/** A body that has begun, of a run of its own. */
export async function aStepBody({ executor, bodies, assigned }: ExecutorScene): Promise<FakeBody> {
  const order = await assigned();
  assert.deepEqual(await executor.accept(order), { result: "ACCEPTED", message: "" });
  return bodies.get(order.job_run_id) as FakeBody;
}

/** A step that is done, by default; `n` is its position as well. */
export function step(n: number, columns: Partial<StepFrame> = {}): StepFrame {
  const { state = "DONE" } = columns;
  const has_seq = state === "DONE" || state === "FAILED" || state === "TIMED_OUT";
  return { kind: "step", n, key: `step:s${n}`, request: "step", state, tries: 1, ...has_seq && { seq: n }, ...columns };
}

export function waitForMessage(n: number, name = "go"): StepFrame {
  return step(n, { key: `message:${name}`, request: "message", state: "WAITING", waits_for: name });
}

/** Kinds of what it was told; `committed` with how far. */
export function toldTo({ told }: FakeBody): string[] {
  return told.map((words) => words.kind === "committed" ? `committed ${words.upto}` : words.kind);
}

export async function untilTold(body: FakeBody, what: string): Promise<void> {
  await waitFor(`the body to be told "${what}"`, () => Promise.resolve(toldTo(body).includes(what) || undefined));
}

/** Rows of a run, in the order of their keys. */
export async function rowsOf(sql: Sql, body: FakeBody): Promise<[string, string, number | null][]> {
  const rows = await sql<{ key: string; state: string; seq: number | null }[]>`
    select key, state, seq from run_step where job_run_id = ${body.order.job_run_id} order by key`;
  return rows.map(({ key, state, seq }) => [key, state, seq]);
}

/** `before` is awaited before each statement that holds these words is sent; statements that do are counted. */
export function heard(sql: Sql, words: string, before = () => Promise.resolve()): { sql: Sql; count: () => number } {
  let count = 0;
  const through = new Proxy(sql, {
    apply: (target, self, args) => {
      const query = Reflect.apply(target as unknown as () => unknown, self, args);
      const text = Array.isArray(args[0]) ? (args[0] as string[]).join("?") : "";
      if (!("raw" in Object(args[0])) || !text.includes(words)) return query;
      count++;
      return before().then(() => query);
    },
  });
  return { sql: through, count: () => count };
}
