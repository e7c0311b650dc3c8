/**
 * jobs/ -> definitions. One broken file fails the whole sync, and nothing changes; otherwise all changes are stored in
 * one transaction.
 *
 *   files -> graphs and digests -> describe those whose digest is not the stored one -> plan -> lock, still so? -> store
 *
 * Syncs that run at once take turns at the lock, and one that planned against what another has changed since begins
 * again. A file whose digest is the stored one is not described: its top level has no permissions, so its code is all
 * that its description can depend on.
 */
import { observe } from "../platform/facts.ts";
import type { ProcessPool } from "../sandbox/process_pool.ts";
import type { Db, Sql, TransactionSql } from "../postgres/connection.ts";
import {
  countWaitingRuns,
  databaseNow,
  lockDefinitions,
  noteFollowers,
  readDefinitions,
  removeDefinitions,
  saveDefinitions,
  type StoredDefinition,
} from "../definitions/definition_rows.ts";
import type { Actor } from "../access/audit.ts";
import { noteFileValues, readOverrides } from "../definitions/override_rows.ts";
import { type Checkout, goingBack, lastSync, recordSync, type SyncedJob, type SyncView } from "../definitions/syncs.ts";
import { checkoutOf } from "./checkout.ts";
import { namesNotIn } from "./code_names.ts";
import { describeJob } from "./describe.ts";
import { type GraphAnswer, moduleGraphs } from "./module_graph.ts";
import { findJobFiles, type JobFile } from "./job_files.ts";
import { bulkMisfitsOf, misfitsOf } from "./misfits.ts";
import { namedJobs, type NamingAnswer, type NamingJob } from "./named_jobs.ts";
import {
  type Changes,
  type FileState,
  isDrift,
  makePlan,
  type Plan,
  type PlanWarning,
  sameJson,
  type StoredState,
} from "./plan.ts";
import { whyAsk } from "./confirmation.ts";
import type { SyncProblem } from "./problem.ts";
import { whyInfeasible } from "../dispatch/feasibility.ts";
import { journalsInFlight } from "../steps/journals_in_flight.ts";

export interface SyncParts {
  sql: Sql;
  /** For the audit. */
  by: Actor;
  sandbox: Pick<ProcessPool, "describe">;
  jobs_dir: string;
  project_dir: string;
}

export interface SyncOptions {
  /** `apply` stores the plan; `plan` and `check` only make it. */
  mode: "apply" | "plan" | "check";
  /** Describes every file, also those whose digest is the stored one. */
  describe_all?: boolean;
  /** How long one file may take to load; default 10 s. */
  describe_ms?: number;
  /**
   * Asked before what takes jobs away or brings old code back (`needs_yes`) is stored; false: nothing is. Left out by whoever
   * owns the database, where the files are always right.
   */
  confirm?(report: SyncReport): Promise<boolean>;
}

export interface SyncReport {
  mode: SyncOptions["mode"];
  /** When there are any, nothing was changed, and there is no plan. */
  problems: SyncProblem[];
  plan: Plan | null;
  applied: boolean;
  /** Whether files and definitions differ, or did before this was applied. */
  drift: boolean;
  /** Why somebody should say that this is meant; empty: nothing is taken away, and no older code comes back. */
  needs_yes: string[];
  /** Where the files come from; null: there was nothing to store. */
  checkout: Checkout | null;
  /** The last sync that stored something, and after this one was applied still the one before it. */
  last_sync: SyncView | null;
  /** The sync that was stored now, or else the last one. */
  sync_id: number | null;
}

const NOTHING = { plan: null, applied: false, drift: false, needs_yes: [], checkout: null };

/** Bodies of job files that are loaded at once. */
const DESCRIBED_AT_ONCE = 4;
const TRIES = 5;

export async function sync(parts: SyncParts, options: SyncOptions): Promise<SyncReport> {
  for (let attempt = 1;; attempt++) {
    const stored = await readKnown(parts.sql);
    const now = await databaseNow(parts.sql);
    const { files, problems } = await readFiles(parts, {
      ...options,
      stored: options.describe_all ? [] : stored.definitions,
      now,
    });
    const named = problems.length > 0 ? NOTHING_NAMED : await namedJobs(namingJobs(files, stored.definitions));
    problems.push(...named.problems);
    const last_sync = await lastSync(parts.sql) ?? null;
    const report: SyncReport = { ...NOTHING, mode: options.mode, problems, last_sync, sync_id: last_sync?.id ?? null };
    if (problems.length > 0) return report;
    const { plan, changes } = makePlan(stored, files, await databaseNow(parts.sql));
    await countInto(plan, changes, parts.sql);
    await lookAtJournals(plan, { changes, files }, parts.sql);
    plan.warnings.push(...named.warnings, ...await supplyWarnings(parts.sql, stored, { plan, changes }));
    const drift = isDrift(plan);
    if (!drift) return { ...report, plan };
    const checkout = await checkoutOf(parts.jobs_dir);
    const planned = { ...report, plan, drift, checkout, needs_yes: whyAsk(plan, { checkout, last_sync }) };
    if (options.mode !== "apply") return planned;
    if (planned.needs_yes.length > 0 && options.confirm && !await options.confirm(planned)) return planned;
    const sync_id = await store(parts, { plan, changes, checkout, planned_against: stored });
    if (sync_id !== undefined) {
      observe("sync.applied", {
        added: plan.added.length,
        changed: plan.changed.length,
        removed: plan.removed.length,
      });
      return { ...planned, applied: true, sync_id };
    }
    if (attempt === TRIES) {
      throw new Error(
        `Cannot sync: other syncs changed the definitions ${TRIES} times meanwhile; let one of them finish`,
      );
    }
  }
}

