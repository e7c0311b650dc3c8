/**
 * What wakes a run comes in the same moment in which it is suspended, by connections of their own: whoever is first, the run is told.
 * `DANDORI_RACES=10000` for as many rounds as anybody has the time for.
 */
import assert from "node:assert/strict";
import { connectDb, type Sql } from "../../../src/postgres/connection.ts";
import type { Term } from "../../../src/nodes/leadership.ts";
import { findArrivals } from "../../../src/steps/arrivals.ts";
import { createChildren } from "../../../src/steps/child_runs.ts";
import { sendMessage } from "../../../src/steps/run_messages.ts";
import { suspendRuns } from "../../../src/steps/suspend_runs.ts";
import { applyWakeChecks } from "../../../src/steps/wakes.ts";
import { aDefinition, aTerm } from "../../support/factories.ts";
import { anOwnedRun, aWrite, write } from "../../support/step_rows.ts";
import { withStores } from "../../support/stores.ts";

const WORKER = "w-of-nobody";
const ROUNDS = Number(Deno.env.get("DANDORI_RACES") ?? 300);
/** Of one test: so many are done within its time on a busy machine too. */
const ROUNDS_OF_TEST = 500;
const AT_ONCE = 8;

interface Race {
  /** The worker's, the one by which something comes, and the leader's. */
  connections: [Sql, Sql, Sql];
  term: Term;
  definition: number;
}

type Order = "the suspension saw nothing and was woken" | "the suspension was refused" | "the look saw it";

for (let from = 0; from < ROUNDS; from += ROUNDS_OF_TEST) {
  const [rounds, until] = [Math.min(ROUNDS_OF_TEST, ROUNDS - from), Math.min(from + ROUNDS_OF_TEST, ROUNDS)];
  Deno.test(`a child ends, or a message comes, while its run is suspended, times ${from + 1} to ${until}: no wake is lost`, () =>
    race(rounds));
}

function race(rounds: number): Promise<void> {
  return withStores(async ({ sql, database_url }) => {
    const { id: definition } = await aDefinition(sql, { permissions: { call: true }, messages: { go: {} } });
    await aDefinition(sql, { name: "child" });
    const term = await aTerm(sql);
    const connections = ["worker", "world", "leader"].map((name) =>
      connectDb(database_url, { name, max: name === "leader" ? 1 : AT_ONCE }) // there is one leader, which does one thing at a time
    );
    const counts = new Map<Order, number>();
    let left = rounds;
    const racer = async () => {
      while (left-- > 0) {
        const scene: Race = { connections: connections as [Sql, Sql, Sql], term, definition };
        const order = await (left % 2 === 0 ? ofChild(scene) : ofMessage(scene));
        counts.set(order, (counts.get(order) ?? 0) + 1);
      }
    };
    try {
      await Promise.all(Array.from({ length: AT_ONCE }, racer));
      assert.equal([...counts.values()].reduce((sum, count) => sum + count), rounds);
      console.log(JSON.stringify(Object.fromEntries(counts)));
      if (rounds >= 100) assert(counts.size >= 2, `Only one order was seen: ${[...counts.keys()]}`);
    } finally {
      await Promise.all(connections.map((one) => one.end()));
    }
  });
}

async function ofMessage(scene: Race): Promise<Order> {
  const [worker, world] = scene.connections;
  const run = await anOwnedRun(worker, { job_definition_id: scene.definition });
  await write(worker, aWrite(run, "message:go", { waits_for: "go" }));
  return await raced(scene, run, async () => {
    assert("id" in await sendMessage(world, { job_run_id: run.id, name: "go", payload: 1, sent_by: "somebody" }));
  });
}

async function ofChild(scene: Race): Promise<Order> {
  const [worker, world] = scene.connections;
  const run = await anOwnedRun(worker, { job_definition_id: scene.definition });
  const { job_run_id, attempt, start_token } = run;
  const wish = { job_run_id, attempt, start_token, key: "call:child", job_name: "child", args: {}, is_awaited: true };
  const [child] = await createChildren(worker, WORKER, [wish]);
  assert(child && "child_run_id" in child, JSON.stringify(child));
  await write(worker, aWrite(run, "call:child", { child_run_id: child.child_run_id }));
  return await raced(scene, run, async () => {
    await world`
      update job_run set state = 'CANCELED', finished_at = clock_timestamp(), version = version + 1 where id = ${child.child_run_id}`;
  });
}

/** The look and the suspension of the worker, the arrival, and the leader's tick, all under way at once; then one more tick. */
async function raced(
  { connections: [worker, , leader], term }: Race,
  run: Awaited<ReturnType<typeof anOwnedRun>>,
  comes: () => Promise<void>,
): Promise<Order> {
  const { job_run_id, attempt, start_token } = run;
  let order: Order | undefined;
  const suspends = async () => {
    const [look] = await findArrivals(worker, [job_run_id]);
    assert(look);
    if (look.arrivals.length > 0) return order = "the look saw it";
    const one = { job_run_id, attempt, start_token, wakes: look.wakes, wakes_in_ms: null };
    const done = await suspendRuns(worker, WORKER, [one]);
    order = done.length > 0 ? "the suspension saw nothing and was woken" : "the suspension was refused";
  };
  await Promise.all([suspends(), comes(), applyWakeChecks(leader, term, { skip_locked: true })]);
  for (let more = true; more;) ({ more } = await applyWakeChecks(leader, term));
  const [row] = await leader`
    select state, held, exists (select from wake_check where job_run_id = r.id) as checked from job_run r where id = ${job_run_id}`;
  const [look] = await findArrivals(leader, [job_run_id]);
  assert.equal(look?.arrivals.length, 1, "what came is not there");
  assert.equal(row?.checked, false, "a check is left");
  if (order === "the suspension saw nothing and was woken") {
    assert.deepEqual([row?.state, row?.held], ["SUSPENDED", false]);
  } else assert.equal(row?.state, "RUNNING");
  return order as Order;
}
