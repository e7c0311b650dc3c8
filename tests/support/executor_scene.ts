/** A worker's executor over a real Postgres, with bodies that end when the test says so. */
import { type FactName, hear } from "../../src/platform/facts.ts";
import type { Digests } from "../../src/sync/module_graph.ts";
import { Executor } from "../../src/worker/executor.ts";
import type { RunOrder } from "../../src/worker/inflight_run.ts";
import type { ResultJournal } from "../../src/worker/results/result_journal.ts";
import { LocalWorkerState } from "../../src/worker/worker_state.ts";
import type { ToStepBody } from "../../src/sandbox/frames/step_frames.ts";
import type {
  Body,
  BodyListener,
  BodyOrder,
  Outcome,
  ProcessPool,
  StepBody,
  StepsFrame,
} from "../../src/sandbox/process_pool.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import { DEFAULT_SETTINGS } from "../../src/settings/settings.ts";
import { aDefinition, aRun, aWorker } from "./factories.ts";
import { type Stores, withStores } from "./stores.ts";

export const ME = "w1-0000000a";

export interface ExecutorScene extends Stores {
  executor: Executor;
  local: LocalWorkerState;
  /** What was started and has not ended. */
  bodies: Map<number, FakeBody>;
  facts: { name: FactName; fact: Record<string, unknown> }[];
  /** A run that is assigned to this worker. */
  assigned(): Promise<RunOrder>;
}

export interface FakeBody {
  order: BodyOrder;
  end: (outcome: Outcome) => void;
  listener: BodyListener;
  /** About its steps, by the worker: `alert`, `suspend` and what it fails with as well. */
  told: (ToStepBody | { kind: "alert" } | { kind: "fail"; error_name: string; error_summary: string })[];
  says(frame: StepsFrame): void;
}

/** `found`: the digest of this worker's files as they are now. `through`: what the executor asks Postgres by. */
export function withExecutor(
  test: (scene: ExecutorScene) => Promise<void>,
  { found = Promise.resolve("digest"), through = (sql: Sql) => sql, journal }: {
    found?: Promise<string>;
    through?: (sql: Sql) => Sql;
    journal?: ResultJournal;
  } = {},
): Promise<void> {
  return withStores(async (stores) => {
    const { sql } = stores;
    await aWorker(sql, { worker_id: ME });
    const definition = await aDefinition(sql, { name: "job" });
    const local = new LocalWorkerState({ worker_id: ME, node_id: "here", slots: 10, settings: DEFAULT_SETTINGS });
    local.may_run_until_ms = Infinity;
    local.sawEpoch(1);
    const bodies: ExecutorScene["bodies"] = new Map();
    const facts: ExecutorScene["facts"] = [];
    const silence = hear((name, fact) => facts.push({ name, fact }));
    const executor = new Executor({
      sql: through(sql),
      sandbox: {
        start: (order: BodyOrder, listener: BodyListener) => aBody(order, listener, bodies),
      } as unknown as ProcessPool,
      digests: { of: async () => ({ digest: await found }), last: () => "digest" } as unknown as Digests,
      local,
      jobs_dir: "/jobs",
      ...journal && { journal },
    });
    const assigned = async () => {
      const run = await aRun(sql, {
        job_definition_id: definition.id,
        state: "ASSIGNED",
        assigned_worker_id: ME,
        leader_epoch: 1,
      });
      return { job_run_id: run.id, attempt: run.attempt, command_name: "job.ts", digest: "digest" };
    };
    try {
      await test({ ...stores, executor, local, bodies, facts, assigned });
    } finally {
      silence();
    }
  });
}

function aBody(order: BodyOrder, listener: BodyListener, bodies: ExecutorScene["bodies"]): Body {
  const { job_run_id } = order;
  const { promise: outcome, resolve: end } = Promise.withResolvers<Outcome>();
  const told: FakeBody["told"] = [];
  const body: StepBody = {
    ...{ pid: 1, waits: false, outcome, cancel: () => {} },
    abandon: (reason) => end({ kind: "LOST", error_summary: reason, exit_code: null }),
    tell: (words) => void told.push(words),
    alert: () => void told.push({ kind: "alert" }),
    suspend: () => {
      told.push({ kind: "suspend" });
      end({ kind: "SUSPENDED", exit_code: null });
    },
    fail: (error) => {
      told.push({ kind: "fail", ...error });
      end({ kind: "FAILED", ...error, exit_code: null, retry: "never" });
    },
  };
  bodies.set(job_run_id, { order, end, listener, told, says: (frame) => listener.onSteps(frame, body) });
  outcome.then(() => bodies.delete(job_run_id));
  return body;
}

export const ok = (exit_code: number): Outcome => ({ kind: "SUCCEEDED", result: { done: true }, exit_code });