const NOTHING_NAMED: NamingAnswer = { problems: [], warnings: [] };

/** All jobs that there will be, as their files have them. */
function namingJobs(files: FileState[], stored: StoredDefinition[]): NamingJob[] {
  const known = new Map(stored.map((one) => [one.name, one]));
  return files.map(({ file, job }) => {
    const { name, after_jobs, permissions } = job?.definition ?? known.get(file.name) as StoredDefinition;
    return { name, after_jobs, permissions, file };
  });
}

/** The files with their digests, and the descriptions of those whose digest is not the stored one. */
async function readFiles(
  parts: SyncParts,
  on: { stored: StoredDefinition[]; now: Temporal.Instant; describe_ms?: number },
): Promise<{ files: FileState[]; problems: SyncProblem[] }> {
  const { files, problems } = await findJobFiles(parts.jobs_dir);
  if (files.length === 0) return { files: [], problems };
  const paths = files.map((file) => file.path);
  const graphs = await moduleGraphs(paths, parts);
  const known = new Map(on.stored.filter((one) => !one.removed_at).map((one) => [one.name, one.digest]));
  const describe = (file: JobFile) =>
    readFile(file, graphs.get(file.path) as GraphAnswer, { ...parts, ...on, known_digest: known.get(file.name) });
  const states = await inParallel(files, DESCRIBED_AT_ONCE, describe);
  const again = await moduleGraphs(paths, parts);
  states.forEach((state, place) => {
    if (!("digest" in state)) return void problems.push(...state.problems);
    const file = files[place] as JobFile;
    const graph = again.get(file.path);
    if (graph?.ok && graph.graph.digest === state.digest) return;
    problems.push({
      file: file.command_name,
      reason: "it, or a file that it imports, changed while it was read",
      fix: "sync again",
    });
  });
  return { files: states.filter((state) => "digest" in state), problems: inOrder(problems) };
}

/** By file and line; a shared module that is broken is told of once, not by each job that imports it. */
function inOrder(problems: SyncProblem[]): SyncProblem[] {
  const told = new Map(problems.map((problem) => [JSON.stringify(problem), problem]));
  return [...told.values()].sort((a, b) =>
    (a.file ?? "").localeCompare(b.file ?? "", "en") || (a.line ?? 0) - (b.line ?? 0)
  );
}

async function readFile(
  file: JobFile,
  answer: GraphAnswer,
  on: { sandbox: SyncParts["sandbox"]; known_digest: string | undefined; now: Temporal.Instant; describe_ms?: number },
): Promise<FileState | { problems: SyncProblem[] }> {
  if (!answer.ok) return { problems: answer.problems };
  const { digest, files: code } = answer.graph;
  if (digest === on.known_digest) return { file, digest, code };
  const described = await describeJob(file, { ...on, digest });
  return described.ok ? { file, digest, code, job: described.job } : { problems: described.problems };
}

/** Stores the changes if the definitions still are what the plan was made against; undefined: they are not. */
async function store(
  { sql, by }: SyncParts,
  on: { plan: Plan; changes: Changes; checkout: Checkout; planned_against: StoredState },
): Promise<number | undefined> {
  const { plan, changes, checkout, planned_against } = on;
  try {
    return await sql.begin(async (tx: TransactionSql) => {
      await lockDefinitions(tx);
      if (!sameJson(withoutSlots(await readKnown(tx)), withoutSlots(planned_against))) return undefined;
      await saveDefinitions(tx, changes.save, changes.schedules);
      await removeDefinitions(tx, changes.remove);
      await noteFollowers(tx);
      await noteFileValues(tx, changes.file_values);
      return await recordSync(tx, { by, checkout, jobs: syncedJobs(plan, { changes, stored: planned_against }) });
    });
  } catch (error) {
    if ((error as { code?: string }).code === DEADLOCK) return undefined; // with the leader, over slots: plan again
    throw error;
  }
}

