/** openworkflow as it comes: it has no settings but how many workflows run at once. They run in the worker process itself. */
import { OpenWorkflow } from "openworkflow";
import { BackendPostgres } from "openworkflow/postgres";

const AT_ONCE = 10;

export function open({ database_url, steps, role }) {
  let first_line = () => {};
  let workflows;
  let counted;
  let backend;
  const connect = async () => {
    backend = await BackendPostgres.connect(database_url, {
      runMigrations: role !== "worker",
    });
    workflows = new OpenWorkflow({ backend });
    counted = workflows.defineWorkflow(
      { name: "counted" },
      async ({ step }) => {
        first_line({});
        for (let number = 0; number < steps; number++) {
          await step.run({ name: `no-op ${number}` }, () => null);
        }
      },
    );
  };
  return {
    prepare: connect,
    async enqueue(jobs) {
      let left = jobs;
      await Promise.all(Array.from({ length: AT_ONCE }, async () => {
        while (left-- > 0) await counted.run({});
      }));
    },
    async work({ concurrency, body }) {
      if (!workflows) await connect();
      first_line = body;
      const worker = workflows.newWorker({ concurrency });
      await worker.start();
      return () => worker.stop();
    },
    left:
      `select exists (select from openworkflow.workflow_runs where status in ('pending', 'running', 'sleeping')) as left`,
    close: () => backend.stop(),
  };
}
