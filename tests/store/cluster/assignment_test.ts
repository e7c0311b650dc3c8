/** Who gets what: the choice is a pure function of what is waiting and who has room. */
import assert from "node:assert/strict";
import { placesFor } from "../../../src/leader/assignment.ts";
import { chooseAhead, inOrder, sharesOf } from "../../../src/leader/scheduling.ts";
import { type Admission, admissionsOf, rateWait, startsLeft } from "../../../src/leader/admission.ts";
import {
  CapacitySnapshot,
  hostsOf,
  type NodeCapacity,
  type PlacementRequest,
  type PlacementTime,
  type WorkerCapacity,
} from "../../../src/leader/placement.ts";
import { isNamed, type NodeRow } from "../../../src/nodes/workers.ts";
import { readDispatchSnapshot, type RunQueue } from "../../../src/dispatch/dispatch_queues.ts";
import { aRun, aWorker } from "../../support/factories.ts";
import { capacity, chosen, node, queue, run, worker } from "../../support/hall_scene.ts";
import { withStores } from "../../support/stores.ts";
import { Chance } from "../../chaos/stress/chance.ts";
import { waitLine } from "../../../src/locale/wait_text.ts";
import { ENGLISH } from "../../../src/locale/english.ts";

const reasonOf = (one: RunQueue, place: CapacitySnapshot) => {
  const [admission] = admissionsOf([one], place) as [Admission];
  return "reason" in admission ? waitLine(ENGLISH, admission.reason) : `open for ${admission.room}`;
};
const names = ({ places }: { places: { worker_id: string }[] }) => places.map((one) => one.worker_id);
const always = () => true;

Deno.test("the leader works only when it is alone, unless the setting says otherwise", () => {
  const monitor = [worker("leader"), worker("other")];
  const rule = { leader_worker_id: "leader", fit: always };
  assert.deepEqual(names(placesFor(monitor, { ...rule, leader_runs_jobs: "alone" })), ["other"]);
  assert.deepEqual(names(placesFor([worker("leader")], { ...rule, leader_runs_jobs: "alone" })), ["leader"]);
  assert.deepEqual(names(placesFor([worker("leader")], { ...rule, leader_runs_jobs: "never" })), []);
  assert.deepEqual(names(placesFor(monitor, { ...rule, leader_runs_jobs: "always" })), ["leader", "other"]);
  const full = [worker("leader"), worker("other", { load: 2 })];
  assert.deepEqual(
    names(placesFor(full, { ...rule, leader_runs_jobs: "alone" })),
    ["other"],
    "a full crew is not absent",
  );
  const draining = [worker("leader"), worker("other", { state: "DRAINING" })];
  assert.deepEqual(names(placesFor(draining, { ...rule, leader_runs_jobs: "alone" })), ["leader"]);
});

Deno.test("a leader is a last resort: for runs that nobody else will ever serve", () => {
  const monitor = { boss: { node_id: "n1", slots: 9 }, other: { node_id: "n2" } };
  const gpu = { nodes: [node("n1", { labels: { gpu: "a100" } }), node("n2")], leader: "boss" };
  const waiting = [1, 2, 3].map((id) => run(id));
  assert.deepEqual(
    chosen(waiting, capacity(monitor, gpu)),
    [[1, "other"], [2, "other"]],
    "whoever can do it is only full",
  );
  assert.deepEqual(chosen([run(1, { node: "n1" }), run(2)], capacity(monitor, gpu)), [[1, "boss"], [2, "other"]]);
  assert.deepEqual(
    chosen([run(1, { node: "gpu=a100" })], capacity(monitor, gpu)),
    [[1, "boss"]],
    "labels that only it has",
  );
  assert.equal(reasonOf(queue({ node: "n1" }), capacity(monitor, gpu)), "open for 9");
  assert.equal(reasonOf(queue(), capacity(monitor, gpu)), "open for 2", "its room is not the crew's");
  const avoiding = [run(1, { avoid_node: "n2" }), run(2, { avoid_node: "n1" })];
  assert.deepEqual(chosen(avoiding, capacity(monitor, gpu)), [[1, "boss"], [2, "other"]], "the other node is its own");
  const third = { ...monitor, third: { node_id: "n3", load: 2 } };
  assert.deepEqual(chosen([run(1, { avoid_node: "n2" })], capacity(third, gpu)), [], "the third node is only full");
  const mate = { ...monitor, mate: { node_id: "n1", load: 2 } };
  assert.deepEqual(chosen([run(1, { node: "n1" })], capacity(mate, gpu)), [], "its mate on the node is only full");
  const leaving = { ...monitor, mate: { node_id: "n1", state: "DRAINING" as const } };
  assert.deepEqual(chosen([run(1, { node: "n1" })], capacity(leaving, gpu)), [[1, "boss"]]);
  const full = { ...gpu, nodes: [node("n1", { max_concurrent: 0 })] };
  assert.match(reasonOf(queue({ node: "n1" }), capacity(monitor, full)), /node "n1" is full: 0 of 0/);
  const soon = capacity(monitor, gpu);
  assert.equal(soon.placeFor({ node: "n1", avoid_node: null, digest: "d" }, "ahead")?.place.worker_id, "boss");
  assert.equal(soon.placeFor({ node: "", avoid_node: null, digest: "d" }, "ahead")?.place.worker_id, "other");
});

