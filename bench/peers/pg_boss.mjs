/**
 * pg-boss. As it comes: one job every two seconds for each of ten local workers, as `work(name, { localConcurrency })` does.
 * Tuned: batches that are fetched again at once while they come back full, and woken by NOTIFY.
 */
import { PgBoss } from "pg-boss";

const QUEUE = "noop";
const SCHEMA = "pgboss";
const BATCH = 250;
const EACH_INSERT = 5_000;

export function open({ database_url, how }) {
  const tuned = how === "tuned";
  const boss = new PgBoss({ connectionString: database_url, schema: SCHEMA, useListenNotify: tuned });
  boss.on("error", (error) => console.error(error));
  return {
    async prepare() {
      await boss.start();
      await boss.createQueue(QUEUE, tuned ? { notify: true } : {});
    },
    async enqueue(jobs) {
      for (let made = 0; made < jobs; made += EACH_INSERT) {
        const data = Array.from({ length: Math.min(EACH_INSERT, jobs - made) }, () => ({ data: {} }));
        await boss.insert(QUEUE, data);
      }
    },
    async enqueueOne(data, at) {
      await boss.send(QUEUE, data, at ? { startAfter: at } : {});
    },
    async work({ concurrency, body }) {
      await boss.start();
      const options = tuned
        ? {
          batchSize: BATCH,
          localConcurrency: 2,
          burstWhenBatchFull: true,
          pollingIntervalSeconds: 0.5,
          notifyPollingIntervalSeconds: 0.5,
        }
        : { localConcurrency: concurrency };
      await boss.work(QUEUE, options, (jobs) => {
        for (const job of jobs) body(job.data);
        return Promise.resolve();
      });
      return () => boss.offWork(QUEUE);
    },
    /** Whether a job has not ended; for node-postgres, in a session that uses indexes. */
    left: `select exists (select from ${SCHEMA}.job where name = '${QUEUE}' and state < 'completed') as left`,
    close: () => boss.stop({ graceful: false }),
  };
}
