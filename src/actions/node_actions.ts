/** What people do with nodes and workers: change, drain, detach and check them. */
import { monotonicMs, rest } from "../platform/timers.ts";
import { connectRedis, type RedisConnection } from "../redis/connection.ts";
import { setDetach } from "../redis/heartbeats.ts";
import type { Actor } from "../access/audit.ts";
import type { Db, Sql } from "../postgres/connection.ts";
import { type Detached, requestDetach, workersNamed } from "../dispatch/detach.ts";
import type { CheckPart } from "../nodes/check_part.ts";
import {
  changeNode,
  isAnswered,
  listNodes,
  type NodeChange,
  type NodeListing,
  readCheckParts,
  removeNode,
  requestCheck,
} from "../nodes/node_health.ts";
import { currentLeader, type Degraded, requestDegrade } from "../nodes/leadership.ts";
import { listWorkers, requestDrain } from "../nodes/workers.ts";
import { readSettings } from "../settings/settings.ts";
import { type RefusalCode, Refused } from "./args.ts";
import { z } from "zod";
import { action, type RedisPlace, text, whole } from "./action.ts";

/** @throws Refused, naming those that there are. */
export async function existingNode(sql: Db, node_id: string): Promise<NodeListing> {
  const nodes = await listNodes(sql);
  const found = nodes.find((node) => node.node_id === node_id);
  if (found) return found;
  const names = nodes.slice(0, MOST_NAMED).map((node) => node.node_id).join(", ");
  const known = nodes.length === 0
    ? "no node was ever here"
    : `there are ${names}${nodes.length > MOST_NAMED ? ", ..." : ""}`;
  throw new Refused(`Cannot find node "${node_id}": ${known}`, {
    why: "not_found",
    says: { code: "none", what: node_id },
  });
}

const MOST_NAMED = 20;

/** The node as it is after the change. */
async function setNode(sql: Sql, node_id: string, change: NodeChange, by: Actor): Promise<NodeListing> {
  await existingNode(sql, node_id);
  await changeNode(sql, node_id, change, by);
  return await existingNode(sql, node_id);
}

/** Forgets a node that is gone for good. What names it waits; a worker that comes there makes it anew. @throws Refused */
async function forgetNode(sql: Sql, node_id: string, by: Actor): Promise<void> {
  await existingNode(sql, node_id);
  const answer = await removeNode(sql, node_id, by);
  if (typeof answer === "string") return;
  const refused = (text: string, fix: string, says: RefusalCode) =>
    new Refused(`Cannot remove node "${node_id}": ${text}`, { why: "conflict", fix, says });
  if ("lives" in answer) {
    const says = { code: "node_lives", worker_id: answer.lives } as const;
    throw refused(
      `its worker ${answer.lives} is not DEAD`,
      "stop it; one that was lost is DEAD once its lease is over",
      says,
    );
  }
  const says = { code: "node_carries", job_run_id: answer.carries } as const;
  throw refused(`run ${answer.carries} is still with a worker of it`, "wait until the leader has taken it back", says);
}

/** Workers by their own id or their node's take no new runs, or take them again. @throws Refused when there are none. */
async function setDrained(
  sql: Sql,
  name: string,
  wish: Actor & { draining: boolean },
): Promise<{ worker_id: string; node_id: string }[]> {
  const moved = await requestDrain(sql, name, wish);
  if (moved.length > 0) return moved;
  const [verb, state] = wish.draining ? ["drain", "active"] : ["undrain", "draining"];
  const known = (await workersNamed(sql, name)).length > 0;
  throw new Refused(`Cannot ${verb} "${name}": no ${state} worker or node of that name`, {
    why: known ? "conflict" : "not_found",
    says: { code: "no_such_worker", name, state },
    fix: "see `deno task nodes ls`",
  });
}

/**
 * The row is the truth; the flag in Redis only tells the worker sooner than its next renewal would. `told` false: Redis
 * could not be reached. @throws Refused when no worker of that id or node can be detached.
 */
