/**
 * Work of every kind that a leader has to do something about, and what must have become of it in the end, whoever led
 * and however often that changed.
 */
import assert from "node:assert/strict";
import type { Sql } from "../../src/postgres/connection.ts";
import { requestCancel } from "../../src/runs/requests.ts";
import type { Cluster } from "./cluster.ts";
import { aRun, aWorker } from "./factories.ts";
import { ledgerJob } from "./ledger.ts";
import { waitFor } from "./waiting.ts";

/** Runs are many, and how they end is not the point: so they need not have a process each. */
const SHARED = "isolation: { reuse: 50 },";
const EACH_SECOND = `schedule: { cron: "* * * * * *" }, ${SHARED}`;

const NOWHERE = "nowhere";

export function leaderJobs(effects_dir: string): Record<string, string> {
  return {
    "ledger.ts": ledgerJob(effects_dir, `on: "thing.happened", ${SHARED}`),
    "ticking.ts": ledgerJob(effects_dir, EACH_SECOND),
    "forbidding.ts": ledgerJob(effects_dir, `${EACH_SECOND} concurrency: "forbid",`),
    "replacing.ts": ledgerJob(effects_dir, `${EACH_SECOND} concurrency: "replace",`),
  };
}

export interface Work {
  /** Runs by what must become of them. */
  ends: { id: number; state: string; error_name?: string; attempt?: number }[];
  /** An event that one run must come of. */
  event_id: number;
  /** A worker that must be declared dead. */
  dead_worker_id: string;
  /** Runs that the test made with a history that has no rows. */
  made_up: number[];
}

/** No slot comes before there is a leader to be watched. */
export async function holdSchedules(cluster: Cluster): Promise<void> {
  await cluster.sql`update job_schedule set enabled = false`;
}

/** Gives the leader one of each. */
export async function giveWork(cluster: Cluster): Promise<Work> {
  const { sql, client } = cluster;
  const [ledger] = await sql<{ id: number }[]>`select id from job_definition where name = 'ledger'`;
  const of_ledger = { job_definition_id: ledger?.id };
  const in_an_hour = { runAt: new Date(Date.now() + 3_600_000) };
  const ghost = await aWorker(sql, { node_id: "ghosts", state: "DRAINING", lease_ms: 600_000 }); // no workers for a leader
  await sql`insert into queue_block_reason (job_definition_id, node, reason) values (${
    Number(ledger?.id)
  }, ${NOWHERE}, '{"code": "made_up", "params": {}}') on conflict do nothing`;
  const lined_up = await linedUp(cluster, Number(ledger?.id));
  const late = await aRun(sql, { ...of_ledger, source: "schedule", due_at: new Date(Date.now() - 7_200_000) });
  const stuck = await aRun(sql, { ...of_ledger, state: "ASSIGNED", assigned_worker_id: ghost.worker_id });
  const detached = await aWorker(sql, { node_id: "ghosts", state: "DETACHED", lease_ms: 600_000 });
  const taken_back = await aRun(sql, {
    ...of_ledger,
    state: "ASSIGNED",
    assigned_worker_id: detached.worker_id,
    assigned_at: new Date(Date.now() + 3_600_000), // so that it is not taken back for having waited too long
  });
  const lost = await aRun(sql, { ...of_ledger, state: "RUNNING", fence: 0 });
  const worn_out = await aRun(sql, { ...of_ledger, state: "ORPHANED", interruptions: 1_000 });
  const gone = await aWorker(sql, { node_id: "ghosts", lease_ms: -1_000 });
  const unwanted = (await client.enqueue("ledger", {}, in_an_hour)).id;
  await requestCancel(sql, unwanted, { actor: "test", reason: "not needed any more" });
  const blocking = await thereBeforeSlots(sql, "forbidding");
  const replaced = await thereBeforeSlots(sql, "replacing");
  await sql`
    update job_schedule set enabled = true, last_slot = date_trunc('second', clock_timestamp()) - interval '2 s',
           next_slot = date_trunc('second', clock_timestamp()) - interval '1 s' where not enabled`;
  const plain = await cluster.enqueue("ledger");
  const event = await client.emit("thing.happened");
  return {
    event_id: event.id,
    dead_worker_id: gone.worker_id,
    made_up: [worn_out.id, blocking],
    ends: [
      ...lined_up.map((id) => ({ id, state: "SUCCEEDED" })),
      { id: plain, state: "SUCCEEDED" },
      { id: late.id, state: "SKIPPED or SUCCEEDED" }, // it may come between the two steps of a tick that skip and assign
      { id: stuck.id, state: "SUCCEEDED" },
      { id: taken_back.id, state: "SUCCEEDED" },
      { id: lost.id, state: "SUCCEEDED" },
      { id: worn_out.id, state: "FAILED", error_name: "Quarantined" },
      { id: unwanted, state: "CANCELED", error_name: "Canceled" },
      { id: replaced, state: "CANCELED", error_name: "Canceled" },
    ],
  };
}

