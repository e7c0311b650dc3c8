/** The leader's tick over real stores, with workers that answer what the test says. */
import { type FactName, hear } from "../../src/platform/facts.ts";
import { Wakeup } from "../../src/platform/timers.ts";
import type { Peers, WatchListener } from "../../src/rpc/peers.ts";
import type { StartJobsRequest, StartResultCode } from "../../src/rpc/messages.ts";
import type { RedisConnection } from "../../src/redis/connection.ts";
import { Wakeups } from "../../src/leader/wakeups.ts";
import { WorkerMonitor } from "../../src/leader/worker_monitor.ts";
import { tick } from "../../src/leader/leader.ts";
import type { LeaderContext } from "../../src/leader/leader_context.ts";
import { Contact } from "../../src/leader/recovery.ts";
import type { PendingWork } from "../../src/dispatch/pending_work.ts";
import { refuseCode } from "../../src/runs/code_mismatch.ts";
import { DEFAULT_SETTINGS } from "../../src/settings/settings.ts";
import { aTerm } from "./factories.ts";
import { type Stores, withStores } from "./stores.ts";

type Order = StartJobsRequest["orders"][number];

export interface Scene extends Stores {
  me: LeaderContext;
  /** What workers were told to start, in that order. */
  orders: (Order & { worker_id: string })[];
  facts: { name: FactName; fact: Record<string, unknown> }[];
  /** One round of work, and what came of its orders. */
  round(pending?: Partial<PendingWork>): Promise<void>;
}

/** OTHER_CODE: the worker has other files, and undoes the assignment. */
type Said = StartResultCode | "OTHER_CODE";
export type Reply = (order: Order, worker_id: string) => Said | Promise<Said>;

export const IDLE: PendingWork = {
  checks: false,
  slots: false,
  events: false,
  followers: false,
  bulks: false,
  arrivals: false,
  ready: false,
  late: false,
  asleep: false,
  lines: false,
  moves: false,
  cancels: false,
  deadlines: false,
  stuck: false,
  lost: false,
  degraded: false,
  next_due_ms: undefined,
};

export function withLeader(reply: Reply, test: (scene: Scene) => Promise<void>): Promise<void> {
  return withStores(async (stores) => {
    const { sql } = stores;
    const term = await aTerm(sql);
    const orders: Scene["orders"] = [];
    const facts: Scene["facts"] = [];
    const silence = hear((name, fact) => facts.push({ name, fact }));
    let under_way: Promise<Said[]>[] = [];
    const peers = {
      retain() {},
      to: ({ worker_id }: { worker_id: string }) => ({
        watch: (_: unknown, listener: WatchListener) => {
          listener.onStatus({ draining: false, detached: false, released: 0, code_times: [] } as never);
          return () => {};
        },
        startJobs: (request: StartJobsRequest) => {
          const answer = Promise.all(request.orders.map(async (order) => {
            orders.push({ ...order, worker_id });
            const said = await reply(order, worker_id);
            const { job_run_id, attempt, digest } = order;
            const refusal = { job_run_id, attempt, digest, token: "", found: OTHER_CODE, problem: null };
            if (said === "OTHER_CODE") await refuseCode(sql, worker_id, [refusal]);
            return said;
          }));
          under_way.push(answer);
          return answer.then((all) => ({
            ok: true,
            value: { results: all.map(resultOf) },
          }));
        },
      }),
    } as unknown as Peers;
    const wakeup = new Wakeup();
    const me: LeaderContext = {
      sql,
      redis: { script: () => Promise.reject(new Error("away")) } as unknown as RedisConnection,
      peers,
      monitor: new WorkerMonitor({ peers, wakeup, epoch: term.epoch }),
      wakeup,
      calls: new Wakeups(),
      node_id: "here",
      checking: new Set(),
      term,
      settings: DEFAULT_SETTINGS,
    };
    const contact = new Contact();
    const round = async (pending: Partial<PendingWork> = {}) => {
      await tick(me, { ...IDLE, ready: true, ...pending }, contact);
      await wakeup.rest(0); // what rang until here is done
      const results = (await Promise.all(under_way)).flat();
      under_way = [];
      if (results.some((result) => result !== "ACCEPTED")) await wakeup.rest(10_000); // rung when all is taken back
    };
    try {
      await test({ ...stores, me, orders, facts, round });
    } finally {
      silence();
    }
  });
}

/** What such a worker has. */
export const OTHER_CODE = "e17994f0";

function resultOf(said: Said) {
  if (said !== "OTHER_CODE") return { result: said, message: "", other_code: null };
  return { result: "REJECTED_INVALID", message: "", other_code: { digest: OTHER_CODE } };
}
