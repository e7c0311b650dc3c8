/** What each drill is given: the dev that it breaks, the load, a clock for what happens, and somebody to tell. */
import { monotonicMs, rest, wallClock } from "../../platform/timers.ts";
import { RedisAway } from "../../redis/connection.ts";
import { isUnreachable } from "../../postgres/connection.ts";
import { databaseNow } from "../../definitions/definition_rows.ts";
import { currentLeader } from "../../nodes/leadership.ts";
import { workerEnded, type WorkerListing } from "../../nodes/workers.ts";
import { firstStartSince, readHistory, type RunRecord } from "../../runs/run_history.ts";
import { TERMINAL } from "../../runs/run_states.ts";
import { DRILL_JOB } from "./job_file.ts";
import type { DrillLoad } from "./load.ts";
import { DrillError, type Site } from "./site.ts";

export interface Measure {
  what: string;
  ms: number;
}

/** Something that has to come did not. The drill is judged all the same. */
export class TooLate extends Error {
  override name = "TooLate";
}

/** For processes to start on a busy machine, beyond what the leases explain. */
const SLACK_MS = 60_000;
const LOOK_MS = 20;
const FIRST_WORD_MS = 1_500;
const NEXT_WORD_MS = 5_000;

export class Scene {
  readonly site: Site;
  readonly load: DrillLoad;
  readonly measures: Measure[] = [];
  /** What is needed to start a worker as dev does. */
  readonly worker_command: string[];
  /** By this machine's clock, as the ledger's times are. */
  struck_ms = 0;
  /** By the database's clock, as the rows' times are. */
  struck_at = new Date(0);
  readonly #say: (text: string) => void;
  readonly #stop: AbortSignal;
  #before: RunRecord[] = [];

  constructor(
    parts: {
      site: Site;
      load: DrillLoad;
      say: (text: string) => void;
      stop: AbortSignal;
      worker_command: string[];
    },
  ) {
    this.site = parts.site;
    this.load = parts.load;
    this.worker_command = parts.worker_command;
    this.#say = parts.say;
    this.#stop = parts.stop;
  }

  say(text: string): void {
    this.#say(text);
  }

  /** Does the damage, and starts the clocks. */
  async strike(what: string, act: () => Promise<void> | void): Promise<void> {
    this.#before = await this.#runs().catch(() => []);
    this.struck_at = await this.now();
    this.struck_ms = wallClock().getTime();
    await act();
    this.say(what);
  }

  /** Something that happened then, counted from the strike, or from another instant. Both by the database's clock. */
  measure(what: string, at: Date, from: Date = this.struck_at): void {
    this.measures.push({ what, ms: Math.max(0, at.getTime() - from.getTime()) });
  }

  /** How long the leases of these settings can keep something from coming, and then some. */
  get patience_ms(): number {
    const { worker_lease_seconds, leader_lease_seconds, drain_grace_seconds } = this.site.settings;
    return (2 * worker_lease_seconds + leader_lease_seconds + drain_grace_seconds) * 1000 + SLACK_MS;
  }