/** Each job that changes, as the audit keeps it. */
function syncedJobs(plan: Plan, { changes, stored }: { changes: Changes; stored: StoredState }): SyncedJob[] {
  const kept = ["added", "changed", "removed"] as const;
  return kept.flatMap((change) =>
    plan[change].map(({ name, fields, schedules, permissions_gained }) => {
      const old = stored.definitions.find((one) => one.name === name);
      const now = changes.save.find((one) => one.name === name);
      const before = old && !old.removed_at ? { digest: old.digest, permissions: old.permissions } : null;
      const after = now && {
        digest: now.digest,
        permissions: now.permissions,
        permissions_gained,
        fields: fields.map(({ field }) => field),
        schedules: schedules.filter((one) => one.change !== "unchanged").map((one) => one.schedule_id),
      };
      return { name, change, before, after: after ?? null };
    })
  );
}

const DEADLOCK = "40P01";

async function readKnown(sql: Db): Promise<StoredState> {
  return { definitions: await readDefinitions(sql), overrides: await readOverrides(sql) };
}

/** What is known without what the leader moves on, as plain JSON. */
function withoutSlots({ definitions, overrides }: StoredState): unknown {
  const rows = definitions.map(({ schedules, removed_at, ...definition }) => ({
    ...definition,
    removed_at: removed_at?.toString() ?? null,
    schedules: schedules.map(({ last_slot: _, next_slot: __, ...schedule }) => schedule),
  }));
  return [rows, overrides];
}

/** Of the changes, what waits for each, and which code was there before. */
async function countInto(plan: Plan, changes: Changes, sql: Sql): Promise<void> {
  const counts = await countWaitingRuns(sql, [...changes.touched.values()]);
  for (const change of [...plan.added, ...plan.changed, ...plan.removed]) {
    change.waiting_runs = counts.get(changes.touched.get(change.name) ?? -1) ?? 0;
  }
  const wanted = changes.save.flatMap(({ name, digest }) => {
    const job_definition_id = changes.touched.get(name);
    return job_definition_id === undefined ? [] : [{ job_definition_id, digest }];
  });
  const back = new Map((await goingBack(sql, wanted)).map((one) => [one.job_definition_id, one]));
  for (const change of plan.changed) {
    const { stored, earlier } = back.get(changes.touched.get(change.name) ?? -1) ?? {};
    if (stored && earlier) change.goes_back = { stored, earlier };
    const schema = changes.save.find(({ name }) => name === change.name)?.args_schema ?? null;
    if (!change.fields.some(({ field }) => field === "args_schema")) continue;
    const id = changes.touched.get(change.name) ?? -1;
    const misfits = change.waiting_runs === 0 ? undefined : await misfitsOf(sql, id, schema);
    if (misfits) change.misfits = misfits;
    const bulk_misfits = await bulkMisfitsOf(sql, id, schema);
    if (bulk_misfits.length > 0) change.bulk_misfits = bulk_misfits;
  }
}

/** Of jobs whose code changes: what their runs have recorded, and what of that the new code does not name. */
async function lookAtJournals(plan: Plan, on: { changes: Changes; files: FileState[] }, sql: Sql): Promise<void> {
  for (const change of plan.changed.filter(({ fields }) => fields.some(({ field }) => field === "code"))) {
    const journals = await journalsInFlight(sql, on.changes.touched.get(change.name) ?? -1);
    if (!journals) continue;
    const { code = [], job } = on.files.find(({ file }) => file.name === change.name) ?? {};
    const on_change = job?.definition.on_change ?? "continue";
    change.journals = {
      ...journals,
      on_change,
      gone: on_change === "continue" ? await namesNotIn(code, journals.names) : [],
    };
  }
}

/** Of all jobs, as long as it is so: what their runs need, and nothing that there is could give. */
async function supplyWarnings(
  sql: Sql,
  stored: StoredState,
  { plan, changes }: { plan: Plan; changes: Changes },
): Promise<PlanWarning[]> {
  const kept = stored.definitions.filter(({ name }) => plan.unchanged.includes(name));
  const warnings: PlanWarning[] = [];
  for (const { name, node, resources } of [...changes.save, ...kept]) {
    const selectors = node !== null && !node.includes("{") ? [node] : []; // what a template names, its runs will tell
    const lack = await whyInfeasible(sql, { selectors, resources });
    if (lack) warnings.push({ job: name, warning: `its runs will wait: ${lack.reason}; ${lack.fix}` });
  }
  return warnings;
}

/** The answers in the order of the items, with at most `at_once` of them being worked on. */
async function inParallel<Item, Answer>(
  items: Item[],
  at_once: number,
  work: (item: Item) => Promise<Answer>,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  const left = items.entries();
  const worker = async () => {
    for (const [place, item] of left) answers[place] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(at_once, items.length) }, worker));
  return answers;
}
