/** All workloads, in the order in which they are run. One more is a file in `workloads/` and a line here. */
import type { Workload } from "./workload.ts";
import { backlog } from "./workloads/backlog.ts";
import { crowd } from "./workloads/crowd.ts";
import { idle } from "./workloads/idle.ts";
import { lanes } from "./workloads/lanes.ts";
import { memory } from "./workloads/memory.ts";
import { bareDeno } from "./workloads/bare_deno.ts";
import { bulk } from "./workloads/bulk.ts";
import { choosing } from "./workloads/choosing.ts";
import { due } from "./workloads/due.ts";
import { enqueue } from "./workloads/enqueue.ts";
import { manyWorkers } from "./workloads/many_workers.ts";
import { pages } from "./workloads/pages.ts";
import { peers } from "./workloads/peers.ts";
import { pickup } from "./workloads/pickup.ts";
import { recovery } from "./workloads/recovery.ts";
import { replay } from "./workloads/replay.ts";
import { resume } from "./workloads/resume.ts";
import { stepCost, steps } from "./workloads/steps.ts";
import { steady } from "./workloads/steady.ts";
import { throughput } from "./workloads/throughput.ts";
import { turns } from "./workloads/turns.ts";

export const WORKLOADS: Workload[] = [
  bareDeno,
  throughput,
  peers,
  turns,
  pickup,
  steady,
  due,
  lanes,
  enqueue,
  idle,
  backlog,
  memory,
  manyWorkers,
  crowd,
  choosing,
  pages,
  bulk,
  recovery,
  steps,
  stepCost,
  replay,
  resume,
];