/** Due before any slot of its job, and not started: nobody has its node. */
async function thereBeforeSlots(sql: Sql, job_name: string): Promise<number> {
  const [job] = await sql<{ id: number }[]>`select id from job_definition where name = ${job_name}`;
  const due_at = new Date(Date.now() - 3_600_000);
  return (await aRun(sql, { job_definition_id: job?.id, serial_key: `job:${job_name}`, due_at, node: NOWHERE })).id;
}

/** One that has slept, one that is next in its line, and two that cannot both be: seen by the leader at once or not at all. */
function linedUp({ sql }: Cluster, job_definition_id: number): Promise<number[]> {
  const due_at = new Date(Date.now() - 1_000);
  const [free, contested] = [crypto.randomUUID(), crypto.randomUUID()];
  return sql.begin(async (tx) => {
    const rows = [
      { held: true, wakes_at: due_at },
      { held: true, serial_key: free },
      { serial_key: contested },
      { serial_key: contested },
    ];
    await tx`insert into key_recheck (line) values (${`serial:${free}`})`;
    const ids: number[] = [];
    for (const row of rows) ids.push((await aRun(tx as unknown as Sql, { job_definition_id, due_at, ...row })).id);
    return ids;
  });
}

/**
 * Waits until all of it is done, and shows that it was done once. Slots come no more afterwards. `burials` too: those take
 * a leader that was in contact for a whole worker lease.
 */
export async function workIsDone(cluster: Cluster, works: Work[], on: { burials: boolean }): Promise<void> {
  const { sql } = cluster;
  for (const { id, ...expected } of works.flatMap(({ ends }) => ends)) {
    const run = await cluster.ends(id);
    const { state, error_name } = run;
    const as_it_should = expected.state.split(" or ").includes(state) &&
      error_name === (expected.error_name ?? error_name);
    assert(as_it_should, `run ${id} should be ${JSON.stringify(expected)}: ${JSON.stringify(run)}`);
  }
  for (const { event_id, dead_worker_id } of works) {
    const by_event = await waitFor("a run of the event", async () => {
      const runs = await sql<{ id: number }[]>`select id from job_run where event_id = ${event_id}`;
      return runs.length > 0 ? runs : undefined;
    });
    assert.equal(by_event.length, 1);
    assert.equal((await cluster.ends((by_event[0] as { id: number }).id)).state, "SUCCEEDED");
    if (!on.burials) continue;
    await waitFor("the death of a worker", async () => {
      return (await sql`select 1 from worker where worker_id = ${dead_worker_id} and state = 'DEAD'`)[0];
    });
  }
  await sql`update job_schedule set enabled = false`;
  // What comes due in a moment may be given to a worker by now.
  await waitFor("the end of all that was due", async () => {
    const [open] =
      await sql`select 1 from job_run where finished_at is null and due_at <= clock_timestamp() + interval '2 s'
                 and node is distinct from ${NOWHERE}`;
    return open ? undefined : true;
  });
  await slotsAreWhole(cluster);
}

/** Each second from the first slot to the last has exactly one run of each schedule; a forbidden one is SKIPPED. */
async function slotsAreWhole({ sql }: Cluster): Promise<void> {
  const rows = await sql<{ name: string; runs: number; slots: number; skipped: number }[]>`
    select d.name, count(*)::int as runs,
           (extract(epoch from max(r.scheduled_for) - min(r.scheduled_for)) + 1)::int as slots,
           count(*) filter (where r.state = 'SKIPPED')::int as skipped
      from job_run r join job_definition d on d.id = r.job_definition_id
     where r.job_schedule_id is not null group by d.name order by d.name`;
  assert.deepEqual(rows.map(({ name }) => name), ["forbidding", "replacing", "ticking"]);
  for (const { name, runs, slots, skipped } of rows) {
    assert.equal(runs, slots, `${name}: ${runs} runs for ${slots} slots`);
    assert.equal(skipped, name === "forbidding" ? slots : 0, `${name}: ${skipped} of ${slots} were skipped`);
  }
}
