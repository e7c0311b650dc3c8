/** What a workload is, what it may ask for, and what it gives: figures, each of one measure of one contestant. */
import type { Servers } from "./servers.ts";

export interface Bench {
  servers: Servers;
  /** Fewer runs and tries: figures that show whether something is badly wrong, no more. */
  quick: boolean;
  /** Many runs, where that is the point. */
  long: boolean;
  /** Whether what the project is measured against is measured too. */
  peers: boolean;
  /** Runs to be made, in place of the workload's own number. */
  runs: number | undefined;
  /** Of `throughput`: which isolations. */
  isolations: ("reuse" | "process")[];
  /** Where the statements of the project's workload are counted and shown. */
  statements: boolean;
  /** A folder for the CPU profiles of the project's workers. */
  profile_dir: string | undefined;
  say(text: string): void;
}

export interface Figure {
  workload: string;
  /** "dandori", the name of a peer, or "machine" for what the machine gives without any of them. */
  who: string;
  /** How it was set up, where there is more than one way: "reuse", "tuned", "60 workers". */
  how: string;
  measure: string;
  unit: string;
  value: number;
  /** Runs, tries or seconds that it was made of. */
  n: number;
}

export interface Workload {
  name: string;
  /** One line for `--list`. */
  about: string;
  /** Left out of a run that names no workload. */
  only_by_name?: true;
  run(bench: Bench): Promise<Figure[]>;
}

/** A workload that is measured for each of the isolations asked for. */
export function ofEachIsolation(
  { measure, ...workload }: Omit<Workload, "run"> & {
    measure(bench: Bench, isolation: "reuse" | "process"): Promise<Figure[]>;
  },
): Workload {
  return {
    ...workload,
    async run(bench) {
      const found: Figure[] = [];
      for (const isolation of bench.isolations) found.push(...await measure(bench, isolation));
      return found;
    },
  };
}

/** Figures of one contestant in one workload. */
export function figures(
  on: Pick<Figure, "workload" | "who" | "how" | "n">,
  measures: Record<string, [value: number, unit: string]>,
): Figure[] {
  return Object.entries(measures).map(([measure, [value, unit]]) => ({ ...on, measure, unit, value: rounded(value) }));
}

/** p50 and p99 of some times in ms; the p99 of fewer than a hundred is their maximum. */
export function percentiles(took_ms: number[]): { p50: [number, string]; p99: [number, string] } {
  const sorted = [...took_ms].sort((one, other) => one - other);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? NaN;
  return { p50: [at(0.5), "ms"], p99: [at(0.99), "ms"] };
}

export function median(values: number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  return ((sorted[(sorted.length - 1) >> 1] ?? NaN) + (sorted[sorted.length >> 1] ?? NaN)) / 2;
}

function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