async function detachWorkers(
  sql: Sql,
  name: string,
  on: Actor & { redis: RedisPlace | undefined },
): Promise<{ detached: Detached[]; told: boolean }> {
  const detached = await requestDetach(sql, name, on);
  if (detached.length === 0) throw await whyNotDetached(sql, name);
  const ttl_ms = (await readSettings(sql)).worker_lease_seconds * 2_000;
  return { detached, told: on.redis !== undefined && await flagDetached(detached, { redis: on.redis, ttl_ms }) };
}

async function whyNotDetached(sql: Sql, name: string): Promise<Refused> {
  const [found, ...others] = await workersNamed(sql, name);
  const refused = (text: string, why: "conflict" | "not_found", fix?: string) =>
    new Refused(`Cannot detach "${name}": ${text}`, { why, fix, says: { code: "not_detachable", name } });
  if (found && (found.worker_id === name || others.length === 0)) {
    const by = found.detached_by ? `, by ${found.detached_by}: ${found.detach_reason}` : "";
    const text = found.state === "DETACHED" ? `it is DETACHED already${by}` : `${found.worker_id} is DEAD`;
    return refused(text, "conflict");
  }
  if (found) return refused("none of its workers is ACTIVE or DRAINING", "conflict", "see `deno task nodes ls`");
  const known = await listWorkers(sql);
  if (known.length === 0) return refused("no worker is alive", "not_found");
  const names = known.slice(0, MOST_NAMED).map((one) => `${one.worker_id} on ${one.node_id}`).join(", ");
  const more = known.length > MOST_NAMED ? ` and ${known.length - MOST_NAMED} more` : "";
  return refused(`no worker or node has that name; there are ${names}${more}`, "not_found");
}

async function flagDetached(workers: Detached[], on: { redis: RedisPlace; ttl_ms: number }): Promise<boolean> {
  let redis: RedisConnection | undefined;
  try {
    redis = connectRedis(on.redis.redis_url, { prefix: on.redis.redis_prefix, name: "detach" });
    await redis.ready(1_000);
    for (const { worker_id } of workers) await setDetach(redis, worker_id, { ttl_ms: on.ttl_ms });
    return true;
  } catch {
    return false;
  } finally {
    await redis?.close();
  }
}

/**
 * The leader steps down and another worker leads; where there is no other, it leads again after a lease. `epoch`: only if
 * it is still that one. @throws Refused when nobody leads, or it was asked before.
 */
async function degradeLeader(sql: Sql, on: Actor & { epoch?: number }): Promise<Degraded> {
  const leader = await currentLeader(sql);
  if (leader.worker_id === undefined) {
    throw new Refused("Cannot degrade the leader: nobody leads", {
      why: "conflict",
      fix: "see `deno task nodes ls`",
      says: { code: "nobody_leads" },
    });
  }
  const degraded = await requestDegrade(sql, on.epoch ?? leader.epoch, on);
  if (degraded) return degraded;
  const now = `the leader is ${leader.worker_id}, of epoch ${leader.epoch}`;
  throw new Refused(`Cannot degrade the leader: that one steps down already, or has done so; ${now}`, {
    why: "conflict",
    says: { code: "steps_down" },
  });
}

/** What `isAnswered` is asked with, and who is to answer. @throws Refused when nobody leads, or there is no such node. */
async function askForCheck(sql: Sql, node_id: string, by: Actor): Promise<{ due: string; leader: string }> {
  await existingNode(sql, node_id);
  const leader = await currentLeader(sql);
  if (leader.worker_id === undefined) {
    throw new Refused(`Cannot test node "${node_id}": nobody leads; start a worker: deno task worker`, {
      why: "conflict",
      says: { code: "nobody_leads" },
    });
  }
  const due = await requestCheck(sql, node_id, by);
  if (due !== undefined) return { due, leader: leader.worker_id };
  await existingNode(sql, node_id); // it was removed meanwhile, which that says
  return await askForCheck(sql, node_id, by);
}

const ASK_EVERY_MS = 100;
/** For the leader's tick, calls that are tried twice, and a check before that is still under way. */
const PATIENCE_MS = 15_000;

/**
 * Waits for what the leader finds, over the way that work would take, and gives the node with it. `due`: of the check that was asked
 * for. `came` hears each part as it comes, before it is judged by the settings. @throws Refused when no answer came.
 */
