/** The replay rule: recorded order, one delivery a turn, nothing new before its end, and what does not fit is told apart. */
import assert from "node:assert/strict";
import type { Json } from "../../../src/job.ts";
import { seededRandom } from "../../../src/sandbox/child/seeded.ts";
import { anOpenRow, aRow, type Body, DurableScene, journalOf, STARTED_UNIX_MS } from "../../support/durable_scene.ts";

/** Three chains of equal names, of which one takes long to ask again, and a loser of a race among them; works end when the test says so. */
class Chains {
  readonly seen: string[] = [];
  readonly gates = new Map<string, (value: Json) => void>();
  readonly begun: string[] = [];
  readonly body: Body = async ({ step, sleep, waitFor }) => {
    const look = (id: string) =>
      step("look", ({ key }) => {
        this.begun.push(key);
        return new Promise<Json>((resolve) => this.gates.set(`step:${key.slice("dandori-812-".length)}`, resolve));
      }).then((value) => void this.seen.push(`${id} ${value}`));
    const chain = async (id: string, count: number, microtasks: number) => {
      for (let n = 0; n < count; n++) {
        await look(id);
        for (let k = 0; k < microtasks; k++) await undefined;
      }
      return id;
    };
    const race = Promise.race([
      waitFor("go").then(() => "message"),
      sleep("1 h").then(() => "sleep"),
    ]).then(async (winner) => {
      this.seen.push(winner);
      await look(winner);
      return winner;
    });
    return await Promise.all([chain("a", 3, 40), chain("b", 4, 0), chain("c", 2, 7), race]);
  };
}

/** Brings one thing to its end, any of those that can. */
async function endOne(scene: DurableScene, chains: Chains, key: string): Promise<void> {
  const gate = chains.gates.get(decodeURIComponent(key)) ??
    chains.gates.get(encodeURIComponent(key).replace("%3A", ":"));
  if (gate) {
    gate(key);
    await scene.settle();
  } else await scene.arrive({ key, outcome: "DONE", result: "went", message_id: key.startsWith("message") ? 1 : null });
}

async function record(seed: string): Promise<{ scene: DurableScene; chains: Chains; order: string[] }> {
  const chains = new Chains();
  const scene = new DurableScene(chains.body);
  const order: string[] = [];
  const ended = new Set<string>();
  await scene.settle();
  for (let turn = 0; !scene.outcome; turn++) {
    await scene.commitAll();
    const gated = [...chains.gates.keys()].map((key) => decodeURIComponent(key));
    const waiting = scene.steps.filter(({ state }) => state === "WAITING").map(({ key }) => key);
    const can = [...gated, ...waiting].filter((key) => !ended.has(key));
    if (can.length === 0) break;
    for (let many = Math.floor(seededRandom(`${seed} ${turn}`) * 3); many >= 0 && can.length > 0; many--) {
      const [key] = can.splice(Math.floor(seededRandom(`${seed} ${turn} ${many}`) * can.length), 1) as [string];
      ended.add(key);
      order.push(key);
      await endOne(scene, chains, key);
    }
  }
  return { scene, chains, order };
}

Deno.test("chains of equal names and a race go the same way from every cut, whatever order was recorded", async () => {
  for (const seed of ["one", "two", "three", "four"]) {
    const first = await record(seed);
    const rows = first.scene.steps.filter(({ seq }) => seq !== undefined).map(({ key }) => key);
    assert.equal(rows.length, 12, "all looks but the loser's, and both ends of the race");
    for (let cut = 0; cut <= first.scene.steps.length; cut++) {
      const chains = new Chains();
      const journal = first.scene.journalAfter(cut);
      const scene = new DurableScene(chains.body, { journal });
      await scene.commitAll();
      for (const key of rows.slice(journal.rows.length)) {
        await endOne(scene, chains, key);
        await scene.commitAll();
      }
      const where = `${seed}, after ${cut} rows`;
      assert.deepEqual(chains.seen, first.chains.seen, where);
      assert.deepEqual(scene.outcome, first.scene.outcome, where);
      const done = new Set(journal.rows.map(({ key }) => key));
      assert(
        chains.begun.every((key) => !done.has(`step:${key.slice("dandori-812-".length)}`)),
        `${where}: nothing twice`,
      );
      const now = scene.steps.filter(({ seq }) => seq !== undefined).map(({ key, seq }) => `${seq} ${key}`);
      assert.deepEqual(now, rows.map((key, place) => `${place + 1} ${key}`).slice(journal.rows.length), where);
    }
  }
});

