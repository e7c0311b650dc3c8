/**
 * Workers each of whose ways can be cut: to Postgres, to Redis, and of its peers to it. Their own process is the real one;
 * what they tell of their gRPC port is changed as the row is written, so peers come through the link.
 */
import { FaultyLink } from "../../src/ops/faulty_link.ts";
import { freePort } from "../../src/ops/free_port.ts";
import type { Sql } from "../../src/postgres/connection.ts";
import { type Cluster, type ClusterOptions, withProcesses, type WorkerProcess } from "./cluster.ts";

export interface Wired {
  worker: WorkerProcess;
  postgres: FaultyLink;
  redis: FaultyLink;
  /** From its peers to its port. */
  grpc: FaultyLink;
}

/** Starts `workers` wired processes one after another, so that the first one leads. */
export function withWired(
  workers: number,
  test: (cluster: Cluster, wired: Wired[]) => Promise<void>,
  options: ClusterOptions = {},
): Promise<void> {
  const links: FaultyLink[] = [];
  return withProcesses(0, async (cluster) => {
    await advertise(cluster.sql);
    const wired: Wired[] = [];
    for (let place = 1; place <= workers; place++) {
      wired.push(await startWired(cluster, `node-${place}`, links));
      if (place === 1) await cluster.hears("leader.elected");
    }
    await test(cluster, wired);
  }, options).finally(() => Promise.all(links.map((link) => link.close())));
}

async function startWired(cluster: Cluster, node_id: string, links: FaultyLink[]): Promise<Wired> {
  const port = freePort();
  const [to_postgres, to_redis] = [new URL(cluster.stores.database_url), new URL(cluster.stores.redis_url)];
  const made = [Number(to_postgres.port), Number(to_redis.port), port].map((target) => FaultyLink.to(target));
  const [postgres, redis, grpc] = await Promise.all(made) as [FaultyLink, FaultyLink, FaultyLink];
  links.push(postgres, redis, grpc);
  await cluster.sql`insert into wire (node_id, grpc_port) values (${node_id}, ${grpc.port})`;
  to_postgres.host = `127.0.0.1:${postgres.port}`;
  to_redis.host = `127.0.0.1:${redis.port}`;
  const env = { DATABASE_URL: to_postgres.href, REDIS_URL: to_redis.href, SCHEDULER_GRPC_PORT: String(port) };
  return { worker: await cluster.startWorker({ node_id, env }), postgres, redis, grpc };
}

async function advertise(sql: Sql): Promise<void> {
  await sql`create table wire (node_id text primary key, grpc_port int not null)`;
  await sql`
    create function wire() returns trigger language plpgsql as $$
    begin
      select grpc_port into new.grpc_port from wire where node_id = new.node_id;
      return new;
    end $$`;
  await sql`create trigger wire before insert on worker for each row execute function wire()`;
}

/** Nothing passes any more, as when a cable is pulled: what is open hangs, what is new is never answered. */
export function cut(...links: FaultyLink[]): void {
  for (const link of links) {
    link.strand();
    link.swallow();
  }
}
