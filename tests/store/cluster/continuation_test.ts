/** Asking whether bodies may go on, and answering it: one worker against peers that say what the test says, and real handlers. */
import assert from "node:assert/strict";
import { stored } from "../../../src/locale/message.ts";
import { type FactName, hear } from "../../../src/platform/facts.ts";
import { monotonicMs } from "../../../src/platform/timers.ts";
import type { Peers } from "../../../src/rpc/peers.ts";
import type { ConfirmContinuationResponse } from "../../../src/rpc/messages.ts";
import { answerContinuation } from "../../../src/worker/confirm.ts";
import { Continuation, type ContinuationParts } from "../../../src/worker/continuation.ts";
import { LocalWorkerState } from "../../../src/worker/worker_state.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import type { AttemptRef } from "../../../src/runs/states.ts";
import { DEFAULT_SETTINGS, type Settings } from "../../../src/settings/settings.ts";
import { at, twoNodes, withServer } from "../../support/cluster_peers.ts";
import { aRun, aWorker } from "../../support/factories.ts";
import { withStores } from "../../support/stores.ts";

const FOREVER = new AbortController().signal;
const YES: ConfirmContinuationResponse = { decision: "ALLOW_CONTINUE", message: "", lease_ms: 30_000, canceled: false };
const NO: ConfirmContinuationResponse = { decision: "MUST_ABORT", message: "not yours", lease_ms: 0, canceled: false };
const UNABLE: ConfirmContinuationResponse = { decision: "UNAVAILABLE", message: "?", lease_ms: 0, canceled: false };

type Reply = (asked: string, run: AttemptRef) => ConfirmContinuationResponse | undefined;

interface Asker {
  continuation: Continuation;
  local: LocalWorkerState;
  /** Who was asked for which run, in order. */
  asked: string[];
  /** What was done to bodies. */
  acts: string[];
}

/** A worker that is detached and holds these runs; the peers reply, or do not. */
function anAsker(runs: number[], reply: Reply, settings: Partial<Settings> = {}): Asker {
  const local = new LocalWorkerState({
    worker_id: "w1-0000000a",
    node_id: "here",
    slots: 10,
    settings: { ...DEFAULT_SETTINGS, continuation_retry_interval_seconds: 0.05, ...settings },
  });
  local.detached = true;
  local.answerers = ["leader", "sub"].map((worker_id) => ({
    ...at(1),
    worker_id,
    node_id: "n",
    tls_fingerprint: "x",
    tls_former_fingerprint: null,
  }));
  const asked: string[] = [];
  const acts: string[] = [];
  const peers = {
    to: ({ worker_id }: { worker_id: string }) => ({
      confirmContinuation: (run: AttemptRef) => {
        asked.push(`${worker_id} ${run.job_run_id}`);
        const value = reply(worker_id, run);
        return Promise.resolve(value ? { ok: true, value } : { ok: false, code: "UNAVAILABLE", message: "" });
      },
    }),
  } as unknown as ContinuationParts["peers"];
  const executor: ContinuationParts["executor"] = {
    held: runs.map((job_run_id) => ({ job_run_id, attempt: 1 })),
    cancel: (run, reason) => {
      acts.push(`cancel ${run.job_run_id}: ${reason}`);
      return "ACCEPTED";
    },
    abandon: (run, reason) => acts.push(`abandon ${run.job_run_id}: ${reason}`),
  };
  const sql = (() => Promise.resolve([])) as unknown as Sql;
  return { continuation: new Continuation({ sql, peers, executor, local }), local, asked, acts };
}

Deno.test("a yes prolongs the lease from before the question, and the next question comes when half of it is left", async () => {
  const { continuation, local, asked, acts } = anAsker([7, 8], () => YES);
  const before_ms = monotonicMs();
  const rest_ms = await continuation.look(FOREVER);
  const trusted_ms = local.may_run_until_ms - before_ms;
  assert(trusted_ms >= 25_000 && trusted_ms < 25_000 + monotonicMs() - before_ms, "lease less margin");
  assert.deepEqual([asked, acts], [["leader 7", "leader 8"], []]);
  assert(rest_ms <= 12_500);
  await continuation.look(FOREVER);
  assert.equal(asked.length, 2, "it is not time yet");
});

Deno.test("who cannot decide is passed over, for one run, as often as the settings say", async () => {
  const nobody = anAsker([7, 8, 9], (asked) => asked === "sub" ? UNABLE : undefined, { continuation_retry_count: 2 });
  await nobody.continuation.look(FOREVER);
  assert.deepEqual(nobody.asked, ["leader 7", "sub 7", "leader 7", "sub 7"]);
  assert.deepEqual([nobody.acts, nobody.local.may_run_until_ms], [[], 0]);

  const second = anAsker([7, 8, 9], (asked) => asked === "sub" ? YES : undefined);
  await second.continuation.look(FOREVER);
  assert.deepEqual(second.asked, ["leader 7", "sub 7", "sub 8", "sub 9"]);
});