Deno.test("a leader that must not work is no place, and who waits for its node is told so", () => {
  const workers = [worker("boss"), worker("other", { node_id: "n2" })].map((one) => ({
    ...one,
    node: node(one.node_id),
  }));
  const monitor = placesFor(workers, { leader_worker_id: "boss", leader_runs_jobs: "never", fit: always });
  const place = new CapacitySnapshot({ hosts: hostsOf(workers, monitor) });
  assert.match(reasonOf(queue({ node: "n1" }), place), /no worker on node "n1" takes work: .*leader_runs_jobs/);
  const quiet = placesFor(workers, { leader_worker_id: "boss", leader_runs_jobs: "alone", fit: (id) => id === "boss" });
  const waits = new CapacitySnapshot({ hosts: hostsOf(workers, quiet) });
  assert.match(reasonOf(queue(), waits), /no worker takes work: .*not answering/, "who does not answer now soon will");
  const alone = new CapacitySnapshot({ hosts: hostsOf(workers, monitor), lacking: () => new Map([["other", null]]) });
  assert.match(
    reasonOf(queue(), alone),
    /^no worker has version d of job \(1 has none\), but the leader has it: set leader_runs_jobs=alone, or/,
  );
});

Deno.test("a worker that is not fit or draining is no place, and one that is full has no room", () => {
  const monitor = [worker("a"), worker("b", { state: "DRAINING" }), worker("c", { load: 2 }), worker("d", { load: 1 })];
  const { places } = placesFor(monitor, { leader_worker_id: "x", leader_runs_jobs: "alone", fit: (id) => id !== "a" });
  assert.deepEqual(places.map(({ worker_id, free }) => [worker_id, free]), [["c", 0], ["d", 1]]);
});

Deno.test("each run goes to the least loaded, in the order of the runs, until all is full", () => {
  const place = capacity({ a: { load: 1 }, b: {} });
  assert.deepEqual(chosen([run(1), run(2), run(3), run(4)], place), [[1, "b"], [2, "a"], [3, "b"]]);
});

Deno.test("a run that names a node goes there or waits, and is in nobody's way", () => {
  const place = capacity({ a: {}, b: { node_id: "n2" } });
  assert.deepEqual(chosen([run(1, { node: "n3" }), run(2, { node: "n2" }), run(3)], place), [[2, "b"], [3, "a"]]);
});

Deno.test("labels name every node that has all of them", () => {
  const gpu = node("g", { labels: { gpu: "a100", zone: "tokyo" } });
  assert(isNamed("gpu=a100", gpu) && isNamed("gpu=a100,zone=tokyo", gpu) && isNamed("", gpu) && isNamed("g", gpu));
  assert(!isNamed("gpu=a100,zone=osaka", gpu) && !isNamed("toString=x", gpu) && !isNamed("n1", gpu));
  const place = capacity({ a: {}, b: { node_id: "g" } }, { nodes: [gpu] });
  assert.deepEqual(chosen([run(1, { node: "gpu=a100" }), run(2, { node: "gpu=h100" })], place), [[1, "b"]]);
});

