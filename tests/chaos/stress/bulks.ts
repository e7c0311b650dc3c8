/** Bulks among the work of the stress, and people who slow, stop, resume and cancel them. */
import { addItems, changeBulk, createBulk } from "../../../src/bulks/bulks.ts";
import type { Sql } from "../../../src/postgres/connection.ts";
import type { Chance } from "./chance.ts";
import { count, later, undo, type World } from "./world.ts";

const BY = { actor: "somebody", reason: "chance" };
/** Of jobs whose runs only the bulk itself makes wait, and of some that have a limit of their own as well. */
const JOBS = ["plain", "plain", "limited"];

/** The bulk's id. Each has a run at its end, however it ends. */
export async function giveBulk(world: World, { chance, turn }: { chance: Chance; turn: number }): Promise<number> {
  const bulk = {
    job_name: chance.pick(JOBS),
    name: `bulk ${turn}`,
    parallel: chance.whole(1, 4),
    interval_seconds: chance.pick([0, 0, 0.05]),
    on_finish: "plain",
    actor: BY.actor,
    ...(chance.happens(0.6) ? { serial_key: `line ${chance.whole(1, 2)}` } : {}),
  };
  const texts = Array.from({ length: chance.whole(0, 12) }, () => JSON.stringify({ key: chance.whole(1, 8) }));
  count(world, "bulks");
  return await world.sql.begin(async (tx) => {
    const made = await createBulk(tx, bulk);
    if (!("bulk_id" in made)) throw new Error(`no job "${made.unknown_job}"`);
    await addItems(tx, made.bulk_id, { first_seq: 1, texts });
    return made.bulk_id;
  });
}

/** One that goes on, any: other parallel, a pause of a while, or its end. */
export async function changeSomeBulk({ sql, ...world }: World, chance: Chance): Promise<void> {
  const [bulk] = await sql<
    { id: number }[]
  >`select id from bulk where finished_at is null and state = 'RUNNING' order by random() limit 1`;
  if (!bulk) return;
  if (chance.happens(0.2)) {
    count(world, "bulks canceled");
    await changeBulk(sql, bulk.id, { state: "CANCELED" }, BY);
  } else if (chance.happens(0.5)) {
    count(world, "bulks changed");
    await changeBulk(sql, bulk.id, { parallel: chance.whole(1, 6) }, BY);
  } else {
    count(world, "bulks paused");
    await changeBulk(sql, bulk.id, { state: "PAUSED" }, BY);
    undo(world, chance.between(100, 1_500) * world.scale, () => {
      later(world, changeBulk(sql, bulk.id, { state: "RUNNING" }, BY));
    });
  }
}

/** The keys of the runs that bulks must have by now: once nobody cancels any more. */
export async function new_runsOfBulks(sql: Sql): Promise<string[]> {
  const rows = await sql<{ key: string }[]>`
    select 'bulk:' || b.id || ':' || i.seq as key from bulk b join bulk_item i on i.bulk_id = b.id
     where b.state <> 'CANCELED' or i.job_run_id is not null
    union all select 'bulk:' || id || ':finish' from bulk`;
  return rows.map((row) => row.key);
}
