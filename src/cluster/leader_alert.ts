/**
 * Looks at the leader from outside: whoever does not lead opens the alert that nobody does, and a subleader also the one
 * that due work does not start, since a leader that is stuck would not say so of itself. No term is needed for that: each
 * is one statement that judges by the database's clock, and the leader closes what is over.
 */
import { observe } from "../platform/facts.ts";
import { chance, every } from "../platform/timers.ts";
import { watchLeader } from "../alerts/alerts.ts";
import { isUnreachable, type Sql } from "../postgres/connection.ts";
import type { LocalWorkerState } from "../worker/worker_state.ts";

/** Spread by chance, so that many workers do not look at once. */
const LOOK_MS = 10_000;

/** Until stopped. */
export async function watchForLeader(parts: { sql: Sql; local: LocalWorkerState }, stop: AbortSignal): Promise<void> {
  await every(LOOK_MS, async () => {
    await checkLeaderOnce(parts).catch((error) => {
      if (!isUnreachable(error)) throw error;
    });
    const { alert_no_leader_seconds } = parts.local.settings;
    return Math.min(LOOK_MS, alert_no_leader_seconds * 500) * (0.75 + 0.5 * chance());
  }, { name: "lookout", stop });
}

/** One look. */
export async function checkLeaderOnce({ sql, local }: { sql: Sql; local: LocalWorkerState }): Promise<void> {
  const { role, worker_id, settings } = local;
  if (role === "leader") return;
  const opened = await watchLeader(sql, { worker_id, overdue: role === "subleader" }, {
    no_leader_seconds: settings.alert_no_leader_seconds,
    overdue_seconds: settings.alert_overdue_seconds,
    leader_runs: settings.leader_runs_jobs !== "never",
  });
  for (const { kind, subject, message } of opened) observe("alert.opened", { kind, subject, message });
}