Deno.test("one run of a serial key at a time, and of a limit key as many as are left", () => {
  const place = capacity({ a: { slots: 9 } });
  const keyed = [run(1, { serial_key: "k" }), run(2, { serial_key: "k" }), run(3)];
  assert.deepEqual(chosen(keyed, place).map(([id]) => id), [1, 3]);
  const limited = [4, 5, 6].map((id) => run(id, { limit_key: "1:t", limit_left: 2 }));
  assert.deepEqual(chosen(limited, place).map(([id]) => id), [4, 5]);
  const of_bulk = [7, 8, 9].map((id) => run(id, { bulk_id: 5, bulk_left: 2 }));
  assert.deepEqual(chosen(of_bulk, place).map(([id]) => id), [7, 8]);
});

Deno.test("a worker with other code is passed over for that digest only", () => {
  const lacking = (digest: string) => new Map(digest === "fresh" ? [["old", "e17994f0"]] : []);
  const place = capacity({ old: {}, new: { load: 1 } }, { lacking });
  const lanes = [queue({ digest: "fresh" }), queue({ job_definition_id: 2 })];
  const waiting = [run(1, { digest: "fresh" }), run(2, { job_definition_id: 2 })];
  assert.deepEqual(chosen(waiting, place, lanes), [[1, "new"], [2, "old"]]);
  const fresh = queue({ digest: "fresh" });
  const none =
    "no worker has version fresh of job (1 has e17994f); bring its files there, or sync again where the right ones are";
  assert.equal(reasonOf(fresh, capacity({ old: {} }, { lacking })), none);
  assert.equal(
    reasonOf(fresh, capacity({ old: { load: 2 } }, { lacking })),
    none,
    "that it is busy would pass by itself",
  );
  assert.match(reasonOf(fresh, capacity({ old: { node_id: "n2" }, new: {} }, { lacking })), /open for 2/);
  assert.match(
    reasonOf(queue({ digest: "fresh", node: "n2" }), capacity({ old: { node_id: "n2" }, new: {} }, { lacking })),
    /no worker on node "n2" has version fresh of job \(1 has e17994f\)/,
  );
  assert.equal(
    reasonOf(fresh, capacity({ old: {}, new: { load: 2 } }, { lacking })),
    "no free slot on the 1 worker with version fresh of job (1 has e17994f)",
  );
  assert.match(reasonOf(queue(), capacity({ old: {}, new: {} }, { lacking })), /open for 4/);
});

Deno.test("a leader does the work of which only it has the code, and no other", () => {
  const without = (...ids: string[]) => ({
    leader: "boss",
    lacking: (digest: string) => new Map(digest === "fresh" ? ids.map((id) => [id, null]) : []),
  });
  const monitor = { boss: {}, mate: {}, other: { node_id: "n2" } };
  const waiting = [run(1, { digest: "fresh" }), run(2, { job_definition_id: 2 }), run(3, { job_definition_id: 2 })];
  const lanes = [queue({ digest: "fresh" }), queue({ job_definition_id: 2 })];
  const to = (more: Parameters<typeof capacity>[1], workers: Parameters<typeof capacity>[0] = monitor) =>
    chosen(waiting, capacity(workers, more), lanes).map(([, worker_id]) => worker_id);
  assert.deepEqual(to(without("mate", "other")), ["boss", "mate", "other"]);
  assert.deepEqual(to(without("mate")), ["other", "mate", "mate"], "another one has it as well");
  const busy = { ...monitor, mate: { load: 2 }, other: { node_id: "n2", load: 2 } };
  assert.deepEqual(to(without("mate", "other"), busy), ["boss"], "its mate on the node is full, and does not have it");
  assert.deepEqual(to(without("mate"), busy), [], "who has it is only full");
  assert.deepEqual(to(without("mate", "other", "boss")), ["mate", "other"], "nobody has it");
  const soon = capacity(monitor, without("mate", "other"));
  assert.equal(soon.placeFor({ node: "", avoid_node: null, digest: "fresh" }, "ahead")?.place.worker_id, "boss");
  assert.equal(soon.placeFor({ node: "", avoid_node: "n1", digest: "fresh" }, "now")?.place.worker_id, "boss");
  assert.equal(soon.placeFor({ node: "n2", avoid_node: null, digest: "fresh" }, "now"), undefined);
  const limited = { ...without("mate", "other"), nodes: [node("n1", { max_concurrent: 0 })] };
  assert.deepEqual(to(limited), ["other", "other"], "the limit of its node holds for it too");
});

