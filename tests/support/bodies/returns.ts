/** Returns what JSON cannot hold, or what is hard to hold. */
import { defineJob } from "dandori";

const cycle: Record<string, unknown> = { name: "cycle" };
cycle.self = { cycle };

const VALUES: Record<string, () => unknown> = {
  nothing: () => undefined,
  date: () => ({ at: new Date(0), gone: undefined }),
  bigint: () => ({ rows: [1, 2n] }),
  cycle: () => cycle,
  function: () => ({ then_what: () => 1 }).then_what,
  symbol: () => ({ id: Symbol("id") }),
  nan: () => ({ "a b": NaN }),
  hole: () => [1, undefined],
  map: () => new Map([["a", 1]]),
  large: () => "x".repeat(2 * 1024 * 1024),
  most: () => "é".repeat(500 * 1024),
};

export default defineJob({
  run({ args }) {
    return VALUES[String(args)]?.() as never;
  },
});
