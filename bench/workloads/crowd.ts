/**
 * How long the leader's ticks are in a large installation: 50 worker processes, ten to a node, 1,000 definitions of one file,
 * and 1,000 runs a second over all of them for a while, once all of them have run something and are at rest. As the leader tells it, `leader.ticks` of its log.
 */
import { monotonicMs, rest } from "../../src/platform/timers.ts";
import { withProject } from "../project.ts";
import { showStatements } from "../statements.ts";
import { figures, type Workload } from "../workload.ts";
import { NO_OP } from "./throughput.ts";

const RATE = 1_000;
const EACH_MS = 100;
/** Fifty processes that start on a few cores are not done with it when they answer. */
const SETTLE_MS = 15_000;

export const crowd: Workload = {
  name: "crowd",
  about: "length of the leader's ticks with 50 workers, 1,000 definitions and 1,000 runs/s",
  async run(bench) {
    const [workers, seconds] = bench.quick ? [10, 12] : [50, 21];
    bench.say(`crowd: ${workers} workers, ${seconds} s`);
    const options = {
      jobs: { noop: NO_OP.reuse },
      workers,
      slots: 4,
      each_node: 10,
      settings: { spare_processes: 1 },
    };
    return await withProject(bench, options, async (project) => {
      const { sql } = project;
      await sql`
        insert into job_definition (name, command_name, type, isolation_reuse, digest)
        select 'crowd-' || n, command_name, type, isolation_reuse, digest
          from job_definition, generate_series(2, 1000) n where name = 'noop'`;
      await project.warm("noop", 20 * workers * options.slots);
      await rest(SETTLE_MS);
      const counting = bench.statements && await bench.servers.countStatements();
      const before = project.facts("leader.ticks").length;
      const began_ms = monotonicMs();
      for (let made = 0; made < seconds * 1000 / EACH_MS; made++) {
        await sql`
          insert into job_run (job_definition_id, source)
          select id, 'enqueue' from job_definition order by id offset ${made % 10 * RATE / 10} limit ${
          RATE * EACH_MS / 1000
        }`;
        await rest(Math.max(0, began_ms + (made + 1) * EACH_MS - monotonicMs()));
      }
      const [behind] = await sql<
        { runs: number }[]
      >`select count(*)::int as runs from job_run where finished_at is null`;
      if (counting) showStatements(await bench.servers.statements(project.database_url), seconds * RATE);
      const told = project.facts("leader.ticks").slice(before);
      return figures({ workload: "crowd", who: "dandori", how: `${workers} workers`, n: seconds * RATE }, {
        "tick p50": [Math.max(...told.map((fact) => Number(fact.p50_ms))), "ms"],
        "tick p99": [Math.max(...told.map((fact) => Number(fact.p99_ms))), "ms"],
        "runs behind": [behind?.runs ?? NaN, "runs"],
      });
    });
  },
};