Deno.test("a node takes no more than its limit, over all its workers, and others go on", () => {
  const place = capacity({ a: {}, b: {}, c: { node_id: "n2" } }, { nodes: [node("n1", { max_concurrent: 1 })] });
  const waiting = [1, 2, 3].map((id) => run(id));
  assert.deepEqual(chosen(waiting, place).map(([id, to]) => [id, to === "c" ? "n2" : "n1"]), [[1, "n1"], [2, "n2"], [
    3,
    "n2",
  ]]);
  assert.match(
    reasonOf(queue({ node: "n1" }), capacity({ a: { load: 1 } }, { nodes: [node("n1", { max_concurrent: 1 })] })),
    /node "n1" is full: 1 of 1/,
  );
});

Deno.test("a run that must go elsewhere waits for another node while there is one, and stays when there is none", () => {
  const moved = run(1, { avoid_node: "n1" });
  assert.deepEqual(chosen([moved], capacity({ a: {}, b: { node_id: "n2", load: 1 } })), [[1, "b"]]);
  assert.deepEqual(
    chosen([moved], capacity({ a: {}, b: { node_id: "n2", load: 2 } })),
    [],
    "the other node is only full",
  );
  assert.deepEqual(chosen([moved], capacity({ a: {} })), [[1, "a"]]);
});

Deno.test("nobody waits for a node that is away: a run that wants another node stays when the other one is", () => {
  const avoiding = run(1, { avoid_node: "n1" });
  const two = (more: Partial<NodeRow>) =>
    capacity({ a: {}, b: { node_id: "n2" } }, { nodes: [node("n1"), node("n2", more)] });
  assert.deepEqual(chosen([avoiding], two({})), [[1, "b"]]);
  assert.deepEqual(chosen([avoiding], two({ status: "unavailable" })), [[1, "a"]]);
  assert.deepEqual(chosen([avoiding], two({ is_active: false })), [[1, "a"]]);
  assert.deepEqual(
    chosen([avoiding], two({ status: "unavailable", checked: false })),
    [],
    "its first check is under way",
  );
  assert.deepEqual(chosen([avoiding], two({ status: "busy" })), [], "it will have time");
});

Deno.test("a closed lane says why", () => {
  const place = capacity({ a: {} }, { resources: new Map([["license", { left: 1, capacity: 5 }]]) });
  assert.match(reasonOf(queue({ paused_by: "eve" }), place), /paused by eve; resume it/);
  const said = { paused_by: "eve", paused_reason: "disk is moved" };
  assert.match(reasonOf(queue(said), place), /paused by eve: disk is moved; resume it/);
  assert.match(reasonOf(queue({ removed: true }), place), /was removed/);
  assert.match(reasonOf(queue({ concurrency_limit: 3, running: 3 }), place), /3 of at most 3 runs of job "job"/);
  assert.match(reasonOf(queue({ resources: { license: 2 } }), place), /"license": 2 needed, 1 of 5 free/);
  assert.match(reasonOf(queue({ resources: { gpu: 1 } }), place), /resource "gpu" is not set/);
  assert.match(reasonOf(queue({ node: "n9" }), place), /no worker is alive on node "n9"; .*SCHEDULER_NODE_ID=n9/);
  assert.match(
    reasonOf(queue({ node: "gpu=1" }), place),
    /no worker is alive with labels gpu=1; .*nodes set NODE --label gpu=1$/,
  );
  assert.match(reasonOf(queue({ rate_count: 1, rate_seconds: 60, rate_wait_ms: 5 }), place), /at most 1 runs in 60 s/);
  const nodes = (more: Partial<NodeRow>) => capacity({ a: {} }, { nodes: [node("n1", more)] });
  const end = "; end that: deno task nodes set n1 --maintenance off";
  assert.equal(reasonOf(queue(), nodes({ is_active: false })), `in maintenance: n1${end}`);
  const by_ops = { is_active: false, inactive_by: "ops", inactive_reason: "new disk" };
  assert.equal(reasonOf(queue(), nodes(by_ops)), `in maintenance: n1 by ops: new disk${end}`);
  const away = { status: "unavailable", problem: "disk: 1 MB free" } as const;
  assert.equal(reasonOf(queue(), nodes(away)), "unavailable: n1 (disk: 1 MB free)");
  const fresh = { status: "unavailable", checked: false } as const;
  assert.equal(reasonOf(queue(), nodes(fresh)), "unavailable: n1 (its check has not passed yet)");
  const busy = { status: "busy", problem: "load: 9 % per core of 2" } as const;
  assert.equal(reasonOf(queue(), nodes(busy)), "busy: n1 (load: 9 % per core of 2)");
  assert.match(reasonOf(queue(), capacity({ a: { load: 2 } })), /no free slot/);
  assert.match(reasonOf(queue(), capacity({ a: { state: "DRAINING" } })), /draining/);
  assert.match(reasonOf(queue(), capacity({}, { paused: true })), /all dispatch is paused/);
  assert.equal(reasonOf(queue(), place), "open for 2");
});