Deno.test("a no ends that body and no other, gently when a cancel was asked for", async () => {
  const replies: Record<number, ConfirmContinuationResponse> = { 7: NO, 8: YES, 9: { ...NO, canceled: true } };
  const { continuation, local, acts } = anAsker([7, 8, 9], (_, run) => replies[run.job_run_id]);
  await continuation.look(FOREVER);
  assert.deepEqual(acts, ["abandon 7: not yours", `cancel 9: ${stored("reason.requested")}`]);
  assert(local.mayRun);
});

Deno.test("a worker that renews its own lease asks nobody; one whose renewal is overdue does", async () => {
  const { continuation, local, asked } = anAsker([7], () => YES);
  local.detached = false;
  local.renewed_ms = monotonicMs();
  const rest_ms = await continuation.look(FOREVER);
  assert(rest_ms > 0 && rest_ms <= 7_500);
  assert.deepEqual(asked, []);
  local.renewed_ms = monotonicMs() - 7_501;
  await continuation.look(FOREVER);
  assert.deepEqual(asked, ["leader 7"]);
});

Deno.test("leader and subleaders answer from the rows; others say that they may not, and nobody does without Postgres", async () => {
  await withStores(async ({ sql }) => {
    const { worker_id } = await aWorker(sql, { state: "DETACHED", tls_fingerprint: "mine" });
    const run = await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id });
    const settings = { ...DEFAULT_SETTINGS, worker_lease_seconds: 32.3 };
    const local = new LocalWorkerState({ worker_id: "asked", node_id: "n", slots: 1, settings });
    const request = { leader_epoch: 1, worker_id, job_run_id: run.id, attempt: 1 };
    const answer = (more = {}) =>
      answerContinuation({ sql, local }, { ...request, ...more }, { fingerprint: "mine", address: "" });
    const unable = await answer();
    assert.equal(unable.decision, "UNAVAILABLE");
    assert.match(unable.message, /asked is neither leader nor subleader/);
    for (const role of ["leader", "subleader"] as const) {
      local.role = role;
      assert.deepEqual(await answer(), { ...YES, lease_ms: 32_300 });
    }
    const old = await answer({ attempt: 3 });
    assert.equal(old.decision, "MUST_ABORT");
    assert.match(old.message, /may not go on as attempt 3 on .*: it is RUNNING, attempt 1/);
    await sql`update job_run set cancel_requested_at = now(), ending = 'CANCELED' where id = ${run.id}`;
    assert.equal((await answer()).canceled ?? false, false, "it undoes what it did");
    await sql`update job_run set ending = null where id = ${run.id}`;
    const canceled = await answer();
    assert.deepEqual([canceled.decision, canceled.canceled], ["MUST_ABORT", true]);
    local.detached = true;
    assert.equal((await answer()).decision, "UNAVAILABLE");
    local.detached = false;
    await sql.end({ timeout: 1 });
    const away = await answer();
    assert.deepEqual([away.decision, away.lease_ms], ["UNAVAILABLE", 0]);
    assert.match(away.message, /Postgres could not be asked from asked/);
  });
});

Deno.test("nobody may ask in another's name: the certificate must be that of the worker's row", async () => {
  const [server, client] = await twoNodes();
  await withStores(async ({ sql }) => {
    const mine = await aWorker(sql, { tls_fingerprint: client.fingerprint });
    const others = await aWorker(sql, { tls_fingerprint: server.fingerprint });
    const local = new LocalWorkerState({ worker_id: "asked", node_id: "n", slots: 1, settings: DEFAULT_SETTINGS });
    local.role = "leader";
    const facts: { name: FactName; fact: Record<string, unknown> }[] = [];
    const silence = hear((name, fact) => facts.push({ name, fact }));
    const handlers = {
      confirmContinuation: (
        request: Parameters<typeof answerContinuation>[1],
        caller: { fingerprint: string; address: string },
      ) => answerContinuation({ sql, local }, request, caller),
    };
    await withServer({ server, client }, async ({ port }, peers: Peers) => {
      const ask = async (worker_id: string) => {
        const run = await aRun(sql, { state: "RUNNING", assigned_worker_id: worker_id });
        return await peers.to(at(port)).confirmContinuation({
          leader_epoch: 1,
          worker_id,
          job_run_id: run.id,
          attempt: 1,
        });
      };
      const own = await ask(mine.worker_id);
      assert(own.ok);
      assert.deepEqual([own.value.decision, own.value.lease_ms, own.value.canceled], ["ALLOW_CONTINUE", 30_000, false]);
      for (const name of [others.worker_id, "w9-unknown0"]) {
        const refused = await ask(name);
        assert(!refused.ok);
        assert.deepEqual([refused.code, refused.message], [
          "PERMISSION_DENIED",
          `Only ${name} itself may ask for its runs`,
        ]);
      }
    }, handlers);
    silence();
    const refusals = facts.filter(({ name }) => name === "peer.refused").map(({ fact }) => [fact.theirs, fact.ours]);
    assert.deepEqual(refusals, [[client.fingerprint, server.fingerprint], [client.fingerprint, ""]]);
  });
});
