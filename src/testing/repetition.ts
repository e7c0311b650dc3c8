/**
 * A run that has ended, once more from what it had recorded at some point: its body must request the same, in the same order, and come to
 * the same end. No step is done again: each gets its recorded end when that was recorded.
 */
import type { Json } from "../job.ts";
import { named } from "../sandbox/child/step_names.ts";
import type { Arrival } from "../sandbox/frames/step_frames.ts";
import { Execution, type ExecutionPlan, failureAgain, type TestOutcome } from "./execution.ts";
import { StepStore, type StoredStep } from "./step_store.ts";

type Gate = (row: StoredStep) => void;

/** The first difference, after the first `cut` rows that were written; undefined: there is none. */
export async function differenceAfter(
  plan: ExecutionPlan,
  cut: number,
  recorded: { store: StepStore; outcome: TestOutcome },
): Promise<string | undefined> {
  const store = new StepStore();
  for (const [key, end] of recorded.store.child_ends) store.child_ends.set(key, end);
  for (const { frame, unix_ms } of recorded.store.history.slice(0, cut)) store.commit(frame, unix_ms);
  const gates = new Map<string, Gate>();
  const done = new Set([...store.rows.values()].filter(({ seq }) => seq !== undefined).map(({ key }) => key));
  const twice: string[] = [];
  const execution = new Execution({
    ...plan,
    store,
    later: () => () => {},
    start: ({ key }) => recorded.store.child_ends.get(key)?.child_run_id ?? 1,
    workOf: (key) => () =>
      new Promise((resolve, reject) => {
        if (done.has(key)) twice.push(key);
        gates.set(key, (row) => row.state === "DONE" ? resolve(row.result as never) : reject(failureAgain(key, row)));
      }),
  });
  const wanted = inOrder(recorded.store);
  const where = `After ${cut} of ${recorded.store.history.length} rows were written`;
  for (;;) {
    await execution.untilStill();
    const [got, next] = [inOrder(store), wanted[inOrder(store).length]];
    const wrong = got.findIndex(({ key }, place) => key !== wanted[place]?.key);
    if (twice.length > 0) return `${where}, the work of ${named(twice[0] as string)} was done again`;
    if (wrong >= 0) return differs(where, got[wrong] as StoredStep, wanted[wrong]);
    if (execution.outcome) {
      return next
        ? `${where}, run() ended before ${named(next.key)}`
        : outcomeDiffers(where, execution, recorded.outcome);
    }
    if (!next) return `${where}, run() did not end after all that it had requested`;
    const gate = gates.get(next.key);
    const arrival = recorded.store.arrived.get(next.key) ?? arrivalOf(next);
    if (gate) gate(next);
    else if (!execution.run.isWaitingFor(next.key)) {
      return `${where}, run() requested ${insteadOf(store, gates)} instead of ${named(next.key)}`;
    } else execution.run.hear({ kind: "arrived", arrivals: [arrival] });
    gates.delete(next.key);
  }
}

function insteadOf({ open }: StepStore, gates: Map<string, Gate>): string {
  const keys = [...gates.keys(), ...open.map(({ key }) => key)];
  return keys.map(named).join(" and ") || "nothing";
}

/** Rows with an end, by their position. What is undone comes after the body. */
function inOrder({ rows }: StepStore): StoredStep[] {
  return [...rows.values()].filter(({ seq, request }) => seq !== undefined && request !== "undo")
    .sort((a, b) => (a.seq as number) - (b.seq as number));
}

function arrivalOf({ key, state, result, error_name, error_summary, child_run_id }: StoredStep): Arrival {
  return { key, outcome: state as Arrival["outcome"], result, error_name, error_summary, child_run_id };
}

function differs(where: string, got: StoredStep, wanted: StoredStep | undefined): string {
  return `${where}, ${named(got.key)} came next, which ${
    wanted ? `was ${named(wanted.key)}` : "was nothing"
  } the first time`;
}

function outcomeDiffers(where: string, { outcome }: Execution, wanted: TestOutcome): string | undefined {
  const [now, before] = [textOf(outcome as TestOutcome), textOf(wanted)];
  return now === before ? undefined : `${where}, run() ${now}; the first time it ${before}`;
}

function textOf(outcome: TestOutcome): string {
  if (outcome.state === "SUCCEEDED") return `gave ${JSON.stringify(outcome.again?.args ?? outcome.result as Json)}`;
  return `threw ${outcome.error.name}: ${outcome.error.message.replace(/ failed \d+ times:/, " failed:")}`; // tries are not repeated
}