Deno.test("the limit of a definition and its resources go across its lanes", () => {
  const place = capacity({ a: {}, b: { node_id: "n2" } }, {
    resources: new Map([["license", { left: 3, capacity: 3 }]]),
  });
  const lanes = ["n1", "n2"].map((name) => queue({ node: name, concurrency_limit: 2, running: 1 }));
  assert.deepEqual(chosen([run(1, { node: "n1" }), run(2, { node: "n2" })], place, lanes).map(([id]) => id), [1]);
  const costly = ["n1", "n2"].map((name) => queue({ node: name, resources: { license: 2 } }));
  assert.deepEqual(chosen([run(1, { node: "n1" }), run(2, { node: "n2" })], place, costly).map(([id]) => id), [1]);
  const exact = capacity({ a: {} }, { resources: new Map([["license", { left: 2, capacity: 3 }]]) });
  assert.deepEqual(chosen([run(1)], exact, [queue({ resources: { license: 2 } })]), [[1, "a"]], "the last of it too");
});

Deno.test("of runs that are soon due each is given a slot that no other one is to have", () => {
  const near = [1, 2, 3].map((job_run_id) => ({ job_run_id, version: 0, node: "", avoid_node: null, digest: "d" }));
  const given = chooseAhead(near, capacity({ a: { slots: 1 }, b: { slots: 1 } }));
  assert.deepEqual(given.map((one) => [one.job_run_id, one.worker_id]), [[1, "a"], [2, "b"]]);
});

Deno.test("a rate lets runs start evenly spread, and makes up for a tenth of its time or a second at most", () => {
  const rate = { rate_count: 100, rate_seconds: 1 };
  assert.equal(startsLeft({ ...rate, rate_wait_ms: 4 }), 0);
  assert.equal(startsLeft({ ...rate, rate_wait_ms: 0 }), 1);
  assert.equal(startsLeft({ ...rate, rate_wait_ms: -25 }), 3);
  assert.equal(startsLeft({ ...rate, rate_wait_ms: -1e9 }), 11);
  assert.equal(startsLeft({ rate_count: 5, rate_seconds: 1, rate_wait_ms: -1e9 }), 1, "no burst of five after a rest");
  assert.equal(startsLeft({ rate_count: 600, rate_seconds: 60, rate_wait_ms: -1e9 }), 11);
  assert.equal(rateWait({ ...rate, rate_wait_ms: 4 }, 0), 4);
  assert.equal(rateWait({ ...rate, rate_wait_ms: -3 }, 1), 7, "the next start, after this one");
  assert.equal(rateWait({ ...rate, rate_wait_ms: -1e9 }, startsLeft({ ...rate, rate_wait_ms: -1e9 })), 10);
  assert.equal(startsLeft(queue()), Infinity);
});

Deno.test("of lanes that were read in part only what certainly comes first is used", () => {
  const open = ["x", "y", "z"].map((name) => ({ queue: queue({ node: name }), room: 100 }));
  const shares = sharesOf(open, 12, capacity({}));
  assert.deepEqual(shares.map((share) => [share.most, share.cut]), [[8, true], [8, true], [8, true]]);
  const x = Array.from({ length: 8 }, (_, n) => run(n + 1, { node: "x" }));
  const mixed = [run(90, { node: "y" }), ...x, run(91, { node: "y" })];
  assert.deepEqual(inOrder(mixed, shares), { sure: mixed.slice(0, 9), more: true }, "x may hold more before 91");
  assert.deepEqual(inOrder(x.slice(0, 7), shares), { sure: x.slice(0, 7), more: false });
  const small = sharesOf([{ queue: queue(), room: 3 }], 12, capacity({}));
  assert.equal(small[0]?.cut, false, "a lane that has no more room needs no more rows");
});

