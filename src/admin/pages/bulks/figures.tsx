/** How a bulk's numbers are written: counts, rates, and the band within which it will be done. */
import { Badge, State } from "../../parts/badge.tsx";
import { timeText } from "../../parts/time.tsx";
import type { BulkView } from "../../../bulks/bulk_view.ts";
import type { RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

export function endedOf(bulk: BulkView): number {
  return bulk.succeeded + bulk.failed + bulk.canceled;
}

export function countText(n: number): string {
  return n.toLocaleString("en-US");
}

/** Never 100 % before the last one has ended. */
export function shareText(bulk: BulkView): string {
  if (bulk.items === 0) return "100 %";
  const percent = Math.min(100, endedOf(bulk) / bulk.items * 100);
  return `${percent === 100 ? "100" : Math.min(percent, 99.9).toFixed(percent < 10 ? 1 : 0)} %`;
}

export function rateText(per_minute: number): string {
  return per_minute >= 10 ? countText(Math.round(per_minute)) : per_minute.toFixed(1);
}

/** "14:32 – 14:40": with the day unless it is today, with seconds where it is soon. */
export function bandText(
  on: RequestContext,
  { done_from, done_to }: { done_from: Date | null; done_to: Date | null },
): string {
  if (!done_from || !done_to) return t(on, "bulks.unknown");
  const soon = Math.abs(done_to.getTime() - on.now.getTime()) < SOON_MS;
  const [from, to] = [clockText(on, done_from, soon), clockText(on, done_to, soon)];
  return from === to ? from : `${from} – ${to}`;
}

const SOON_MS = 600_000;

function clockText(on: RequestContext, at: Date, seconds: boolean): string {
  const [day = "", time = ""] = timeText(at, on.zone).split(" ");
  const clock = time.slice(0, seconds ? 8 : 5);
  const today = timeText(on.now, on.zone).slice(0, 10);
  if (day === today) return clock;
  return `${day.slice(0, 4) === today.slice(0, 4) ? day.slice(5) : day} ${clock}`;
}

/** Its runs in each state, and what has no run yet. */
export function Counts({ on, bulk }: { on: RequestContext; bulk: BulkView }) {
  const unfed = bulk.items - bulk.fed;
  const counts: [state: string, n: number][] = [
    ["SUCCEEDED", bulk.succeeded],
    ["FAILED", bulk.failed],
    ["CANCELED", bulk.canceled],
    ["RUNNING", bulk.running],
    ["SUSPENDED", bulk.suspended],
    ["RETRYING", bulk.retrying],
    ["PENDING", bulk.waiting],
  ];
  return (
    <p class="counts">
      {counts.filter(([, n]) => n > 0).map(([state, n]) => (
        <span>
          <State state={state} /> {countText(n)}
        </span>
      ))}
      {unfed > 0 && (
        <span>
          <Badge tone="quiet" sign="·" text={t(on, "bulks.unfed")} /> {countText(unfed)}
        </span>
      )}
    </p>
  );
}
