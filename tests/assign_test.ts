/** Who gets what: the choice is a pure function of what is waiting and who has room. */
import assert from "node:assert/strict";
import { choose, codeNobodyHas, type Place, placesFor } from "../src/roles/leader/assign.ts";
import type { WorkerRow } from "../src/store/nodes.ts";
import type { Candidate } from "../src/store/waiting.ts";

const worker = (worker_id: string, more: Partial<WorkerRow> = {}): WorkerRow => ({
  worker_id,
  node_id: "n1",
  state: "ACTIVE",
  grpc_host: "127.0.0.1",
  grpc_port: 1,
  tls_fingerprint: "",
  slots: 2,
  load: 0,
  ...more,
});
const run = (job_run_id: number, more: Partial<Candidate> = {}): Candidate => ({
  job_run_id,
  version: 0,
  node: null,
  serial_key: null,
  digest: "d",
  worn_out: false,
  ...more,
});
const place = (worker_id: string, more: Partial<Place> = {}): Place => ({
  worker_id,
  node_id: "n1",
  free: 2,
  load: 0,
  ...more,
});
const names = (places: { worker_id: string }[]) => places.map((one) => one.worker_id);
const always = () => true;

Deno.test("the leader works only when it is alone, unless the setting says otherwise", () => {
  const crew = [worker("leader"), worker("other")];
  const rule = { leader_worker_id: "leader", fit: always };
  assert.deepEqual(names(placesFor(crew, { ...rule, leader_runs_jobs: "alone" })), ["other"]);
  assert.deepEqual(names(placesFor([worker("leader")], { ...rule, leader_runs_jobs: "alone" })), ["leader"]);
  assert.deepEqual(names(placesFor([worker("leader")], { ...rule, leader_runs_jobs: "never" })), []);
  assert.deepEqual(names(placesFor(crew, { ...rule, leader_runs_jobs: "always" })), ["leader", "other"]);
  const full = [worker("leader"), worker("other", { load: 2 })];
  assert.deepEqual(names(placesFor(full, { ...rule, leader_runs_jobs: "alone" })), [], "a full crew is not absent");
  const draining = [worker("leader"), worker("other", { state: "DRAINING" })];
  assert.deepEqual(names(placesFor(draining, { ...rule, leader_runs_jobs: "alone" })), ["leader"]);
});

Deno.test("a worker that is not fit, draining or full is no place", () => {
  const crew = [worker("a"), worker("b", { state: "DRAINING" }), worker("c", { load: 2 }), worker("d", { load: 1 })];
  const places = placesFor(crew, { leader_worker_id: "x", leader_runs_jobs: "alone", fit: (id) => id !== "a" });
  assert.deepEqual(places, [{ worker_id: "d", node_id: "n1", load: 1, free: 1 }]);
});

Deno.test("each run goes to the least loaded, in the order of the runs, until all is full", () => {
  const places = [place("a", { load: 1, free: 1 }), place("b")];
  const chosen = choose([run(1), run(2), run(3), run(4)], places, always);
  assert.deepEqual(chosen.map((one) => [one.job_run_id, one.worker_id]), [[1, "b"], [2, "a"], [3, "b"]]);
});

Deno.test("a run pinned to a node goes there or waits, and is in nobody's way", () => {
  const places = [place("a"), place("b", { node_id: "n2" })];
  const chosen = choose([run(1, { node: "n3" }), run(2, { node: "n2" }), run(3)], places, always);
  assert.deepEqual(chosen.map((one) => [one.job_run_id, one.worker_id]), [[2, "b"], [3, "a"]]);
});

Deno.test("one run of a serial key at a time", () => {
  const chosen = choose([run(1, { serial_key: "k" }), run(2, { serial_key: "k" }), run(3)], [place("a")], always);
  assert.deepEqual(chosen.map((one) => one.job_run_id), [1, 3]);
});

Deno.test("a worker with other code is passed over for that digest only", () => {
  const places = [place("old"), place("new", { load: 1 })];
  const fit = (worker_id: string, digest: string) => worker_id === "new" || digest !== "fresh";
  const chosen = choose([run(1, { digest: "fresh" }), run(2)], places, fit);
  assert.deepEqual(chosen.map((one) => one.worker_id), ["new", "old"]);
});

Deno.test("code that all of a node's workers refused is told for the node, and for all when nobody has it", () => {
  const refused: Record<string, string[]> = { a: ["x", "y"], b: ["x"], c: ["x", "y"] };
  const crew = { refusedDigests: (worker_id: string) => refused[worker_id] ?? [] };
  const places = [place("a"), place("b"), place("c", { node_id: "n2" })];
  assert.deepEqual(codeNobodyHas(places, crew), [
    { node: "n1", digest: "x" },
    { node: "n2", digest: "x" },
    { node: "n2", digest: "y" },
    { node: null, digest: "x" },
  ]);
  assert.deepEqual(codeNobodyHas([place("a"), place("d")], crew), [], "one that has not refused may have it");
});
