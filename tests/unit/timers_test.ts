/** The loop's promises: nothing rung is missed, ticks never overlap, and what gathers is answered in its order. */
import assert from "node:assert/strict";
import { waitFor } from "../support/waiting.ts";
import {
  Batcher,
  BatchInterval,
  DeadlineExceeded,
  every,
  KeyedBatcher,
  rest,
  TimerSet,
  Wakeup,
  within,
} from "../../src/platform/timers.ts";

Deno.test("a ring while nobody sleeps is kept for the next sleep, once", async () => {
  const wakeup = new Wakeup();
  wakeup.signal();
  wakeup.signal();
  await wakeup.rest(60_000);
  const slept = wakeup.rest(60_000).then(() => "woken");
  assert.equal(await Promise.race([slept, rest(20).then(() => "asleep")]), "asleep");
  wakeup.signal();
  assert.equal(await slept, "woken");
});

Deno.test("a stop ends a sleep", async () => {
  const stop = new AbortController();
  const slept = new Wakeup().rest(60_000, stop.signal);
  stop.abort();
  await slept;
});

Deno.test("every goes on after a tick that threw, and its ticks never overlap", async () => {
  const stop = new AbortController();
  let ticks = 0, inside = 0;
  await every(0, async () => {
    assert.equal(++inside, 1);
    await rest(1);
    inside--;
    if (++ticks === 5) stop.abort();
    throw new Error("this tick failed");
  }, { name: "test", stop: stop.signal });
  assert.equal(ticks, 5);
});

Deno.test("what is added during a flush goes together into the next", async () => {
  const flushes: number[][] = [];
  let open = () => {};
  const first = new Promise<void>((resolve) => open = resolve);
  const gather = new Batcher<number, number>(async (items) => {
    flushes.push(items);
    if (flushes.length === 1) await first;
    return items.map((item) => item * 10);
  });
  const one = gather.add(1);
  await rest(0);
  await rest(1);
  const rest_of = [2, 3, 4].map((item) => gather.add(item));
  open();
  assert.deepEqual([await one, ...await Promise.all(rest_of)], [10, 20, 30, 40]);
  assert.deepEqual(flushes, [[1], [2, 3, 4]]);
});

Deno.test("a flush that fails rejects its own items and no others", async () => {
  let flushes = 0;
  const gather = new Batcher<number, number>((items) => {
    if (flushes++ === 0) return Promise.reject(new Error("no"));
    return Promise.resolve(items);
  }, { most: 1 });
  const [bad, good] = await Promise.allSettled([gather.add(1), gather.add(2)]);
  assert.equal(bad.status, "rejected");
  assert.deepEqual(good, { status: "fulfilled", value: 2 });
});

Deno.test("within gives up on an answer that does not come", async () => {
  await assert.rejects(within(5, "a stalled question", new Promise(() => {})), DeadlineExceeded);
  assert.equal(await within(1_000, "a quick one", Promise.resolve(7)), 7);
});

Deno.test("alarms ring in their time, and not once they are called off, also by one another", async () => {
  const alarms = new TimerSet();
  const rung: string[] = [];
  const callOff = alarms.after(20, () => rung.push("called off"));
  await new Promise<void>((resolve) => {
    let callOffOther = () => {};
    alarms.after(40, () => {
      rung.push("later");
      alarms.after(5, resolve);
    });
    alarms.after(10, () => {
      rung.push("first");
      callOffOther();
    });
    callOffOther = alarms.after(10, () => rung.push("called off by the one before"));
    const tooFar = alarms.after(2 ** 40, () => rung.push("in years"));
    callOff();
    alarms.after(45, tooFar);
  });
  assert.deepEqual(rung, ["first", "later"]);
  const alone = alarms.after(2 ** 40, () => rung.push("in years"));
  await rest(20);
  assert.deepEqual(rung, ["first", "later"], "a timer for years does not ring at once");
  alone();
});

Deno.test("rounds follow each other at once while they are few, and a gap apart when they are many", () => {
  const tempo = new BatchInterval(20, 10);
  let now_ms = 0;
  const waits = Array.from({ length: 200 }, () => {
    const wait_ms = tempo.wait(Infinity, now_ms);
    now_ms += wait_ms + 1;
    return wait_ms;
  });
  assert.deepEqual(waits.slice(0, 10), Array(10).fill(0));
  assert(now_ms > 180 * 20 && now_ms < 210 * 20, `200 ticks took ${now_ms} ms`);
  for (let n = 0; n < 50; n++) assert.equal(tempo.wait(Infinity, now_ms += 250), 0, "now and then is at once");
});

Deno.test("rounds that take little follow each other sooner, and never take more than a fifth of the time", () => {
  const busy = (took_ms: number) => {
    const tempo = new BatchInterval(50, 10);
    let now_ms = 0;
    for (let n = 0; n < 1_000; n++) now_ms += tempo.wait(took_ms, now_ms) + took_ms;
    return now_ms / 1_000;
  };
  assert.equal(Math.round(busy(2)), 8);
  assert.equal(Math.round(busy(10)), 40);
  assert.equal(Math.round(busy(40)), 50, "the gap that was asked for is the longest");
});

Deno.test("a group waits for its tempo, unless enough have come", async () => {
  const groups: number[][] = [];
  class Slow extends BatchInterval {
    override wait(): number {
      return super.wait(FAR_MS);
    }
  }
  const of = new KeyedBatcher<number>((items) => Promise.resolve(void groups.push(items)), {
    tempo: new Slow(FAR_MS, 1),
    enough: 3,
  });
  of.add(1);
  await waitFor("the first at once", () => Promise.resolve(groups.length === 1 || undefined));
  of.add(2);
  of.add(3);
  await rest(20);
  assert.equal(groups.length, 1, "two did not wait");
  of.add(4);
  await waitFor("three without the tempo", () => Promise.resolve(groups.length === 2 || undefined));
  assert.deepEqual(groups, [[1], [2, 3, 4]]);
});

/** Longer than any test. */
const FAR_MS = 900_000;
