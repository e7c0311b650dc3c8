/** What an outcome means for its run: the retry rules as a table. */
import assert from "node:assert/strict";
import { endingOf, storableText } from "../../src/runs/retry_policy.ts";
import type { StartedRun } from "../../src/runs/started_runs.ts";

const run: StartedRun = {
  job_run_id: 1,
  attempt: 1,
  start_token: "t",
  fence: 1,
  leader_epoch: 1,
  failures: 0,
  scheduled_for: new Date(0),
  due_in_ms: 0,
  args_json: {},
  job_name: "a",
  command_name: "a.ts",
  digest: "d",
  timeout_seconds: 1,
  kill_grace_seconds: 1,
  memory_mb: 64,
  isolation_reuse: 0,
  permissions: {},
  max_retries: 3,
  retry_backoff_seconds: 10,
  retry_factor: 2,
  retry_jitter: 0.5,
  retry_on: { ConnectError: { max: 7, backoffSeconds: 1 } },
  messages: [],
  on_change: "continue",
  suspensions: 0,
  started_unix_ms: 0,
  ending: null,
  may_have_journal: false,
};

const failed = { kind: "FAILED", error_summary: "no", exit_code: 1 } as const;

Deno.test("a failure waits longer each time, within its jitter", () => {
  const wait = (failures: number, luck: number) =>
    endingOf({ ...run, failures }, { ...failed, error_name: "Error", retry: "policy" }, luck).retry_after_ms;
  assert.equal(wait(0, 0.5), 10_000);
  assert.equal(wait(1, 0.5), 20_000);
  assert.equal(wait(2, 0.5), 40_000);
  assert.equal(wait(0, 0), 5_000);
  assert.equal(wait(0, 1), 15_000);
  assert.equal(wait(1_000, 0.5), 7 * 86_400_000, "no wait beyond a week");
  const at_once = { ...run, retry_backoff_seconds: 0, failures: 2_000 };
  const again = endingOf(at_once, { ...failed, error_name: "Error", retry: "policy" }, 0.5);
  assert.equal(again.retry_after_ms, 0, "and none where none is wanted, however often it has failed");
});

Deno.test("the error's name chooses its policy, and no name reaches into the prototype", () => {
  const of = (error_name: string) => endingOf(run, { ...failed, error_name, retry: "policy" }, 0.5);
  assert.deepEqual([of("ConnectError").retry_max, of("ConnectError").retry_after_ms], [7, 1_000]);
  assert.equal(of("Other").retry_max, 3);
  assert.equal(of("constructor").retry_max, 3);
});

Deno.test("each kind of error has its tries, its wait, and its place", () => {
  const by_kind = {
    ConnectError: { max: 3, backoffSeconds: 30 },
    SolverError: { max: 1, backoffSeconds: 60, otherNode: true },
    TransferError: { max: 2, backoffSeconds: 15 },
    SystemError: { max: 0 },
  };
  const of = (error_name: string) => {
    const ending = endingOf({ ...run, retry_on: by_kind }, { ...failed, error_name, retry: "policy" }, 0.5);
    return [ending.retry_max, ending.retry_after_ms / 1000, ending.other_node];
  };
  assert.deepEqual(of("ConnectError"), [3, 30, false]);
  assert.deepEqual(of("SolverError"), [1, 60, true]);
  assert.deepEqual(of("TransferError"), [2, 15, false]);
  assert.equal(of("SystemError")[0], 0);
});

Deno.test("Fatal is never retried, RetryAfter when it says and within the budget", () => {
  assert.equal(endingOf(run, { ...failed, error_name: "Fatal", retry: "never" }, 0.5).retry_max, 0);
  const later = endingOf(run, { ...failed, error_name: "RetryAfter", retry: { after_seconds: 2 } }, 0.5);
  assert.deepEqual([later.retry_max, later.retry_after_ms], [3, 2_000]);
});

Deno.test("a timeout is retried by the policy, a success and a cancel are not", () => {
  assert.equal(endingOf(run, { kind: "TIMED_OUT", error_summary: "late", exit_code: null }, 0.5).retry_max, 3);
  assert.equal(endingOf(run, { kind: "CANCELED", error_summary: "asked", exit_code: null }, 0.5).retry_max, 0);
  assert.equal(endingOf(run, { kind: "SUCCEEDED", result: 1, exit_code: 0 }, 0.5).retry_max, 0);
});

Deno.test("a result that Postgres cannot hold is a failure with a reason, not a broken statement", () => {
  const of = (result: string) => endingOf(run, { kind: "SUCCEEDED", result, exit_code: 0 }, 0.5);
  assert.equal(of("a\0b").error_name, "InvalidResult");
  assert.equal(of("\ud800").error_name, "InvalidResult");
  assert.equal(of("the text \\u0000, not the character").outcome, "SUCCEEDED");
  assert.equal(of("😀").outcome, "SUCCEEDED");
  assert.equal(storableText("a\0b\ud800"), "a\uFFFDb\uFFFD");
});
