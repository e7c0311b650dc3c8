/**
 * graphile-worker. As it comes: ten jobs at once, each fetched and completed by statements of its own. Tuned as its page on
 * performance says: a local queue of 500 and completions in batches.
 */
import { makeWorkerUtils, run } from "graphile-worker";
import { Logger } from "@graphile/logger";

const TASK = "noop";
const EACH_INSERT = 5_000;
const logger = new Logger(() => () => {});

export async function open({ database_url, how }) {
  const utils = await makeWorkerUtils({ connectionString: database_url, logger });
  return {
    prepare: () => utils.migrate(),
    async enqueue(jobs) {
      for (let made = 0; made < jobs; made += EACH_INSERT) {
        const specs = Array.from(
          { length: Math.min(EACH_INSERT, jobs - made) },
          () => ({ identifier: TASK, payload: {} }),
        );
        await utils.addJobs(specs);
      }
    },
    async enqueueOne(data, at) {
      await utils.addJob(TASK, data, at ? { runAt: at } : {});
    },
    async work({ concurrency, body }) {
      const worker = { connectionString: database_url, concurrentJobs: concurrency, maxPoolSize: concurrency + 1 };
      const tuned = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
      const runner = await run({
        logger,
        noHandleSignals: true,
        taskList: { [TASK]: (payload) => body(payload) },
        preset: { worker: how === "tuned" ? { ...worker, ...tuned } : worker },
      });
      return () => runner.stop();
    },
    left: `select exists (select from graphile_worker._private_jobs) as left`,
    close: () => utils.release(),
  };
}
