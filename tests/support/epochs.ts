/** What must hold of epochs, worker ids and runs while Redis, or a leader, gets lost: watched by Postgres itself. */
import assert from "node:assert/strict";
import type { Cluster } from "./cluster.ts";
import { askRedis, type OwnRedis } from "./cluster_redis.ts";
import { waitFor } from "./waiting.ts";

/** From here on Postgres notes an epoch that falls, and a run that is given away under another epoch than that of now. */
export async function keepEpochs({ sql }: Cluster): Promise<void> {
  await sql`create table epoch_fault (what text not null)`;
  await sql`
    create function note_epoch_fault() returns trigger language plpgsql as $$
    begin
      if tg_table_name = 'leader_term' then
        if new.epoch < old.epoch then insert into epoch_fault values ('epoch ' || new.epoch || ' after ' || old.epoch); end if;
      elsif new.leader_epoch <> (select epoch from leader_term) then
        insert into epoch_fault values ('run ' || new.id || ' was given away under epoch ' || new.leader_epoch);
      end if;
      return null;
    end $$`;
  await sql`create trigger epochs after update on leader_term for each row execute function note_epoch_fault()`;
  await sql`
    create trigger epochs after update of state on job_run for each row when (new.state = 'ASSIGNED' and old.state <> 'ASSIGNED')
    execute function note_epoch_fault()`;
}

/** Nothing was noted, each election had a newer epoch than the one before, and no worker's number came twice. */
export async function noEpochFell({ sql, hearing }: Cluster): Promise<void> {
  assert.deepEqual([...await sql`select what from epoch_fault`], []);
  const told = (fact: string) =>
    hearing.lines.filter(({ text }) => text.startsWith(`{"fact":"${fact}"`)).map(({ text }) => JSON.parse(text));
  const epochs: number[] = told("leader.elected").map(({ epoch }) => epoch);
  assert.equal(new Set(epochs).size, epochs.length, `epochs ${epochs.join(" ")}`);
  const numbers: string[] = told("worker.ready").map(({ worker_id }) => worker_id.split("-")[0]);
  assert.equal(new Set(numbers).size, numbers.length, `workers ${numbers.join(" ")}`);
}

/** Each of `runs` bodies of `append_one_row` has done its work exactly once. */
export async function onlyOnce(cluster: Cluster, runs: number): Promise<void> {
  const done = [...Deno.readDirSync(cluster.effects_dir)].map(({ name }) => Number(name));
  assert.deepEqual(done.filter((id) => cluster.effects(id) !== 1), []);
  assert.equal(done.length, runs);
  const [open] = await cluster.sql`select id, state from job_run where finished_at is null`;
  assert.equal(open, undefined);
}

export interface KeysOptions {
  prefix?: string;
}

/** Resolves when this server has all that it is for: the leader of Postgres has its lock, and every worker beats there. */
export async function onRedis(cluster: Cluster, { port }: OwnRedis, { prefix = "scheduler:" }: KeysOptions = {}) {
  const { sql } = cluster;
  await waitFor(`everything in Redis on port ${port}`, async () => {
    const [term] = await sql`
      select epoch, worker_id from leader_term where lease_until > clock_timestamp() and worker_id is not null`;
    const alive = await sql`select worker_id from worker where state <> 'DEAD' and lease_until > clock_timestamp()`;
    try {
      const [lock, epoch] = await askRedis(port, "mget", `${prefix}leader:lock`, `${prefix}leader:epoch`) as string[];
      const beating = await Promise.all(
        alive.map(({ worker_id }) => askRedis(port, "exists", `${prefix}worker:${worker_id}`)),
      );
      const all = term && lock === term.worker_id && Number(epoch) === term.epoch && beating.every((one) => one === 1);
      return all || undefined;
    } catch {
      return undefined; // it may be starting
    }
  });
}

/** Asks the leader of now to step down, and waits until another term has begun. */
export async function stepDown(cluster: Cluster, { port }: OwnRedis, { prefix = "scheduler:" }: KeysOptions = {}) {
  const [term] = await cluster.sql`select epoch from leader_term`;
  await askRedis(port, "set", `${prefix}leader:degrade`, term?.epoch, "PX", 10_000);
  await waitFor("the next leader", async () => {
    const [now] = await cluster.sql`select epoch from leader_term where worker_id is not null`;
    return now?.epoch > term?.epoch || undefined;
  });
}
