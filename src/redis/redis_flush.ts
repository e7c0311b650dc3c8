/** Makes Redis forget, for drills and tests: nothing that is in it is the truth, so nothing may be lost by this. */
import { Redis } from "ioredis";
import type { RedisConnection } from "./connection.ts";

/** Keys with our prefix. */
export async function countKeys(redis: RedisConnection): Promise<number> {
  return (await ourKeys(redis)).length;
}

/** Deletes the keys with our prefix, and no other. */
export async function forgetKeys(redis: RedisConnection): Promise<void> {
  const keys = await ourKeys(redis); // without the prefix, which the connection puts before each
  if (keys.length > 0) await redis.ask("delete our keys", (client) => client.del(...keys));
}

/** Deletes everything on the server. */
export async function flushAll(redis: RedisConnection): Promise<void> {
  await redis.ask("delete everything", (client) => client.flushall());
}

async function ourKeys(redis: RedisConnection): Promise<string[]> {
  const pattern = redis.prefix.replace(/[*?[\]\\]/g, "\\$&") + "*";
  const keys = new Set<string>();
  let cursor = "0";
  do {
    [cursor] = await redis.ask("look for our keys", async (client) => {
      if (!(client instanceof Redis)) {
        throw new Error("Cannot look for keys in a Redis Cluster: ask each of its servers");
      }
      const [next, found] = await client.scan(cursor, "MATCH", pattern, "COUNT", 1000);
      for (const key of found) keys.add(key.slice(redis.prefix.length));
      return [next];
    });
  } while (cursor !== "0");
  return [...keys];
}