export async function awaitCheck(
  sql: Sql,
  node_id: string,
  { due, came }: { due: string; came?: (part: CheckPart) => void },
): Promise<NodeListing> {
  const late_ms = monotonicMs() + (await readSettings(sql)).node_script_seconds * 2_000 + PATIENCE_MS;
  let told = 0;
  while (!await isAnswered(sql, node_id, due)) {
    const parts = came ? await readCheckParts(sql, node_id) : [];
    for (const part of parts.slice(told)) came?.(part);
    told = Math.max(told, parts.length);
    if (monotonicMs() > late_ms) {
      throw new Refused(`Cannot test node "${node_id}": the leader has not answered`, {
        why: "late",
        says: { code: "leader_silent" },
        fix: "see `deno task nodes ls`",
      });
    }
    await rest(ASK_EVERY_MS);
  }
  return await existingNode(sql, node_id);
}

const nodeId = text(200).meta({ description: "the node", example: "gpu-1" });
/** What a selector such as "gpu=a100,zone=tokyo" can name. */
const labelName = z.string().regex(/^[^=,\s\p{Cc}\p{Cs}]{1,100}$/u, "must have no blank, comma or =");
const labelValue = z.string().regex(/^[^=,\s\p{Cc}\p{Cs}]{0,200}$/u, "must have no blank, comma or =");

export const changeOneNode = action({
  name: "node.set",
  does: "change a node: its limit, its labels, maintenance; running bodies go on",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    node_id: nodeId,
    max_concurrent: whole(0, 999_999).nullable().meta({
      description: "Bodies on it at once; null: as many as its workers have slots",
    }).optional(),
    labels: z.record(labelName, labelValue).meta({
      description: "These are set, others stay; an empty value takes the label away",
      example: { gpu: "a100" },
    }).optional(),
    maintenance: z.boolean().meta({ description: "true: it gets no new work and is not checked" }).optional(),
  }).refine(
    ({ node_id: _, ...given }) => Object.values(given).some((value) => value !== undefined),
    "must change something: max_concurrent, labels or maintenance",
  ),
  audit: ["node.set"],
  run: ({ sql, by }, { node_id, ...change }) => setNode(sql, node_id, change, by),
});

export const removeOneNode = action({
  name: "node.remove",
  does: "forget a node that is gone for good; its runs stay",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({ node_id: nodeId }),
  audit: ["node.remove"],
  run: ({ sql, by }, { node_id }) => forgetNode(sql, node_id, by),
});

export const checkNode = action({
  name: "node.test",
  does: "have the leader check a node now",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({ node_id: nodeId }),
  audit: ["node.test"],
  run: ({ sql, by }, { node_id }) => askForCheck(sql, node_id, by),
});

const worker = z.strictObject({
  name: text(200).meta({ description: "a worker's id, or a node: all its workers", example: "w7-af97c3a0" }),
});

export const drainWorkers = action({
  name: "worker.drain",
  does: "let workers take no new runs; those that they have go on",
  needs: "operate",
  reason: "optional",
  input: worker,
  audit: ["worker.drain"],
  run: ({ sql, by }, { name }) => setDrained(sql, name, { ...by, draining: true }),
});

export const undrainWorkers = action({
  name: "worker.undrain",
  does: "let workers take runs again",
  needs: "operate",
  reason: "optional",
  input: worker,
  audit: ["worker.undrain"],
  run: ({ sql, by }, { name }) => setDrained(sql, name, { ...by, draining: false }),
});

export const detachSome = action({
  name: "worker.detach",
  does: "detach workers at once: they kill their bodies, and their runs go elsewhere",
  needs: "operate",
  reason: "optional",
  input: worker,
  audit: ["worker.detach"],
  run: ({ sql, by, redis }, { name }) => detachWorkers(sql, name, { ...by, redis }),
});

export const degrade = action({
  name: "leader.degrade",
  does: "let the leader step down, and another worker lead; running bodies go on",
  needs: "operate",
  reason: "optional",
  input: z.strictObject({
    epoch: z.int().meta({ description: "Only the leader of this epoch; without it whoever leads" }).optional(),
  }),
  audit: ["leader.degrade"],
  run: ({ sql, by }, { epoch }) => degradeLeader(sql, { ...by, epoch }),
});
