/**
 * What tests of workflows import, under the name `dandori/testing`: a run in the test's own process, with time that passes when the
 * test says so, and without Postgres, Redis or a worker.
 *
 * ```ts ignore
 * import { testRun } from "dandori/testing";
 * import onboarding from "./jobs/onboarding.ts";
 *
 * const t = await testRun(onboarding, { args: { mail: "a@b.c" }, steps: { "make account": () => ({ id: 7 }), "*": () => null } });
 * assert.deepEqual(t.waits, [{ kind: "message", name: "confirmed", until: "+3 d" }]);
 * await t.send("confirmed", { at: "2026-12-01" });
 * assert.deepEqual(await t.end, { account: 7, confirmed: true });
 * await t.crashEverywhere();
 * ```
 *
 * It replays with the engine that a worker's bodies have: each time that the run has waited, `run` is called again from its top.
 * @module
 */
import type { ArgsOf, Json, ResultOf, StepTools } from "./job.ts";
import { type TestableJob, TestedRun } from "./testing/tested_run.ts";

/** Whatever `defineJob` gives. */
export interface AnyJob {
  readonly name: string | undefined;
  readonly options: object;
}

/** What a test says of a run. */
export interface TestOptions<J> {
  /** Default: `{}`. They are not checked by the job's schema. */
  args?: ArgsOf<J>;
  /** What is done in place of the work of steps, by their names; `"*"`: of all others. What is not named here is done. */
  steps?: Record<string, (tools: StepTools) => unknown>;
  /** What is done in place of runs of other jobs, by their names. What is not named here is waited for. */
  calls?: Record<string, (args: never) => unknown>;
  /** When the clock of the test begins. Default: 2026-01-01T00:00:00Z. */
  startsAt?: Date | string;
  /** Default: 1. */
  attempt?: number;
}

/** What the run waits for. */
export interface OpenWaitOfTest {
  kind: "sleep" | "message" | "event" | "call" | "bulk" | "retry";
  /** Of the message, the job, or the step that is tried again; a sleep's may be empty. */
  name: string;
  /** From now on, such as "+3 d"; missing: no limit. */
  until?: string;
}

/** One row of the run. */
export interface StepOfTest {
  key: string;
  kind: string;
  state: string;
  tries: number;
  result: Json;
  /** `Name: message` */
  error?: string;
}

/** A run under test. */
export interface TestRun<J> {
  /** `"SUSPENDED"` while it waits. */
  readonly state: "SUSPENDED" | "SUCCEEDED" | "FAILED" | "CANCELED";
  readonly waits: OpenWaitOfTest[];
  /** All that it has recorded, in order of the first write. */
  readonly steps: StepOfTest[];
  /** What it has logged, `"level: message"`. */
  readonly log: string[];
  /** By the clock of the test. */
  readonly now: Date;
  /** Of a run that has gone on in a new one (`again`): that one's args. */
  readonly again: Json | undefined;
  /**
   * The result, or what the run has failed with. The clock jumps to whatever the run waits for.
   *
   * @throws Error when it waits for what only the test can bring
   */
  readonly end: Promise<ResultOf<J>>;
  /** Lets time pass: sleeps and limits in it come to their ends one after another. */
  advance(duration: number | string): Promise<void>;
  /** Sends a message. Its payload is checked by the job's schema. */
  send(name: string, payload?: unknown, options?: { sentBy?: string }): Promise<void>;
  /** An event, for all that wait for it now or later. */
  emit(type: string, payload?: unknown): Promise<void>;
  /** From now on this is done in place of runs of a job; without it the job given is run, with the same mocks. */
  calls(job: AnyJob | string, work?: (args: never) => unknown): Promise<void>;
  /** As an operator does: what it has done is undone, where it says how. */
  cancel(): Promise<void>;
  /**
   * Runs it again from each row on that it has written, as if its worker had died there.
   *
   * @throws Error when it requests anything else, does a step again, or ends otherwise
   */
  crashEverywhere(): Promise<void>;
}

/** Starts a run of a job, and lets it go on until it has ended or waits. */
export async function testRun<J extends AnyJob>(
  job: J,
  options: TestOptions<J> = {},
): Promise<TestRun<J>> {
  const run = new TestedRun(job as unknown as TestableJob, options as TestOptions<unknown>);
  await run.goOn();
  return run as unknown as TestRun<J>;
}
