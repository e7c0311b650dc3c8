/**
 * BullMQ. As it comes; tuned: jobs that have ended are removed at once and metrics and events are not kept; sandboxed: bodies in
 * processes of their own, which all jobs share and which are kept for ever.
 */
import { Queue, Worker } from "bullmq";
import { fileURLToPath } from "node:url";

const QUEUE = "noop";
const EACH_INSERT = 5_000;

export function open({ redis_url, how }) {
  const connection = { url: redis_url, maxRetriesPerRequest: null };
  const kept = how === "tuned" ? { removeOnComplete: true, removeOnFail: true } : {};
  const queue = new Queue(QUEUE, { connection, defaultJobOptions: kept });
  return {
    prepare: () => queue.waitUntilReady(),
    async enqueue(jobs) {
      for (let made = 0; made < jobs; made += EACH_INSERT) {
        await queue.addBulk(
          Array.from({ length: Math.min(EACH_INSERT, jobs - made) }, () => ({ name: QUEUE, data: {} })),
        );
      }
    },
    async enqueueOne(data, at) {
      await queue.add(QUEUE, data, at ? { delay: Math.max(0, at.getTime() - Date.now()) } : {});
    },
    async work({ concurrency, body }) {
      const sandboxed = how === "sandboxed";
      const job_body = sandboxed ? fileURLToPath(new URL("bullmq_body.mjs", import.meta.url)) : (job) => body(job.data);
      const worker = new Worker(QUEUE, job_body, { connection, concurrency });
      if (sandboxed) worker.on("completed", (job, at_ms) => body(job.data, at_ms));
      worker.on("error", (error) => console.error(error));
      await worker.waitUntilReady();
      return () => worker.close();
    },
    async left() {
      const counts = await queue.getJobCounts("wait", "active", "delayed", "prioritized", "paused");
      return Object.values(counts).some((count) => count > 0);
    },
    close: () => queue.close(),
  };
}
