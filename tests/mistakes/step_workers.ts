/** Mistakes of a worker whose bodies use steps: what is written, told and suspended when. */
import type { Mistake } from "./mistake.ts";

const COMMITS = "src/worker/steps/step_commits.ts";
const SUSPENSION = "src/worker/steps/suspension.ts";
const RUNS = "src/worker/steps/step_runs.ts";
const WRITES = ["tests/process/steps/step_commits_test.ts"];
const WAITS = ["tests/process/steps/suspension_test.ts"];

export const STEP_WORKER_MISTAKES: Mistake[] = [
  {
    id: "committed-told-before-it-is",
    file: RUNS,
    find: "    if (!frame.child && !execution.preparing) return",
    replace:
      '    execution.body.tell({ kind: "committed", upto: frame.n });\n    if (!frame.child && !execution.preparing) return',
    tests: WRITES,
    filter: "while Postgres is away bodies wait",
    why: "A body goes on from a step that nobody has stored, and does it again after a crash.",
  },
  {
    id: "row-twice-in-a-statement",
    file: COMMITS,
    find: "if (keys.has(queued.frame.key) || writes",
    replace: "if (writes",
    tests: WRITES,
    filter: "frames are written in their order",
    why: "Postgres refuses the statement, and with it the steps of all runs that share it.",
  },
  {
    id: "positions-by-arrival-at-the-worker",
    file: COMMITS,
    find: "...columns, kind: request };",
    replace: "...columns, seq: columns.seq && _n, kind: request };",
    tests: WRITES,
    filter: "frames are written in their order",
    why: "A replay gives rows another order than that in which the code got them live, and gaps in it.",
  },
  {
    id: "zombies-go-on-with-their-steps",
    file: COMMITS,
    find: "      else onLost(execution);\n",
    replace: "",
    tests: WRITES,
    filter: "was given to another writes nothing and is killed",
    why: "A body whose run is another worker's by now goes on until its lease is looked at.",
  },
  {
    id: "steps-wait-for-a-locked-run",
    file: COMMITS,
    find: "(isLockTimeout(error) || (isTooLong(error) && shares.length > 1))",
    replace: "isTooLong(error) && shares.length > 1",
    tests: WRITES,
    filter: "holds up no other run",
    why: "One open transaction on a run stops the steps of all others.",
  },
  {
    id: "end-recorded-before-its-steps",
    file: "src/worker/executor.ts",
    find: "    const settled = this.#steps.ended(gone.run);\n",
    replace: "    const settled = undefined as Promise<void> | undefined;\n",
    tests: WRITES,
    filter: "is in Postgres before its end is",
    why: "Steps of a run that has ended are refused, and are missing from its journal.",
  },
  {
    id: "suspended-with-an-answer-unread",
    file: RUNS,
    find: "        if (execution.alerted) return;",
    replace: "",
    tests: WAITS,
    filter: "a message that was there before its wait",
    why: "A run sleeps on beside a message that it was told of and has not taken.",
  },
  {
    id: "suspension-without-a-reply-made-again",
    file: SUSPENSION,
    find: " || others.get(job_run_id)?.is_suspended === true;",
    replace: ";",
    tests: WAITS,
    filter: "a suspension whose reply is lost",
    why: "A body stays frozen, and holds its slot, though its run is SUSPENDED.",
  },
  {
    id: "canceled-run-suspended-again-and-again",
    file: SUSPENSION,
    find: "if (other && other.wakes !== execution.looked_wakes)",
    replace: "if (other)",
    tests: WAITS,
    filter: "a run that is to be canceled",
    why: "Until its cancel arrives each waiting run asks Postgres as fast as it answers.",
  },
  {
    id: "outcome-of-a-suspended-body-recorded",
    file: RUNS,
    find: "    await this.#suspender.settled(execution);\n",
    replace: "",
    tests: WAITS,
    filter: "a body that dies while it is being suspended",
    why: "The death of a body that was not needed any more fails a run that waits.",
  },
  {
    id: "drain-waits-for-short-waits",
    file: RUNS,
    find: "() => !parts.local.draining && parts.mayLinger()",
    replace: "() => parts.mayLinger()",
    tests: WAITS,
    filter: "a worker that stops suspends at once",
    why: "A worker that stops holds bodies that only wait, and cuts them off at the end of its grace.",
  },
];
