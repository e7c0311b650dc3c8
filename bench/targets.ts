/**
 * What the project means to reach, as ratios of two figures of one run wherever that is possible, since machines differ, and
 * what became of it: met, not met, or not measured.
 */
import type { Figure } from "./workload.ts";

/** One figure; `who` is the project where it is not given. */
export interface Of {
  workload: string;
  how?: string;
  measure: string;
  who?: string;
}

interface Target {
  what: string;
  of: Of;
  /** Measured against this one; else the value itself counts. */
  against?: Of;
  least?: number;
  most?: number;
}

export interface Verdict {
  what: string;
  /** The figure, its ratio where there is one to compare with, and what it was to be. */
  value: string;
  ratio: number | null;
  target: string;
  met: boolean | undefined;
}

const rate = (how: string): Of => ({ workload: "throughput", how, measure: "rate" });
const bullmq = (of: Of, how = "as it comes"): Of => ({ ...of, who: "bullmq", how });
const behind = (how: string): Target => ({
  what: `first 2,000 runs, 1,000,000 waiting ${how}, against none`,
  of: { workload: "backlog", how, measure: "ratio" },
  least: 0.9,
});
const each = (isolation: string): Target[] => {
  const pickup = { workload: "pickup", how: isolation, measure: "p50" };
  return [
    { what: `pickup p50, ${isolation}, against BullMQ`, of: pickup, against: bullmq(pickup), most: 1.5 },
    { what: `pickup p99, ${isolation}`, of: { ...pickup, measure: "p99" }, most: 12 },
    { what: `due time to body p50, ${isolation}`, of: { ...pickup, workload: "due" }, most: 2 },
    { what: `due time to body p99, ${isolation}`, of: { ...pickup, workload: "due", measure: "p99" }, most: 6 },
  ];
};
const idle = (measure: string, most: number): Target => ({
  what: `idle: ${measure}`,
  of: { workload: "idle", measure },
  most,
});
const page = (what: string, measure: string, most: number): Target => ({
  what,
  of: { workload: "pages", how: "all of them", measure },
  most,
});
const stepsOf = (how: string): Target[] => {
  const steps = { workload: "steps", how };
  const dbos = { ...steps, measure: "rate", who: "dbos" };
  return [
    { what: `steps/s, ${how}, against DBOS Transact`, of: { ...steps, measure: "rate" }, against: dbos, least: 3 },
    { what: `CPU of everything per 1,000 steps, ${how}`, of: { ...steps, measure: "cpu all" }, most: 0.4 },
  ];
};
const growth = (measure: string, most: number): Target => ({
  what: `memory: ${measure}`,
  of: { workload: "memory", measure },
  most,
});

const inTurn = (what: string, how: string, least: number): Target => ({
  what: `throughput, reuse, against ${what}, in turn`,
  of: { workload: "turns", how: `against bullmq, ${how}`, measure: "ratio" },
  least,
});

const TARGETS: Target[] = [
  inTurn("BullMQ's processes", "sandboxed", 3),
  inTurn("BullMQ", "as it comes", 1),
  {
    what: "throughput, reuse, against BullMQ's processes",
    of: rate("reuse"),
    against: bullmq(rate(""), "sandboxed"),
    least: 3,
  },
  { what: "throughput, reuse, against BullMQ", of: rate("reuse"), against: bullmq(rate("")), least: 1 },
  {
    what: "throughput, reuse, against graphile-worker tuned",
    of: rate("reuse"),
    against: { ...rate("tuned"), who: "graphile-worker" },
  },
  {
    what: "throughput, reuse, against pg-boss tuned",
    of: rate("reuse"),
    against: { ...rate("tuned"), who: "pg-boss" },
  },
  ...["one after another", "two for each core"].map((how) => ({
    what: `throughput, process, against bare \`deno run\`, ${how}`,
    of: rate("process"),
    against: { workload: "bare-deno", who: "machine", how, measure: "rate" },
    least: 0.9,
  })),
  { what: "CPU of everything, reuse", of: { ...rate("reuse"), measure: "cpu all" }, most: 0.3 },
  {
    what: "CPU of everything, reuse, against BullMQ's processes",
    of: { ...rate("reuse"), measure: "cpu all" },
    against: bullmq({ ...rate(""), measure: "cpu all" }, "sandboxed"),
  },
  { what: "body start from a loaded spare", of: { workload: "body start", how: "process", measure: "p50" }, most: 3 },
  ...each("reuse"),
  ...each("process"),
  {
    what: "Postgres CPU, 60 workers against 5",
    of: { workload: "many-workers", how: "60 workers", measure: "cpu postgres" },
    against: { workload: "many-workers", how: "5 workers", measure: "cpu postgres" },
    most: 1.2,
  },
  behind("behind a saturated job"),
  behind("behind a full node"),
  behind("of the same job"),
  behind("of 100,000 serial keys"),
  {
    what: "enqueue in bulk, 2 calls at a time",
    of: { workload: "enqueue", how: "5000 a call, 2 at a time", measure: "rate" },
    least: 50_000,
  },
  idle("cpu worker", 0.3),
  idle("rss worker", 90),
  idle("statements", 3),
  {
    what: "tick p99, 50 workers, 1,000 definitions",
    of: { workload: "crowd", how: "50 workers", measure: "tick p99" },
    most: 100,
  },
  page("slowest page at the median, 1,000,000 runs", "slowest p50", 100),
  page("heaviest page with all that it loads, kB", "heaviest", 150),
  growth("growth leader", 16),
  growth("growth worker", 16),
  growth("growth body", 16),
  growth("growth files", 4),
  ...stepsOf("many short runs"),
  ...stepsOf("few long runs"),
  { what: "last hundred of 2,000 steps against the first", of: { workload: "step-cost", measure: "ratio" }, most: 1.1 },
  { what: "kill of a worker to the next step", of: { workload: "resume", measure: "kill to next step" }, most: 1_000 },
  { what: "replay of 10,000 rows", of: { workload: "replay", how: "10000 rows", measure: "replay" }, most: 200 },
];

export function verdicts(found: Figure[]): Verdict[] {
  return TARGETS.map(({ what, of, against, least, most }) => {
    const figure = find(found, of);
    const other = against && find(found, against);
    const ratio = figure && other ? figure.value / other.value : undefined;
    const judged = against ? ratio : figure?.value;
    const limit = least ?? most;
    return {
      what,
      value: figure
        ? `${figure.value} ${figure.unit}${ratio === undefined ? "" : ` = ${ratio.toFixed(2)} x ${other?.value}`}`
        : "-",
      ratio: ratio ?? null,
      target: limit === undefined ? "as it is" : `${least === undefined ? "<=" : ">="} ${limit}${against ? " x" : ""}`,
      met: judged === undefined || limit === undefined
        ? undefined
        : least === undefined
        ? judged <= limit
        : judged >= limit,
    };
  });
}

/** The last one: what was measured again counts as it was then. */
function find(found: Figure[], { who = "dandori", workload, how, measure }: Of): Figure | undefined {
  return found.findLast((figure) =>
    figure.who === who && figure.workload === workload && figure.measure === measure &&
    (how === undefined || figure.how === how)
  );
}
