/** Nodes, workers and the leader as the API gives them. */
import { count, said, time, z } from "./fields.ts";

const word = z.string().nullable();

const Check = z.object({
  worker_id: word.openapi({ description: "Who was asked; null: there was nobody" }),
  ...said("problem"),
  parts: z.array(z.object({
    name: z.string(),
    ok: z.boolean(),
    ...said("value", z.string()),
    ...said("message", z.string()),
    ms: z.number(),
  })),
});

export const Node = z.object({
  node_id: z.string(),
  is_active: z.boolean().openapi({ description: "False: in maintenance" }),
  status: z.enum(["available", "busy", "unavailable"]),
  labels: z.record(z.string(), z.string()),
  max_concurrent: count.nullable().openapi({ description: "null: as many as its workers have slots" }),
  ...said("problem", word.openapi({ description: "What its last check found wrong" })),
  inactive_by: word,
  ...said("inactive_reason"),
  workers: count.openapi({ description: "Alive on it" }),
  load: count.openapi({
    description:
      "Runs that are ASSIGNED to its workers or RUNNING on them, also on one whose lease is over, until they are taken from it",
  }),
  checked_at: time.nullable(),
  next_check_at: time.nullable(),
  checking: z.boolean().openapi({ description: "A check is due or under way" }),
  failed_checks: count,
  check_result: Check.nullable(),
}).openapi("Node");

export const Worker = z.object({
  worker_id: z.string(),
  node_id: z.string(),
  pid: z.int(),
  role: z.enum(["leader", "subleader", "worker"]),
  state: z.enum(["ACTIVE", "DRAINING", "DETACHED", "DEAD"]),
  detached_by: word,
  ...said("detach_reason"),
  load: count,
  slots: count,
  grpc_host: z.string(),
  grpc_port: z.int(),
  tls_fingerprint: word,
  tls_former_fingerprint: word,
  tls_trust_digest: word,
  tls_not_after: time.nullable().openapi({ description: "Until when its certificate is good" }),
  clock_skew_ms: z.int().nullable().openapi({ description: "Its machine's clock less the database's" }),
  version: z.string(),
  started_at: time,
  seen_at: time.openapi({ description: "When it last renewed its lease" }),
  lease_seconds_left: z.number(),
  other_jobs: count.nullable().openapi({
    description: "Jobs of which it has other files than were synced; null: it has not compared them yet",
  }),
  other_code: z.array(z.object({
    job_name: z.string(),
    digest: z.string().openapi({ description: "What was synced" }),
    found: word.openapi({ description: "What it has; null: its file is missing or cannot be read" }),
    problem: word,
  })).openapi({ description: "The first 20 of them, by name" }),
}).openapi("Worker");

export const Leader = z.object({
  epoch: z.int(),
  worker_id: word,
  node_id: word,
  acquired_at: time.nullable(),
}).openapi("Leader");

export const Moved = z.object({ worker_id: z.string(), node_id: z.string() });
