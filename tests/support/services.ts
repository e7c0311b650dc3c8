/**
 * The Postgres and the Redis of a test process: those of DATABASE_URL and REDIS_URL, which `deno task test` sets, else
 * embedded ones of its own, so that `deno test -P tests/x_test.ts` works as well. They end with the process that
 * started them, however it ends.
 */
import { statfsSync } from "node:fs";
import { environment } from "../../src/platform/config.ts";
import { hear } from "../../src/platform/facts.ts";
import { startPostgres } from "../../src/dev/postgres.ts";
import { startRedis } from "../../src/dev/redis.ts";

export interface TestServices {
  database_url: string;
  redis_url: string;
  /** What is used, in a few words. */
  detail: string;
  stop(): Promise<void>;
}

/** Starts what the environment does not name. A real Redis is demanded where CI or SCHEDULER_REQUIRE_REDIS is set. */
export async function startTestServices(): Promise<TestServices> {
  const env = environment();
  const silence = hear((name, fact) => {
    if (name === "dev.service") console.error(`\n${JSON.stringify(fact)}\n`);
  });
  const state_dir = env.DATABASE_URL && env.REDIS_URL ? undefined : makeFolder();
  const options = {
    state_dir: state_dir ?? "",
    throwaway: true,
    real_only: Boolean(env.CI || env.SCHEDULER_REQUIRE_REDIS),
  };
  const [postgres, redis] = await Promise.all([
    env.DATABASE_URL ? undefined : startPostgres(options),
    env.REDIS_URL ? undefined : startRedis(options),
  ]);
  return {
    database_url: postgres?.url ?? env.DATABASE_URL as string,
    redis_url: redis?.url ?? env.REDIS_URL as string,
    detail: `Postgres ${postgres?.detail ?? "of DATABASE_URL"}; Redis ${redis?.detail ?? "of REDIS_URL"}`,
    async stop() {
      await Promise.all([postgres?.stop(), redis?.stop()]);
      if (state_dir) await Deno.remove(state_dir, { recursive: true });
      silence();
    },
  };
}

function makeFolder(): string {
  const folder = inMemory() ?? Deno.makeTempDirSync({ prefix: NAME });
  Deno.chmodSync(folder, 0o755); // root's Postgres runs as another user
  addEventListener("unload", () => {
    try {
      Deno.removeSync(folder, { recursive: true });
    } catch {
      // it was removed in good order, or what ends by itself is just removing it
    }
  });
  return folder;
}

const NAME = "dandori-test-";
const MEMORY = "/dev/shm";
/** The servers of a whole run need a quarter of this. */
const ENOUGH_BYTES = 2 * 1024 ** 3;

/**
 * A database is some 350 files, and each test makes and removes one: where files are in memory that takes 0.03 s of the
 * processor, on a disk 0.1 to 0.4 s, much more than most tests do with it.
 */
function inMemory(): string | undefined {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize > ENOUGH_BYTES ? Deno.makeTempDirSync({ dir: MEMORY, prefix: NAME }) : undefined;
  } catch {
    return undefined; // this system has none, or not for us
  }
}
