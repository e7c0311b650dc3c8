/** Counters and histograms for prom-client whose values are known already: its own can only be counted up in the process. */
import { Counter, Histogram } from "prom-client";

export interface Value {
  labels: Record<string, string>;
  value: number;
}

/** A counter that stands where Postgres says. */
export function toldCounter(name: string, help: string, values: Value[]): Counter {
  const counter = new Counter({ name, help, labelNames: Object.keys(values[0]?.labels ?? {}), registers: [] });
  counter.reset();
  for (const { labels, value } of values) counter.inc(labels, value);
  return counter;
}

export interface ToldHistogram {
  /** Upper bounds; what is above the last is counted in one more. */
  bounds: readonly number[];
  /** `counts` of each bucket by itself. */
  series: { labels: Record<string, string>; counts: readonly (number | null)[]; sum: number }[];
}

export function toldHistogram(name: string, help: string, { bounds, series }: ToldHistogram): Histogram {
  const labelNames = Object.keys(series[0]?.labels ?? {});
  const histogram = new Histogram({ name, help, labelNames, buckets: [...bounds], registers: [] });
  const values = series.flatMap(({ labels, counts, sum }) => {
    let below = 0;
    const buckets = [...bounds.map(String), "+Inf"].map((le, place) => {
      below += counts[place] ?? 0;
      return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: below };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value: below },
    ];
  });
  const told = { name, help, type: "histogram", values, aggregator: "sum" };
  return Object.assign(histogram, { get: () => Promise.resolve(told), getForPromString: () => Promise.resolve(told) });
}
