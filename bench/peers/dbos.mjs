/**
 * DBOS Transact, tuned: queues are looked at every 20 ms (every second, as it comes, which leaves ten slots idle between quick
 * workflows), and each of ten workflows has a connection. Workflows of `steps` steps run in the worker process itself.
 */
import { DBOS, DBOSClient } from "@dbos-inc/dbos-sdk";

const NAME = "bench";
const QUEUE = "steps";
const AT_ONCE = 10;
const POLL_MS = 20;

console.info = console.log = console.error; // answers alone are on stdout
let counted; // it is registered once in a process
let first_line;

export function open({ database_url, steps }) {
  let client;
  return {
    async prepare() {
      await DBOS.migrate(database_url);
      client = await DBOSClient.create({
        systemDatabaseUrl: database_url,
        applicationName: NAME,
      });
    },
    async enqueue(jobs) {
      await atOnce(
        jobs,
        () => client.enqueue({ queueName: QUEUE, workflowName: "counted" }),
      );
    },
    async work({ concurrency, body }) {
      first_line = body;
      DBOS.setConfig({
        name: NAME,
        systemDatabaseUrl: database_url,
        systemDatabasePoolSize: 2 * concurrency,
        applicationVersion: "1",
        executorID: String(process.pid), // else each recovers what the other one works at
        logLevel: "error",
      });
      counted ??= DBOS.registerWorkflow(async () => {
        first_line({});
        for (let step = 0; step < steps; step++) {
          await DBOS.runStep(() => Promise.resolve(null), { name: "no-op" });
        }
      }, { name: "counted" });
      await DBOS.launch();
      await DBOS.registerQueue(QUEUE, {
        workerConcurrency: concurrency,
        minPollingIntervalMs: POLL_MS,
      });
      return () => DBOS.shutdown();
    },
    left:
      `select exists (select from dbos.workflow_status where status not in ('SUCCESS', 'ERROR', 'CANCELLED')) as left`,
    close: () => client.destroy(),
  };
}

async function atOnce(jobs, enqueue) {
  let left = jobs;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (left-- > 0) await enqueue();
  }));
}
