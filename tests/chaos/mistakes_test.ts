/**
 * Shows that the stress and the checker can fail: each planted mistake is caught within ten seeds. A seed stops being
 * tried at the first catch. Several mistakes are under way at a time, since each spends its time waiting.
 */
import assert from "node:assert/strict";
import { stress, type StressReport } from "./stress.ts";
import { type Mistake, MISTAKES } from "./stress/mistakes.ts";
import { sourcesIn } from "../support/source_tree.ts";

const SEEDS = 10;
const SECONDS = 3;
const AT_ONCE = 3;

/** Those that change code come last and alone, since they would change it for the others too. */
const IN_ORDER = MISTAKES.toSorted((a, b) => Number(Boolean(a.code)) - Number(Boolean(b.code)));

let caught: Map<Mistake, Promise<Catch>> | undefined;

for (const mistake of IN_ORDER) {
  Deno.test({
    name: `the stress catches: ${mistake.name}`,
    sanitizeOps: false, // the others are under way as well
    sanitizeResources: false,
    fn: async () => {
      const { seed, reports } = await ((caught ??= catchAll()).get(mistake) as Promise<Catch>);
      assert(seed !== undefined, `It was not caught with ${reports.length} seeds. What was seen:\n${seen(reports)}`);
    },
  });
}

Deno.test("what the mistakes alter is there to be altered", () => {
  const files = sourcesIn("src").map(({ text }) => text);
  for (const { name, changes = [] } of MISTAKES) {
    for (const [from] of changes.flat()) assert(files.some((text) => text.includes(from)), `${name}: ${from}`);
  }
});

interface Catch {
  seed: number | undefined;
  reports: StressReport[];
}

/** Begins with all, some at a time; each test waits for its own, so that none waits for as long as all take. */
function catchAll(): Map<Mistake, Promise<Catch>> {
  const tasks = new Map(IN_ORDER.map((mistake) => [mistake, Promise.withResolvers<Catch>()]));
  for (const { promise } of tasks.values()) promise.catch(() => {}); // told by the test that waits for it
  const rest = IN_ORDER.filter((mistake) => !mistake.code);
  const take = (mistake: Mistake) => catchOne(mistake).then(tasks.get(mistake)?.resolve, tasks.get(mistake)?.reject);
  const work = async () => {
    for (let next = rest.shift(); next; next = rest.shift()) await take(next);
  };
  void Promise.all(Array.from({ length: AT_ONCE }, work)).then(async () => {
    for (const mistake of IN_ORDER) if (mistake.code) await take(mistake);
  });
  return new Map([...tasks].map(([mistake, { promise }]) => [mistake, promise]));
}

async function catchOne(mistake: Mistake): Promise<Catch> {
  const reports: StressReport[] = [];
  for (let seed = 1; seed <= SEEDS; seed++) {
    const report = await stress({ seed, seconds: mistake.seconds ?? SECONDS, mistake });
    reports.push(report);
    const shown = report.violations.find(({ invariant, detail }) => mistake.shows.test(`${invariant} ${detail}`));
    if (!shown) continue;
    console.log(`${mistake.name}: seed ${seed}, ${shown.invariant}, ${shown.detail}`);
    return { seed, reports };
  }
  return { seed: undefined, reports };
}

function seen(reports: StressReport[]): string {
  return reports.map(({ seed, counts, violations }) =>
    `seed ${seed}: ${counts.bodies ?? 0} bodies, ${counts.planted ?? 0} statements altered; ${
      violations.slice(0, 5).map(({ invariant, detail }) => `${invariant} ${detail}`).join("; ")
    }`
  ).join("\n");
}
