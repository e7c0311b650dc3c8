/** Returns what JSON cannot hold, or what is hard to hold. */
import { defineJob } from "dandori";

const cycle: Record<string, unknown> = { name: "cycle" };
cycle.self = { cycle };

/** Gives each of these once when it is asked what it is as JSON, and then the last. */
function turning(...answers: unknown[]): unknown {
  return { toJSON: () => answers.length > 1 ? answers.shift() : answers[0] };
}

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
  turns: () => turning("checked", "measured", "x".repeat(2 * 1024 * 1024)),
  vanishes: () => turning("checked", undefined),
  most: () => "é".repeat(500 * 1024),
};

export default defineJob({
  run({ args }) {
    return VALUES[String(args)]?.() as never;
  },
});
