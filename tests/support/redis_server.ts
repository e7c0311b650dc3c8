/**
 * Tests that hold only for a real Redis server. On a machine without one they are ignored and counted, so that
 * `deno task test` works there; where CI or SCHEDULER_REQUIRE_REDIS is set they run, and fail, instead.
 */
import { environment } from "../../src/platform/config.ts";
import { redisServerOnPath } from "../../src/dev/redis.ts";

export const REDIS_SERVER = redisServerOnPath();

const { CI, SCHEDULER_REQUIRE_REDIS } = environment();

export function testWithRedisServer(name: string, test: () => Promise<void>): void {
  Deno.test({ name, ignore: !REDIS_SERVER && !CI && !SCHEDULER_REQUIRE_REDIS, fn: test });
}
