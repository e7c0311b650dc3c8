/**
 * A leader is stopped between its check of the lease and a statement, and goes on when another has the leader lock. The statement
 * is refused, it steps down, and its successor does all that there was to do. One or two statements of each family stand
 * here for all: that each statement of a leader is fenced is shown by tests/store/cluster/fencing_test.ts, and that a leader may die
 * before each by failpoints_seat_test.ts.
 */
import type { FailpointName } from "../../src/platform/failpoint.ts";
import type { Doom } from "../support/doomed.ts";
import { staleLeader } from "../support/stale_leader.ts";

/** Several at once, each on stores of its own: most of their time is waiting for a lease to end. */
async function staleAt(...points: FailpointName[]): Promise<void> {
  const ends = await Promise.allSettled(points.map((point) => staleLeader(point, ALSO[point])));
  const failed = ends.flatMap((end, place) =>
    end.status === "rejected" ? [new Error(`stopped at ${points[place]}`, { cause: end.reason })] : []
  );
  if (failed.length > 0) throw new AggregateError(failed, `${failed.length} of ${points.length} stories went wrong`);
}

const ALSO: { [P in FailpointName]?: Doom[] } = {
  // It refuses whatever it is ordered, and leaves it assigned: there is something to take back.
  "after-lease-check-refused": Array.from(
    { length: 50 },
    (_, place) => `before-start-commit:${place + 1}:error` as const,
  ),
};

Deno.test("a stale leader gives birth to nothing, and moves nobody in a line", () =>
  staleAt("after-lease-check-slots", "after-lease-check-lines"));

Deno.test("a stale leader assigns nothing, and its order is not obeyed", () =>
  staleAt("after-lease-check-assign", "after-assign-before-rpc", "after-lease-check-refused"));

Deno.test("a stale leader ends nothing, declares nobody dead or detached, and takes nothing from them", () =>
  staleAt(
    "after-lease-check-cancels",
    "after-lease-check-bury",
    "after-bury-before-orphan",
    "after-lease-check-detach",
  ));

Deno.test("a leader that was stopped around its renewal learns that it no longer leads", () =>
  staleAt("before-pg-renew", "after-pg-renew"));