Deno.test("nothing is delivered before it is committed, and then in the order of the rows, one a turn", async () => {
  const seen: string[] = [];
  const scene = new DurableScene(async ({ step }) => {
    const follow = async (name: string) => {
      await step(name, () => name);
      seen.push(name);
      for (let n = 0; n < 20; n++) await undefined;
      seen.push(`${name} later`);
    };
    await Promise.all([follow("a"), follow("b")]);
  });
  await scene.settle();
  assert.deepEqual(scene.said, ["step:a DONE 1", "step:b DONE 2"]);
  assert.deepEqual(seen, []);
  await scene.commit(1);
  assert.deepEqual(seen, ["a", "a later"]);
  await scene.commit(2);
  assert.deepEqual(seen, ["a", "a later", "b", "b later"]);
  assert.deepEqual(scene.outcome, { value: undefined });
});

Deno.test("rows that are committed together are delivered one a turn as well", async () => {
  const scene = new DurableScene(({ step }) => {
    const follow = async (name: string, microtasks: number) => {
      await step(name, () => name);
      for (let n = 0; n < microtasks; n++) await undefined;
      await step(`${name}2`, () => name);
    };
    return Promise.all([follow("slow", 20), follow("quick", 0)]);
  });
  await scene.settle();
  await scene.commit(2);
  assert.deepEqual(scene.said.slice(2), ["step:slow2 DONE 3", "step:quick2 DONE 4"]);
});

Deno.test("new work begins only after the last row was delivered", async () => {
  const began: string[] = [];
  const body: Body = async ({ step }) => {
    const free = step("new", () => void began.push("new"));
    await step("old", () => void began.push("old"));
    await new Promise((resolve) => setTimeout(resolve, 5));
    await step("older", () => void began.push("older"));
    await free;
  };
  const scene = new DurableScene(body, { journal: journalOf([aRow("step:old", 1), aRow("step:older", 2)]) });
  await scene.settle();
  assert.deepEqual(began, [], "the second row may follow a plain await");
  await new Promise((resolve) => setTimeout(resolve, 10));
  await scene.settle();
  assert.deepEqual(began, ["new"]);
  assert.deepEqual(scene.said, ["step:new DONE 3"]);
  assert.deepEqual(scene.frames.filter(({ kind }) => kind === "replaying"), [{ kind: "replaying", on: true }, {
    kind: "replaying",
    on: false,
  }]);
});

Deno.test("a body of the same code that does not request the next row has diverged, and nothing of it was begun", async () => {
  const began: string[] = [];
  const body: Body = async ({ step }) => {
    await step("list", () => void began.push("list"));
    await step("invoice", () => void began.push("invoice"));
  };
  const scene = new DurableScene(body, { journal: journalOf([aRow("step:list", 1), aRow("step:charge", 2)]) });
  assert.equal(await scene.idle(), "going");
  assert.deepEqual(scene.impossible, {
    name: "Diverged",
    message:
      'run 812 of onboarding has step "charge" next in its journal (2027-01-15 08:00 UTC). Its code, unchanged since ' +
      '(1f3a9c2b77e0), requests step "invoice" instead. Nothing was done twice: new work begins only after the journal. ' +
      "Something between steps differs, such as Date.now(), Math.random() or a fetch: put it into a step, or use now() and " +
      "random(). Continue by hand: deno task runs fork 812 --from charge",
  });
  assert.deepEqual(began, []);
});

Deno.test("a body of the same code that returns before the end of its journal has diverged as well", async () => {
  const scene = new DurableScene(({ step }) => step("list", () => 1), {
    journal: journalOf([aRow("step:list", 1), aRow("sleep:", 2)]),
  });
  await scene.settle();
  assert.deepEqual(scene.outcome, { value: null });
  assert.match(
    scene.run.whyNotOver() ?? "",
    /^run 812 of onboarding has sleep next .* does not request it\. .*--from 'sleep:'$/,
  );
});

