/**
 * The load of a drill: each second a slot of a schedule, an event, an enqueued run and one of a serial key, all of a job
 * that the drill adds and removes again (job_file.ts). What was asked for is noted before it is asked, and asked again
 * until it was heard, as an application with an idempotency key does; so whatever has no run in the end was lost.
 *
 *   begin: leftovers ended -> folder and file written -> synced -> new runs
 *   settle: new runs stop -> schedule stopped -> bodies released -> all ended
 *   remove: what is left canceled -> folder removed -> definition switched off -> what came meanwhile canceled; its history stays
 *
 * When the drill is killed, the folders go all the same (undo.ts), dev's next sync switches the definition off, and
 * bodies that find their ledger gone end.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { every, rest, wallClock } from "../../platform/timers.ts";
import { messageOf } from "../../platform/text.ts";
import { nextSlots } from "../../schedules/calendar.ts";
import { createRuns } from "../../runs/create_runs.ts";
import { isUnreachable, type Sql } from "../../postgres/connection.ts";
import {
  databaseNow,
  lockDefinitions,
  readDefinition,
  removeDefinitions,
  stopSchedules,
  type StoredSchedule,
} from "../../definitions/definition_rows.ts";
import { emitEvent } from "../../events/events.ts";
import { requestCancel } from "../../runs/requests.ts";
import { readHistory } from "../../runs/run_history.ts";
import { listRuns } from "../../runs/run_view.ts";
import { NOT_ENDED } from "../../runs/run_states.ts";
import { DRILL_EVENT, DRILL_FOLDER, DRILL_JOB, type DrillArgs, jobSource, secondsOf } from "./job_file.ts";
import type { History, Sign } from "./judge.ts";
import { DrillError } from "./site.ts";
import { Undo } from "./undo.ts";

export interface LoadParts {
  sql: Sql;
  jobs_dir: string;
  state_dir: string;
  /** Syncs jobs/; gives what is wrong with it, as text, or nothing. */
  sync(): Promise<string | undefined>;
}

const NEW_RUN_EVERY_MS = 333;
/** Longer than any drill; the schedule names no minute after it. */
const DRILL_MINUTES = 15;
const SHORT: DrillArgs = { hold_ms: 200 };
const CLEAR_WITHIN_MS = 15_000;
const MOST_RUNS = 1_000_000;

export class DrillLoad {
  readonly #parts: LoadParts;
  readonly #folders: { jobs: string; ledger: string };
  readonly #id = crypto.randomUUID().slice(0, 8);
  readonly #expected: string[] = [];
  readonly #held: number[] = [];
  readonly #stop = new AbortController();
  /** Fires when not even what was asked already is asked again. */
  readonly #over = new AbortController();
  #new_runs: Promise<unknown> = Promise.resolve();
  #removal: Undo | undefined;
  #count = 0;
  #stopped_ms = Infinity;
  #after_id = 0;
  #definition_id = 0;
  #schedules: StoredSchedule[] = [];

  constructor(parts: LoadParts) {
    this.#parts = parts;
    this.#folders = { jobs: `${parts.jobs_dir}/${DRILL_FOLDER}`, ledger: `${parts.state_dir}/drill` };
  }

