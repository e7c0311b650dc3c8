/** How many runs a worker is sent beyond its free slots, by how fast its bodies have ended. */
import assert from "node:assert/strict";
import { EndRate, SlotBacklog, waitCost, worthSending } from "../../src/leader/prefetch.ts";

Deno.test("a worker is sent as many beyond its slots as end within a round trip, and none behind long bodies", () => {
  const paced = (body_ms: number, slots: number) => {
    const pace = new EndRate();
    let load = 0;
    let most = 0;
    for (let now_ms = 0; now_ms < 3_000; now_ms += 10) {
      load = Math.max(0, load - slots * 10 / body_ms);
      pace.seen(load, now_ms);
      const more = pace.beyond(slots);
      const given = Math.max(0, slots + more - load);
      pace.gave(given);
      load += given;
      if (now_ms > 1_000) most = Math.max(most, more);
    }
    return most;
  };
  assert.equal(paced(5_000, 10), 0);
  assert(paced(1_000, 10) <= 3);
  const short = paced(10, 10); // 1,000 end in a second
  assert(short >= 240 && short <= 360, String(short));
  const pace = new EndRate();
  pace.seen(0, 0);
  pace.gave(10);
  pace.seen(0, 25);
  assert(pace.beyond(10) >= 50, "ten ended within 25 ms: that it had nothing to do before says nothing about its pace");
  pace.seen(0, 5_000);
  assert.equal(pace.beyond(10), 0, "an idle worker is sent nothing in advance");
  pace.gave(500);
  pace.seen(0, 10_000);
  assert(pace.beyond(10) <= 32, "they may have taken all of that time");
});

Deno.test("of a large crew with short bodies each worker is sent a group at a time, and none behind longer ones", () => {
  const orders = (ends_per_second: number, slots: number) => {
    const pace = new EndRate();
    const send = (load: number, now_ms: number) => {
      pace.seen(load, now_ms);
      return pace.beyond(slots);
    };
    const sent: number[] = [];
    let load = 0;
    for (let now_ms = 0; now_ms < 5_000; now_ms += 50) {
      load = Math.max(0, load - ends_per_second / 20);
      const live = Math.ceil(load);
      const given = Math.max(0, worthSending(send(live, now_ms), slots - live));
      pace.gave(given);
      load += given;
      if (given > 0 && now_ms > 1_000) sent.push(given);
    }
    return sent;
  };
  const mean = (sent: number[]) => sent.reduce((sum, one) => sum + one, 0) / sent.length;
  assert(mean(orders(20, 2)) >= 6, String(mean(orders(20, 2))));
  assert(mean(orders(5, 2)) <= 2, "its bodies take 0.4 s: each waits for a slot, and no group of them would start");
  assert.deepEqual([worthSending(16, 0), worthSending(16, -9), worthSending(16, 1)], [16, -9, 17]);
});

Deno.test("what waits for the slots of a worker has one within a second, by what is known of its code and of what is there", () => {
  const times: Record<string, number> = { long: 60_000, medium: 50, quick: 0.3, two: 2_000 };
  const bodyMs = (digest: string) => times[digest] ?? Infinity;
  const sent = (digest: string, slots: number) => {
    const line = new SlotBacklog();
    let runs = 0;
    for (; line.left({ slots, load: runs }, bodyMs, 0) >= waitCost(bodyMs(digest)); runs++) {
      line.gave(digest, bodyMs, 0);
    }
    return runs;
  };
  assert.deepEqual([sent("unknown", 10), sent("long", 10), sent("medium", 10)], [10, 10, 177]);
  assert(sent("quick", 10) >= 1_600 && sent("quick", 1) >= 1_600, "of quick code, as many as the pace allows");
  const line = new SlotBacklog();
  const left = (now_ms: number, load = 9) => line.left({ slots: 10, load }, bodyMs, now_ms);
  const gave = (digest: string, now_ms: number) => line.gave(digest, bodyMs, now_ms);
  assert.equal(left(1_000), 8_000);
  for (let runs = 0; runs < 160; runs++) gave("medium", 1_000);
  assert.equal(left(1_000), 800, "nine tenths of what they take");
  assert.equal(left(1_400), 4_800, "their slots have had 400 ms");
  assert.equal(left(9_000), 8_000);
  for (let runs = 0; runs < 9; runs++) gave("two", 9_000);
  assert.equal(left(9_500), 800, "one slot is left for the others");
  gave("medium", 9_500);
  assert.deepEqual([left(9_500), left(9_550)], [755, 800]);
  assert.equal(left(11_001), 8_000);
  gave("long", 12_000);
  assert.deepEqual([left(12_000), left(12_000, 0)], [7_200, 8_000], "nothing is there, whatever was expected");
  gave("long", 12_000);
  assert.equal(left(15_001), 8_000, "if it is still there, the pace says so");
  gave("unknown", 16_000);
  assert.equal(left(16_900), 7_200, "it may take long");
  times["unknown"] = 1;
  assert.equal(left(16_950), 8_000, "it does not, as was learned meanwhile");
});