Deno.test("rows of other code that are not requested are passed over, and delivered where they are requested later", async () => {
  const old = { code_digest: "0ld" };
  const seen: Json[] = [];
  const body: Body = async ({ step, waitFor }) => {
    for (const name of ["b", "a", "new"]) seen.push(await step(name, () => "done now"));
    await waitFor("go");
  };
  const scene = new DurableScene(body, {
    journal: journalOf(
      [
        aRow("step:a", 1, { ...old, result: "A" }),
        aRow("step:gone", 2, old),
        aRow("step:b", 3, { ...old, result: "B" }),
      ],
      [anOpenRow("message:gone", old)],
    ),
  });
  for (let n = 0; n < 2; n++) assert.equal(await scene.idle(), "going");
  await scene.commitAll();
  assert.deepEqual(seen, ["B", "A", "done now"]);
  assert.equal(scene.impossible, undefined);
  assert.equal(await scene.idle(), "going", "what it no longer waits for is closed");
  assert.deepEqual(scene.said, ["step:new DONE 4", "message:go WAITING", "message:gone CANCELED"]);
  await scene.commitAll();
  assert.equal(await scene.idle(), "waiting");
});

Deno.test("what comes back is what JSON gave, live as in a replay", async () => {
  const body: Body = async ({ step }) => {
    const value = await step(
      "make",
      () => ({ at: new Date(0), none: undefined, list: [undefined, 1] as const }) as never,
    );
    return JSON.stringify(value) + String((value as { at: unknown }).at === "1970-01-01T00:00:00.000Z");
  };
  // a list may not hold undefined
  const refused = new DurableScene(body);
  await refused.commitAll();
  assert.match(
    String((refused.outcome as { error: Error }).error.message),
    /cannot be stored as JSON: it\.list\[0\] is undefined/,
  );
  const good: Body = async ({ step, now }) => {
    const { at } = await step("make", () => ({ at: new Date(0), none: undefined }));
    return [at, now().getTime()];
  };
  const live = new DurableScene(good);
  await live.commitAll();
  const again = new DurableScene(good, { journal: live.journalAfter(1) });
  await again.settle();
  assert.deepEqual(live.outcome, { value: ["1970-01-01T00:00:00.000Z", STARTED_UNIX_MS + 1000] });
  assert.deepEqual(again.outcome, live.outcome);
});

Deno.test("equal names that are open at once are warned of once, except in one turn or in scopes", async () => {
  const same_turn = new DurableScene(({ step }) => Promise.all([1, 2, 3].map((n) => step("look", () => n))));
  await same_turn.commitAll();
  const scopes = new DurableScene(({ each }) =>
    each([1, 2, 3], async (n, { step }) => [await step("look", () => n), await step("look", () => n)])
  );
  await scopes.commitAll();
  assert.deepEqual([...same_turn.ambiguous, ...scopes.ambiguous], []);
  assert(scopes.said.includes("[2]step:look#2 DONE 6"), scopes.said.join());
  const chains = new DurableScene(({ step }) =>
    Promise.all([1, 2].map(async (n) => {
      for (let k = 0; k < 3; k++) await step("look", () => n);
    }))
  );
  await chains.commitAll();
  assert.equal(chains.ambiguous.length, 1);
  assert.match(chains.ambiguous[0] ?? "", /^"step:look" was requested again before it had ended/);
});

Deno.test("10,000 rows are replayed in a moment", async () => {
  const count = 10_000;
  const body: Body = async ({ step }) => {
    for (let n = 0; n < count; n++) await step("s", () => n);
  };
  const rows = Array.from({ length: count }, (_, n) => aRow(n === 0 ? "step:s" : `step:s#${n + 1}`, n + 1));
  const scene = new DurableScene(body, { journal: journalOf(rows), limits: { max_steps: count } });
  await scene.settle();
  assert.deepEqual(scene.outcome, { value: undefined });
  assert.equal(scene.run.replaying, false);
});
