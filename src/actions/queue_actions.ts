/** Stopping and letting go: all dispatch, a job, a serial key; and how much there is of a resource. */
import type { Actor } from "../access/audit.ts";
import type { Sql } from "../postgres/connection.ts";
import { changeSettings, readSettings } from "../settings/settings.ts";
import { freeKey, pauseJob, setResource, stopKey } from "../dispatch/pauses.ts";
import { checkText, Refused } from "./args.ts";
import { noSuchJob } from "./job_actions.ts";
import { z } from "zod";
import { action, jobName, text, whole } from "./action.ts";

/** One of the three. All dispatch is never meant by leaving something out. */
export interface What {
  job_name?: string;
  serial_key?: string;
  all?: true;
}

/** False: it was so already. @throws Refused when there is no such job. */
export async function setPaused(
  sql: Sql,
  { job_name, serial_key, all }: What,
  wish: Actor & { paused: boolean },
): Promise<boolean> {
  const { paused, actor, reason } = wish;
  const by = { actor, reason };
  if (serial_key !== undefined && paused) checkText("pause a serial key", "it", serial_key);
  if (serial_key !== undefined) return paused ? await stopKey(sql, serial_key, by) : await freeKey(sql, serial_key, by);
  if (job_name !== undefined) {
    const answer = await pauseJob(sql, job_name, wish);
    if (!answer) throw await noSuchJob(sql, job_name);
    return answer.changed;
  }
  if (!all) throw new TypeError("Cannot pause or resume: neither a job nor a serial key is named, nor all dispatch");
  const dispatch = paused ? "paused" : "running";
  if ((await readSettings(sql)).dispatch === dispatch) return false;
  await changeSettings(sql, { dispatch }, by);
  return true;
}

/** Undefined takes it away. False: it was so already. @throws Refused when there is none to be taken away. */
async function changeResource(
  sql: Sql,
  name: string,
  capacity: number | undefined,
  by: Actor,
): Promise<boolean> {
  if (capacity !== undefined) checkText("set a resource", "its name", name);
  if (capacity === 0) {
    throw new Refused(
      `Cannot give resource "${name}" a capacity of 0: whatever takes it would wait for ever; pause its jobs: deno task queue pause --job NAME`,
      { says: { code: "capacity_zero", name } },
    );
  }
  const changed = await setResource(sql, name, capacity, by);
  if (!changed && capacity === undefined) {
    throw new Refused(`Cannot remove resource "${name}": there is none of that name`, {
      why: "not_found",
      says: { code: "none", what: name },
    });
  }
  return changed;
}

const TARGET = z.strictObject({
  job_name: jobName.meta({ description: "only this job" }).optional(),
  serial_key: text(500).meta({ description: "only this serial key", example: "device:7" }).optional(),
  all: z.literal(true).meta({ description: "all dispatch, of every job" }).optional(),
}).refine(
  (given) => Object.values(given).filter((one) => one !== undefined).length === 1,
  "must have one of job_name, serial_key and, for all dispatch, all: true",
);

export const pauseQueue = action({
  name: "queue.pause",
  does: "pause a job, a serial key, or all dispatch; running bodies go on",
  needs: "operate",
  reason: "optional",
  input: TARGET,
  audit: ["job.pause", "serial_key.stop", "settings.change"],
  run: ({ sql, by }, what) => setPaused(sql, what, { ...by, paused: true }),
});

export const resumeQueue = action({
  name: "queue.resume",
  does: "resume a job, a serial key, or all dispatch",
  needs: "operate",
  reason: "optional",
  input: TARGET,
  audit: ["job.resume", "serial_key.free", "settings.change"],
  run: ({ sql, by }, what) => setPaused(sql, what, { ...by, paused: false }),
});

const resourceName = text(200).meta({ description: "the resource's name", example: "license" });

export const saveResource = action({
  name: "resource.set",
  does: "set a resource's capacity",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    name: resourceName,
    capacity: whole(0, 1_000_000_000).meta({ description: "so much of it can be in use at once" }),
  }),
  audit: ["resource.set"],
  run: ({ sql, by }, { name, capacity }) => changeResource(sql, name, capacity, by),
});

export const dropResource = action({
  name: "resource.remove",
  does: "remove a resource; jobs that take it wait",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({ name: resourceName }),
  audit: ["resource.set"],
  run: ({ sql, by }, { name }) => changeResource(sql, name, undefined, by),
});