  /** Adds the job, and begins. */
  async begin(): Promise<void> {
    const { sql } = this.#parts;
    await this.#clear("left by a drill that did not end well");
    this.#writeFolders(await databaseNow(sql));
    const problem = await this.#parts.sync();
    if (problem) throw new DrillError(`Cannot drill: the jobs folder cannot be synced, mend it first: ${problem}`);
    // As one picture: the leader may have planned the first slots already, and those are not counted.
    const [definition, newest] = await sql.begin(
      "isolation level repeatable read",
      async (tx) =>
        [await readDefinition(tx, DRILL_JOB), await listRuns(tx, { job_name: DRILL_JOB, most: 1 })] as const,
    );
    this.#after_id = newest[0]?.id ?? 0;
    this.#schedules = definition?.schedules ?? [];
    if (!definition?.enabled || this.#schedules.length === 0) {
      throw new DrillError(
        `Cannot drill: the job "${DRILL_JOB}" was synced and is switched off; switch it on, or remove it`,
      );
    }
    this.#definition_id = definition.id;
    const kinds = [() => this.#enqueue(SHORT), () => this.#emit(), () => this.#enqueue(SHORT, "dandori_drill")];
    this.#new_runs = every(NEW_RUN_EVERY_MS, async () => {
      await kinds[this.#count % kinds.length]?.();
    }, { name: "the load of a drill", stop: this.#stop.signal });
  }

  /** Runs up to this one are older than the load. */
  get after_id(): number {
    return this.#after_id;
  }

  /** Some more runs, whose bodies live until `settle`, or until their worker dies. */
  async hold(count: number): Promise<void> {
    for (let run = 0; run < count; run++) this.#held.push(await this.#enqueue({ until_released: true }));
  }

  /** Some short runs at once. */
  async burst(count: number): Promise<void> {
    for (let run = 0; run < count; run++) await this.#enqueue(SHORT);
  }

  /** The held runs whose bodies live on this worker. */
  async heldOn(worker_id: string): Promise<number[]> {
    const running = await listRuns(this.#parts.sql, { job_name: DRILL_JOB, states: ["RUNNING"], most: MOST_RUNS });
    const alive = new Set(this.signs().map((sign) => `${sign.job_run_id}:${sign.attempt}`));
    return running.filter((run) => this.#held.includes(run.id) && run.assigned_worker_id === worker_id)
      .filter((run) => alive.has(`${run.id}:${run.attempt}`)).map((run) => run.id);
  }

  /** No more new runs. The schedule goes on until `stopSchedule`. */
  async stop(): Promise<void> {
    this.#stopped_ms = Math.min(this.#stopped_ms, wallClock().getTime());
    this.#stop.abort();
    await this.#new_runs;
  }

  /** When the new runs stopped, by this machine's clock. */
  get stopped_ms(): number {
    return this.#stopped_ms;
  }

  /** How far the schedule is planned, in ms behind the database's clock; it moves on with each second. */
  async behind_ms(): Promise<number> {
    const schedules = (await readDefinition(this.#parts.sql, DRILL_JOB))?.schedules ?? [];
    const last_ms = Math.max(...schedules.map((schedule) => schedule.last_slot.epochMilliseconds));
    return (await databaseNow(this.#parts.sql)).epochMilliseconds - last_ms;
  }

  /** No more slots; those up to now are among what is expected. Lets held bodies end. */
  async stopSchedule(): Promise<void> {
    await stopSchedules(this.#parts.sql, DRILL_JOB);
    for (const now of (await readDefinition(this.#parts.sql, DRILL_JOB))?.schedules ?? []) {
      const before = this.#schedules.find((schedule) => schedule.id === now.id);
      if (before) this.#expected.push(...slotKeys(before, now));
    }
    this.release();
  }

  /** Lets held bodies end. */
  release(): void {
    writeFileSync(`${this.#folders.ledger}/released`, "");
  }

  /** Runs that have not ended. */
  async open(): Promise<number[]> {
    const open = await listRuns(this.#parts.sql, { job_name: DRILL_JOB, states: NOT_ENDED, most: MOST_RUNS });
    return open.map((run) => run.id);
  }

  async history(uncharged: boolean): Promise<History> {
    const { runs, attempts } = await readHistory(this.#parts.sql, { job_name: DRILL_JOB, after_id: this.#after_id });
    const signs = this.signs().filter((sign) => sign.job_run_id > this.#after_id);
    return { expected: this.#expected, runs, attempts, signs, uncharged };
  }

  /** All that the bodies have signed; a last line that is not whole yet is left out. */
  signs(): Sign[] {
    const lines = Deno.readTextFileSync(`${this.#folders.ledger}/ledger`).split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line) as Sign);
  }

  /** Leaves nothing of the load but its history. Where Postgres is away, dev does the rest when it syncs again. */
  async remove(): Promise<void> {
    this.#over.abort();
    try {
      await this.stop();
      await this.#clear("the drill is over");
    } catch (error) {
      if (!isUnreachable(error)) throw error;
    } finally {
      await this.#removal?.now();
    }
    try {
      await this.#parts.sql.begin(async (tx) => {
        await lockDefinitions(tx);
        await removeDefinitions(tx, [DRILL_JOB]);
      });
      await this.#clear("the drill is over"); // what a slot or an event began until then would wait for ever
    } catch (error) {
      if (!isUnreachable(error)) throw error;
    }
  }

  #writeFolders(now: Temporal.Instant): void {
    const { jobs, ledger } = this.#folders;
    try {
      for (const folder of [jobs, ledger]) rmSync(folder, { recursive: true, force: true });
      this.#removal = Undo.removal(jobs, ledger);
      for (const folder of [jobs, ledger]) mkdirSync(folder, { recursive: true });
    } catch (error) {
      const why = messageOf(error);
      throw new DrillError(
        `Cannot drill: a drill adds a job file for as long as it lasts, and cannot write it: ${why}`,
      );
    }
    writeFileSync(`${ledger}/ledger`, "");
    writeFileSync(`${jobs}/.gitignore`, "*\n");
    const source = jobSource({ folder: ledger, crons: secondsOf(now, DRILL_MINUTES) });
    writeFileSync(`${jobs}/${DRILL_JOB}.ts`, source);
  }

  /** Cancels what has not ended, and waits a while for it. */
  async #clear(reason: string): Promise<void> {
    const late = AbortSignal.timeout(CLEAR_WITHIN_MS);
    for (const id of await this.open()) await requestCancel(this.#parts.sql, id, { actor: "drill", reason });
    while ((await this.open()).length > 0 && !late.aborted) await rest(100);
  }

  async #enqueue(args: DrillArgs, serial_key?: string): Promise<number> {
    const idempotency_key = `${this.#id}-${++this.#count}`;
    this.#expected.push(`enqueue:${this.#definition_id}:${idempotency_key}`);
    const new_run = { job_name: DRILL_JOB, args, idempotency_key, serial_key };
    const [created] = await this.#untilHeard(() => createRuns(this.#parts.sql, [new_run]));
    if (created?.job_run_id === undefined) {
      throw new DrillError(`Cannot drill: the job "${DRILL_JOB}" was removed meanwhile`);
    }
    return created.job_run_id;
  }

  async #emit(): Promise<void> {
    const dedupe_key = `${this.#id}-${++this.#count}`;
    const event = { event_type: DRILL_EVENT, payload: SHORT, dedupe_key };
    const id = await this.#untilHeard(() => emitEvent(this.#parts.sql, event));
    this.#expected.push(`event:${id}:${this.#definition_id}`);
  }

  /** An application does the same with its idempotency key. */
  async #untilHeard<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!isUnreachable(error) || this.#over.signal.aborted) throw error;
        await rest(100, this.#over.signal);
      }
    }
  }
}

/** The creation keys of all slots that a schedule has had between two looks at it. */
export function slotKeys(before: StoredSchedule, after: StoredSchedule): string[] {
  const count = Math.ceil(after.last_slot.since(before.last_slot).total("seconds")) + 1;
  return nextSlots(before, { after: before.last_slot, count })
    .filter((slot) => Temporal.Instant.compare(slot, after.last_slot) <= 0)
    .map((slot) => `time:${before.id}:${slot.toString()}`);
}