Deno.test("whatever the crew, each run goes where looking through all of it would have sent it", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const chance = new Chance(seed);
    const pick = <T>(...all: T[]) => chance.pick(all);
    const nodes = ["n1", "n2", "n3"].map((name) =>
      node(name, { max_concurrent: pick(null, 2, 5), labels: { zone: pick("a", "b") } })
    );
    const workers = Object.fromEntries(
      Array.from(
        { length: 8 },
        (_, n) => [`w${n}`, { node_id: pick("n1", "n2", "n3"), load: pick(0, 0, 1, 2), ahead: pick(0, 1) }],
      ),
    );
    const others = pick(["w0", "w3"], ["w0", "w2", "w3", "w4", "w5", "w6", "w7"]);
    const lacking = (digest: string) => new Map(digest === "other" ? others.map((id) => [id, "x"]) : []);
    const leader = pick("", "w1");
    if (leader) workers[leader] = { node_id: pick("n1", "n4"), load: 0, ahead: 0 };
    const place = capacity(workers, { nodes, lacking, leader });
    for (let n = 0; n < 25; n++) {
      const request = {
        node: pick("", "n2", "zone=a", "n4"),
        avoid_node: pick(null, null, "n1"),
        digest: pick("same", "other"),
      };
      const when = pick("now", "ahead") as PlacementTime;
      const found = place.placeFor(request, when);
      assert.equal(
        found?.place.worker_id,
        byLookingThroughAll(place, request, when, { lacking, leader }),
        `seed ${seed}, run ${n}`,
      );
      if (!found) continue;
      found.host.free--;
      if (when === "ahead") found.place.ahead++;
      else found.place.free--, found.place.idle--, found.place.load++;
    }
  }
});

function byLookingThroughAll(
  place: CapacitySnapshot,
  request: PlacementRequest,
  when: PlacementTime,
  { lacking, leader }: { lacking: (digest: string) => ReadonlyMap<string, string>; leader: string },
) {
  const named = place.hosts.filter((host) => isNamed(request.node, host.node));
  const others = named.filter((host) => host.node.node_id !== request.avoid_node);
  const room = (one: WorkerCapacity) => when === "now" ? one.free > 0 : one.idle > one.ahead;
  const has = (one: WorkerCapacity) => !lacking(request.digest).has(one.worker_id);
  const servingOf = (hosts: readonly NodeCapacity[]) => {
    const staff = hosts.flatMap((host) => host.places).filter((one) => one.worker_id !== leader && has(one));
    return staff.length > 0 ? staff : hosts.flatMap((host) => host.stand_in ?? []).filter(has);
  };
  const asked = servingOf(others).length > 0 ? others : named;
  const free = new Set(asked.filter((host) => host.free > 0).map((host) => host.node.node_id));
  const able = servingOf(asked).filter((one) => free.has(one.node_id) && room(one));
  const rank = (one: WorkerCapacity) => one.load + one.ahead + (one.idle > 0 ? 0 : 1_000);
  return able.sort((a, b) => rank(a) - rank(b))[0]?.worker_id;
}

Deno.test("what workers of a node have left behind counts for its limit until it is taken from them", () =>
  withStores(async ({ sql }) => {
    await aWorker(sql, { worker_id: "alive", node_id: "n1" });
    await aWorker(sql, { worker_id: "cut off", node_id: "n1", lease_ms: -1_000 });
    await aWorker(sql, { worker_id: "dead", node_id: "n1", lease_ms: -1_000, state: "DEAD" });
    for (const assigned_worker_id of ["cut off", "dead"]) await aRun(sql, { state: "RUNNING", assigned_worker_id });
    const room = async () => {
      const { workers } = await readDispatchSnapshot(sql);
      assert.deepEqual(workers.map(({ worker_id }) => worker_id), ["alive"]);
      const places = workers.map(({ worker_id, node_id, load, ahead }) => {
        return { worker_id, node_id, load, ahead, free: 10, idle: 10, line_ms: 0 };
      });
      return hostsOf(workers, { places, staff: [] }).map(({ load, free }) => ({ load, free }));
    };
    assert.deepEqual(await room(), [{ load: 0, free: 10 }], "a worker's slots are its own");
    await sql`update node set max_concurrent = 3`;
    assert.deepEqual(await room(), [{ load: 2, free: 1 }]);
    await sql`update job_run set state = 'ORPHANED', assigned_worker_id = null, fence = null, start_token = null, started_at = null`;
    assert.deepEqual(await room(), [{ load: 0, free: 3 }]);
  }));
