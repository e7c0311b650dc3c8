/** How it went over an hour, a day or a week: the same figures for plots, drawn by a script, and for a table, which needs none. */
import { readBacklogSeries, readUseSeries } from "../../../stats/load_stats.ts";
import { type EndedCounts, RANGES, readSeries, type StatsRange } from "../../../stats/run_stats.ts";
import { Empty } from "../../parts/notes.tsx";
import { Table } from "../../parts/table.tsx";
import { timeText } from "../../parts/time.tsx";
import { link, type RequestContext } from "../../request_context.ts";
import { t } from "../../../locale/locale.ts";

/** Per plot, its lines by name, and how the script colours them. */
const PLOTS = [
  { title: "throughput", lines: ["succeeded", "failed", "other"], tones: ["good", "bad", "soft"] },
  { title: "backlog_plot", lines: ["waiting"], tones: ["accent"] },
  { title: "wait_plot", lines: ["wait_p50", "wait_p95"], tones: ["accent", "warn"] },
  { title: "run_plot", lines: ["run_p50", "run_p95"], tones: ["accent", "warn"] },
  { title: "error_plot", lines: ["error_rate"], tones: ["bad"] },
  { title: "use_plot", lines: ["use"], tones: ["accent"] },
] as const;
type Line = typeof PLOTS[number]["lines"][number];

/** Lines that are called the same in each language. */
const QUANTILES = { wait_p50: true, wait_p95: true, run_p50: true, run_p95: true };

/** One step of a range: counts a minute, times in seconds, shares in percent. Null: nothing to tell. */
type Step = { at: number } & Record<Line, number | null>;

export function rangeOf(on: RequestContext): StatsRange {
  return (Object.keys(RANGES) as StatsRange[]).find((one) => one === on.query.get("range")) ?? "1h";
}

export async function readPlots(on: RequestContext): Promise<{ at: number[] } & Record<Line, (number | null)[]>> {
  const steps = await readSteps(on, rangeOf(on));
  const names = PLOTS.flatMap(({ lines }) => [...lines]);
  const lines = Object.fromEntries(names.map((name) => [name, steps.map((one) => one[name])]));
  return { at: steps.map(({ at }) => at / 1_000), ...lines as Record<Line, (number | null)[]> };
}

async function readSteps(on: RequestContext, range: StatsRange): Promise<Step[]> {
  const [ended, backlog, use] = await Promise.all([
    readSeries(on.sql, range),
    readBacklogSeries(on.sql, range),
    readUseSeries(on.sql, range),
  ]);
  const waiting = new Map(backlog.map((one) => [one.at.getTime(), one.waiting]));
  const used = new Map(use.map((one) => [one.at.getTime(), one.use]));
  return ended.map((one) => {
    const at = one.at.getTime();
    return stepOf(one, { now: on.now, range, waiting: waiting.get(at), use: used.get(at) });
  });
}

/** A step that has just begun has no counts a minute yet: a few seconds say little about them. All else it tells at once. */
export function stepOf(
  ended: { at: Date } & EndedCounts,
  given: { now: Date; range: StatsRange; waiting: number | null | undefined; use: number | null | undefined },
): Step {
  const at = ended.at.getTime();
  const step_ms = RANGES[given.range].step_seconds * 1_000;
  const past_ms = Math.min(step_ms, given.now.getTime() - at);
  const a_minute = (count: number) => past_ms < step_ms / 4 ? null : rounded(count * 60_000 / past_ms);
  return {
    at,
    succeeded: a_minute(ended.succeeded),
    failed: a_minute(ended.failed + ended.timed_out),
    other: a_minute(ended.canceled + ended.skipped),
    waiting: rounded(given.waiting),
    wait_p50: rounded(ended.wait_p50),
    wait_p95: rounded(ended.wait_p95),
    run_p50: rounded(ended.run_p50),
    run_p95: rounded(ended.run_p95),
    error_rate: rounded(ended.error_rate, 100),
    use: rounded(given.use, 100),
  };
}

function rounded(value: number | null | undefined, times = 1): number | null {
  return value === null || value === undefined ? null : Math.round(value * times * 1_000) / 1_000;
}

/** What the table shows, where it is asked for. */
export async function tableSteps(on: RequestContext): Promise<Step[] | undefined> {
  return on.query.has("table") ? await readSteps(on, rangeOf(on)) : undefined;
}

export function Plots({ on, steps }: { on: RequestContext; steps: Step[] | undefined }) {
  const range = rangeOf(on);
  const table = steps !== undefined;
  return (
    <>
      <nav class="ranges" aria-label={t(on, "overview.range")}>
        {(Object.keys(RANGES) as StatsRange[]).map((one) => (
          <a
            class="button small"
            href={link(on, on.path, { range: one, table: table ? "1" : "" })}
            aria-current={one === range ? "true" : undefined}
          >
            {t(on, `overview.range.${one}`)}
          </a>
        ))}
        <a class="button small quiet" href={link(on, on.path, { range, table: table ? "" : "1" })}>
          {table ? t(on, "overview.as_plots") : t(on, "overview.as_table")}
        </a>
      </nav>
      {steps ? <StepTable on={on} steps={steps} /> : <Boxes on={on} range={range} />}
    </>
  );
}

/** The script draws into these; their size is known before, so that nothing jumps. */
function Boxes({ on, range }: { on: RequestContext; range: StatsRange }) {
  return (
    <>
      <noscript>
        <p class="nothing">{t(on, "overview.no_script")}</p>
      </noscript>
      <div id="plots" class="plots" data-from={link(on, "/overview/plots", { range })} data-range={range}>
        {PLOTS.map(({ title, lines, tones }) => (
          <section>
            <h2>{t(on, `overview.plot.${title}`)}</h2>
            <div
              class="plot"
              role="img"
              aria-label={t(on, `overview.plot.${title}`)}
              data-time={t(on, "overview.at")}
              data-lines={lines.join(",")}
              data-names={lines.map((one) => nameOf(on, one)).join("|")}
              data-tones={tones.join(",")}
            >
            </div>
          </section>
        ))}
      </div>
    </>
  );
}

function nameOf(on: RequestContext, line: Line): string {
  return line in QUANTILES ? line.slice(-3) : t(on, `overview.line.${line as Exclude<Line, keyof typeof QUANTILES>}`);
}

function StepTable({ on, steps }: { on: RequestContext; steps: Step[] }) {
  const rows = steps.filter(({ at: _, ...lines }) => Object.values(lines).some((value) => (value ?? 0) > 0));
  if (rows.length === 0) return <Empty text={t(on, "overview.none_yet")} />;
  return (
    <Table
      label={t(on, "overview.as_table")}
      rows={rows.toReversed()}
      columns={[
        { head: t(on, "overview.at"), cell: (one) => timeText(new Date(one.at), on.zone).slice(5, 16) },
        ...PLOTS.flatMap(({ title, lines }) =>
          lines.map((line) => ({
            head: lines.length > 1
              ? `${t(on, `overview.plot.${title}`)}: ${nameOf(on, line)}`
              : t(on, `overview.plot.${title}`),
            kind: "number" as const,
            cell: (one: Step) => one[line] ?? "–",
          }))
        ),
      ]}
    />
  );
}
