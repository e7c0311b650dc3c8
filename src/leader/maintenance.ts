/**
 * What the leader does besides the work: counts what ended, looks at what waits, judges alerts, has checks of nodes follow their settings, and deletes what is old. What takes a
 * while, moving old logs, goes on beside this (retention.ts).
 *
 * Beside the tick, which must not wait for it; one piece after another, each a bounded statement under the term. Nothing is
 * remembered: who leads next goes on from what Postgres has. What takes long is done less often.
 */
import { loopFailed, observe } from "../platform/facts.ts";
import { monotonicMs } from "../platform/timers.ts";
import { judgeAlerts, type Limits, trimAlerts } from "../alerts/alerts.ts";
import { sampleLoad, trimLoadStats } from "../stats/load_stats.ts";
import { restartCounting, rollUp, trimRunStats } from "../stats/run_stats.ts";
import type { Settings } from "../settings/settings.ts";
import { followPace } from "./node_checks.ts";
import type { LeaderContext } from "./leader_context.ts";
import { Retention } from "./retention/retention.ts";

/** A round is followed by a rest of so many times what it took, and never a shorter one than the setting. */
const REST_FACTOR = 20;
/** Deleting begins once in so many rounds, and goes on in the next one while more is left: a thousand jobs count more than one share in that time. */
const TRIM_EVERY = 60;

export class Maintenance {
  #busy = false;
  #ended_ms = -Infinity;
  #took_ms = 0;
  #rounds = 0;
  #trim_left = false;
  readonly #retention = new Retention();

  /** Begins a round when it is time for one. Never waits for it. */
  keep(me: LeaderContext): void {
    this.#retention.keep(me);
    const rest_ms = Math.max(me.settings.stat_interval_seconds * 1000, REST_FACTOR * this.#took_ms);
    if (this.#busy || monotonicMs() < this.#ended_ms + rest_ms) return;
    this.#busy = true;
    const began_ms = monotonicMs();
    this.#round(me).finally(() => {
      this.#ended_ms = monotonicMs();
      this.#took_ms = this.#ended_ms - began_ms;
      this.#rounds++;
      this.#busy = false;
    });
  }

  async #round(me: LeaderContext): Promise<void> {
    const { sql } = me;
    const steps = [
      () => restartCounting(sql, me.term),
      () => countEnded(me),
      () => sampleLoad(sql, me.term),
      () => judge(me),
      () => followPace(me),
      ...this.#trim_left || this.#rounds % TRIM_EVERY === 0 ? [() => this.#trim(me)] : [],
    ];
    for (const step of steps) {
      if (!me.term.trusted) return;
      await step().catch((error: unknown) => loopFailed("leader: housekeeping", error));
    }
  }

  async #trim({ sql, term, settings: { stat_minute_days, stat_hour_days } }: LeaderContext): Promise<void> {
    this.#trim_left = false; // what fails is tried again when it is time
    const runs = await trimRunStats(sql, term, { minute_days: stat_minute_days, hour_days: stat_hour_days });
    const load = await trimLoadStats(sql, term, stat_minute_days);
    await trimAlerts(sql, term, stat_hour_days);
    this.#trim_left = runs || load;
  }
}

async function countEnded(me: LeaderContext): Promise<void> {
  while (me.term.trusted) {
    const share = await rollUp(me.sql, me.term);
    if (!share?.more) return;
  }
}

async function judge(me: LeaderContext): Promise<void> {
  for (const { kind, subject, message, what } of await judgeAlerts(me.sql, me.term, limitsOf(me.settings))) {
    observe(what === "opened" ? "alert.opened" : "alert.closed", { kind, subject, message });
  }
}

function limitsOf(settings: Settings): Limits {
  return {
    overdue_seconds: settings.alert_overdue_seconds,
    no_code_seconds: settings.alert_no_code_seconds,
    leader_runs: settings.leader_runs_jobs !== "never",
    no_leader_seconds: settings.alert_no_leader_seconds,
    certificate_days: settings.alert_certificate_days,
    clock_skew_seconds: settings.alert_clock_skew_seconds,
  };
}
