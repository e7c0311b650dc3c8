/** All acts. One that is not here stands in no document, and the tests of the registry miss it. */
import type { Action } from "./action.ts";
import * as bulks from "./bulk_actions.ts";
import * as many from "./many_runs.ts";
import * as jobs from "./job_actions.ts";
import * as nodes from "./node_actions.ts";
import * as queue from "./queue_actions.ts";
import * as runs from "./run_actions.ts";
import * as schedules from "./schedule_actions.ts";
import * as system from "./system_actions.ts";
import * as users from "./user_actions.ts";
import * as hooks from "./webhook_actions.ts";
import * as workflows from "./workflow_actions.ts";

const MODULES = [runs, workflows, many, bulks, jobs, schedules, queue, nodes, system, users, hooks];

export const ACTIONS: readonly Action[] = MODULES.flatMap((module) => Object.values(module)).filter(isAction);

function isAction(value: unknown): value is Action {
  return typeof value === "object" && value !== null && "audit" in value && "input" in value;
}
