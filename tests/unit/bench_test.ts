/** What the bench says of its figures: which targets are met, what is kept of earlier runs, what is drawn. */
import assert from "node:assert/strict";
import { picture } from "../../bench/picture.ts";
import { withEarlier, writeReport } from "../../bench/report.ts";
import { verdicts } from "../../bench/targets.ts";
import { type Figure, percentiles } from "../../bench/workload.ts";

const figure = (who: string, how: string, value: number, more: Partial<Figure> = {}): Figure => ({
  workload: "throughput",
  who,
  how,
  measure: "rate",
  unit: "runs/s",
  value,
  n: 1,
  ...more,
});
const verdictOf = (found: Figure[], what: string) => {
  const verdict = verdicts(found).find((one) => one.what === what);
  assert(verdict, `no target "${what}"`);
  return verdict;
};

Deno.test("a target is met, not met, or not measured, by the ratio where there is one to compare with", () => {
  const what = "throughput, reuse, against BullMQ's processes";
  const ours = figure("dandori", "reuse", 3_000);
  assert.equal(verdictOf([ours, figure("bullmq", "sandboxed", 1_000)], what).met, true);
  assert.equal(verdictOf([ours, figure("bullmq", "sandboxed", 1_001)], what).met, false);
  assert.equal(verdictOf([ours, figure("bullmq", "as it comes", 1)], what).met, undefined);
  const enqueue = figure("dandori", "5000 a call, 2 at a time", 50_000, { workload: "enqueue" });
  assert.equal(verdictOf([enqueue], "enqueue in bulk, 2 calls at a time").met, true);
  const slow = figure("dandori", "2 workers", 3.1, { workload: "idle", measure: "statements" });
  assert.equal(verdictOf([slow], "idle: statements").met, false);
});

Deno.test("a report is added to an earlier one, and what is measured anew takes the place of what was there", () => {
  const dir = Deno.makeTempDirSync();
  try {
    const other = figure("bullmq", "sandboxed", 10);
    writeReport(dir, withEarlier(dir, [figure("dandori", "reuse", 20), other]));
    const all = withEarlier(dir, [figure("dandori", "reuse", 40)]);
    assert.deepEqual(all, [other, figure("dandori", "reuse", 40)]);
    const table = writeReport(dir, all);
    assert.match(table, /BullMQ's processes +\| 40 runs\/s = 4\.00 x 10 +\| >= 3 x +\| met/);
    assert.match(Deno.readTextFileSync(`${dir}/report.md`), /\| not measured \|/);
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
});

Deno.test("the picture has a bar for each contestant, whatever it is called", () => {
  const svg = picture([figure("dandori", "reuse", 20), figure("<b> & co", "tuned", 10)]);
  assert.equal(svg.match(/<rect x=/g)?.length, 2);
  assert.match(svg, /&#60;b&#62; &#38; co, tuned/);
});

Deno.test("percentiles of a few times: the middle one and the longest", () => {
  assert.deepEqual(percentiles([5, 1, 3]), { p50: [3, "ms"], p99: [5, "ms"] });
});