  /** Asks until there is an answer, and says what it waits for. A store that is away has not answered yet. */
  async until<T>(what: string, ask: () => Promise<T | undefined>, every_ms = LOOK_MS): Promise<T> {
    const began_ms = monotonicMs();
    let word_ms = FIRST_WORD_MS;
    for (;;) {
      if (this.#stop.aborted) throw new DrillError("The drill was interrupted; all is put back", "interrupted");
      if (!this.site.devLives) {
        throw new DrillError(`Cannot go on: dev, process ${this.site.note.pid}, has ended meanwhile`, "no dev");
      }
      const answer = await ask().catch((error) => {
        if (!isUnreachable(error) && !(error instanceof RedisAway)) throw error;
        return undefined;
      });
      if (answer !== undefined) return answer;
      const waited_ms = monotonicMs() - began_ms;
      if (waited_ms > this.patience_ms) {
        throw new TooLate(`waited ${Math.round(waited_ms / 1000)} s in vain for ${what}`);
      }
      if (waited_ms > word_ms) {
        this.say(`${Math.round(waited_ms / 1000)} s: waiting for ${what}`);
        word_ms += NEXT_WORD_MS;
      }
      await rest(every_ms, this.#stop);
    }
  }

  /** The worker that leads, once dev is whole and quiet. */
  async steady(): Promise<WorkerListing> {
    const { node_ids } = this.site.note;
    const whole = `${node_ids.join(", ")} to be at work, one of them leading and another one watching it`;
    return await this.until(whole, () => this.site.steady(), 100);
  }

  /** The same, once it is sure that no worker but dev's is there. */
  async begin(): Promise<WorkerListing> {
    await this.until("the leases of workers that are gone, to see that nobody renews them", async () => {
      await this.site.workers();
      return this.site.isAlone ? true : undefined;
    }, 100);
    return await this.steady();
  }

  /** Waits until somebody leads in a newer epoch, and a run has started by that one's word; measures both. */
  async failover(epoch: number): Promise<void> {
    const { leader_lease_seconds } = this.site.settings;
    await this.load.burst(2); // so that the next leader finds work
    const next = await this.until(`another worker to lead (the lease is ${leader_lease_seconds} s)`, async () => {
      const leader = await currentLeader(this.site.sql);
      return leader.epoch > epoch && leader.worker_id && leader.acquired_at
        ? { ...leader, since: leader.acquired_at }
        : undefined;
    });
    this.measure(`${next.node_id} leads, in epoch ${next.epoch} after ${epoch}`, next.since);
    const started = await this.until("the first run that the new leader gave out", () => {
      return firstStartSince(this.site.sql, { job_name: DRILL_JOB, since: next.since });
    });
    this.measure("the first run that it gave out started", started);
  }

  /** Waits until a worker is declared dead, and what ran on it runs again or has ended; measures it. */
  async recovery(worker: Pick<WorkerListing, "worker_id" | "node_id">): Promise<void> {
    const { sql, settings } = this.site;
    // Also as it was before the strike: a sibling can have put all in order by now.
    const interrupted = [...this.#before, ...await this.#runs()].filter((run) =>
      run.state === "RUNNING" && run.worker_id === worker.worker_id
    );
    const lease = `the lease is ${settings.worker_lease_seconds} s, unless a sibling proves it`;
    const dead = await this.until(`${worker.node_id} to be declared dead (${lease})`, () => {
      return workerEnded(sql, worker.worker_id);
    });
    this.measure(`${worker.node_id} was declared dead`, dead);
    const ids = new Set(interrupted.map((run) => run.job_run_id));
    const again = await this.until(`${ids.size} interrupted runs to run again`, async () => {
      const now = (await this.#runs()).filter((run) => ids.has(run.job_run_id));
      return now.every((run) => TERMINAL.includes(run.state) || (run.attempt > 1 && run.started_at)) ? now : undefined;
    }, 100);
    const starts = again.filter((run) => run.attempt > 1 && run.started_at).map((run) => run.started_at as Date);
    starts.sort((one, other) => one.getTime() - other.getTime());
    const [first, last] = [starts[0], starts.at(-1)];
    if (!first || !last) return;
    this.measure(`the first of its ${starts.length} interrupted runs ran again`, first);
    if (last !== first) this.measure("the last of them ran again", last);
    this.#lastSign("the last sign of life of its bodies", ids);
  }

  /** What ran there went on. */
  lastSign(node_id: string, job_run_ids: number[]): void {
    this.#lastSign(`the bodies of ${node_id} still lived, since its peers confirmed them`, new Set(job_run_ids));
  }

  #lastSign(what: string, job_run_ids: Set<number>): void {
    const signs = this.load.signs().filter((sign) => job_run_ids.has(sign.job_run_id) && sign.attempt === 1);
    const last_ms = Math.max(this.struck_ms, ...signs.map((sign) => sign.at_ms));
    this.measures.push({ what, ms: last_ms - this.struck_ms });
  }

  /** What the database's clock says. */
  async now(): Promise<Date> {
    return new Date((await databaseNow(this.site.sql)).epochMilliseconds);
  }

  /** Waits until a node has a worker of another id, at work. */
  async comesBack(was: Pick<WorkerListing, "worker_id" | "node_id">): Promise<WorkerListing> {
    return await this.until(`${was.node_id} to come back under a new id`, async () => {
      const found = await this.site.find(was.node_id);
      return found && found.worker_id !== was.worker_id && found.state === "ACTIVE" ? found : undefined;
    }, 50);
  }

  async #runs(): Promise<RunRecord[]> {
    return (await readHistory(this.site.sql, { job_name: DRILL_JOB, after_id: this.load.after_id })).runs;
  }
}
