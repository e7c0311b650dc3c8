/** Stopping and letting go: all dispatch, a job, a serial key; and how much there is of a resource. */
import type { Actor } from "../access/audit.ts";
import type { Sql } from "../postgres/connection.ts";
import { changeSettings, readSettings } from "../settings/settings.ts";
import { freeKey, pauseJob, setResource, stopKey } from "../dispatch/pauses.ts";
import { checkText, Refused } from "./args.ts";
import { noSuchJob } from "./job_actions.ts";

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
export async function changeResource(
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
