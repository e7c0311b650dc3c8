/** Runs that a body asks for: each is made once, by who has the parent, and woken for is the parent at its end. */
import assert from "node:assert/strict";
import type { Sql } from "../../../src/postgres/connection.ts";
import { DEEPEST } from "../../../src/steps/child_facts.ts";
import { type ChildRun, type ChildWish, createChildren } from "../../../src/steps/child_runs.ts";
import { findArrivals } from "../../../src/steps/arrivals.ts";
import { suspendRuns } from "../../../src/steps/suspend_runs.ts";
import { applyWakeChecks } from "../../../src/steps/wakes.ts";
import { aDefinition, aTerm } from "../../support/factories.ts";
import { anOwnedRun, aWrite, type Owned, write } from "../../support/step_rows.ts";
import { withStores } from "../../support/stores.ts";
import { untilLocked } from "../../support/waiting.ts";

const WORKER = "w-of-nobody";

function aWish(parent: Owned, job_name: string, more: Partial<ChildWish> = {}): ChildWish {
  const { job_run_id, attempt, start_token } = parent;
  return { job_run_id, attempt, start_token, key: `call:${job_name}`, job_name, args: {}, is_awaited: true, ...more };
}

async function aParent(sql: Sql, columns: Record<string, unknown> = {}, permissions: unknown = { call: true }) {
  const { id } = await aDefinition(sql, { permissions });
  return await anOwnedRun(sql, { job_definition_id: id, ...columns });
}

async function make(sql: Sql, ...wishes: ChildWish[]): Promise<ChildRun[]> {
  return await createChildren(sql, WORKER, wishes);
}

function idOf(children: ChildRun[]): number {
  const [child] = children;
  return child && "child_run_id" in child ? child.child_run_id : assert.fail(JSON.stringify(children));
}

async function refusalOf(sql: Sql, wish: ChildWish): Promise<string> {
  const [child] = await make(sql, wish);
  return child && "refused" in child ? child.refused : assert.fail(JSON.stringify(child));
}

Deno.test("a child is made once, with its parent in its row, also when it is asked for at once or later again", async () => {
  await withStores(async ({ sql }) => {
    const { id: resize } = await aDefinition(sql, { name: "resize", serial_key: "image:{image}", priority: 33 });
    const parent = await aParent(sql, { depth: 3 });
    const other = await aParent(sql);
    const wish = aWish(parent, "resize", { args: { image: 7 } });
    const answers = await Promise.all(Array.from({ length: 10 }, () => make(sql, wish)));
    const id = idOf(answers[0]!);
    assert.deepEqual(answers, Array(10).fill([{ job_run_id: parent.id, key: "call:resize", child_run_id: id }]));
    const started = aWish(parent, "resize", {
      ...{ key: "start:resize", is_awaited: false },
      options: { priority: "user.high", runAt: "2040-01-01T00:00:00.000Z", serialKey: "own" },
    });
    const both = await make(sql, started, aWish(other, "resize"), wish);
    assert.equal(new Set(both.map((child) => "child_run_id" in child && child.child_run_id)).size, 3);
    const rows = await sql`
      select job_definition_id, source, state, args_json, parent_run_id, parent_key, depth, priority, serial_key, idempotency_key, due_at > created_at + interval '1 h' as later
        from job_run where parent_run_id is not null order by id`;
    const same = { job_definition_id: resize, source: "call", state: "PENDING" };
    assert.deepEqual([...rows], [
      {
        ...{
          ...same,
          args_json: { image: 7 },
          parent_run_id: parent.id,
          parent_key: "call:resize",
          depth: 4,
          priority: 33,
        },
        ...{ serial_key: "image:7", idempotency_key: `child:${parent.id}:call:resize`, later: false },
      },
      {
        ...{ ...same, args_json: {}, parent_run_id: parent.id, parent_key: null, depth: 4, priority: 140 },
        ...{ serial_key: "own", idempotency_key: `child:${parent.id}:start:resize`, later: true },
      },
      {
        ...{ ...same, args_json: {}, parent_run_id: other.id, parent_key: "call:resize", depth: 1, priority: 33 },
        ...{ serial_key: "image:", idempotency_key: `child:${other.id}:call:resize`, later: false },
      },
    ]);
    const marked = await sql`select has_children from job_run where id in (${parent.id}, ${other.id})`;
    assert.deepEqual([...marked], [{ has_children: true }, { has_children: true }]);
  });
});

Deno.test("only who has the parent makes children, and not of a parent that is to end", async () => {
  await withStores(async ({ sql }) => {
    await aDefinition(sql, { name: "resize" });
    const parent = await aParent(sql);
    const wish = aWish(parent, "resize");
    assert.deepEqual(await make(sql, { ...wish, attempt: 2 }), []);
    assert.deepEqual(await make(sql, { ...wish, start_token: "of another" }), []);
    assert.deepEqual(await createChildren(sql, "w-other", [wish]), []);
    assert.deepEqual(await make(sql, { ...wish, job_run_id: 4711 }), []);
    const { made } = await sql.begin(async (tx) => {
      await tx`update job_run set state = 'ORPHANED' where id = ${parent.id}`;
      const made = make(sql, wish);
      await Promise.race([untilLocked(tx, 1), made.then(() => assert.fail("it did not wait"))]);
      return { made };
    });
    assert.deepEqual(await made, [], "it was taken from its worker while the child was being made");
    await sql`update job_run set state = 'RUNNING', cancel_requested_at = clock_timestamp() where id = ${parent.id}`;
    assert.match(await refusalOf(sql, wish), /^Cannot call "resize": run \d+ is to end$/);
    assert.equal((await sql`select from job_run where parent_run_id is not null`).length, 0);
    await sql`update job_run set cancel_requested_at = null where id = ${parent.id}`;
    const id = idOf(await make(sql, wish));
    await sql`update job_run set cancel_requested_at = clock_timestamp() where id = ${parent.id}`;
    assert.equal(idOf(await make(sql, wish)), id, "one that was made before is found");
  });
});

Deno.test("what cannot be called is refused with a sentence, and the others of the statement are made", async () => {
  await withStores(async ({ sql }) => {
    const args_schema = { type: "object", properties: { width: { type: "number" } }, required: ["width"] };
    await aDefinition(sql, { name: "resize", args_schema });
    await aDefinition(sql, { name: "mail_all" });
    await aDefinition(sql, { name: "gone", enabled: false });
    await sql`update job_definition set removed_at = clock_timestamp() where name = 'gone'`;
    const { id } = await aDefinition(sql, {
      name: "report",
      permissions: { call: ["resize", "mail_*", "gone", "none"] },
    });
    const parent = await anOwnedRun(sql, { job_definition_id: id });
    const deep = await aParent(sql, { depth: DEEPEST });
    const shut = await aParent(sql, {}, {});
    const fine = { args: { width: 3 } };
    const said = async (wish: ChildWish) => (await refusalOf(sql, wish)).replace(/^Cannot call "\w+": /, "");
    assert.match(
      await said(aWish(shut, "resize", fine)),
      /^permissions\.call of job_\w+ does not name it; add "resize" there, and `deno task sync`$/,
    );
    assert.match(await said(aWish(parent, "report")), /^permissions\.call of report does not name it/);
    assert.match(await said(aWish(parent, "none")), /^no such job takes runs/);
    assert.match(await said(aWish(parent, "gone")), /^no such job takes runs/);
    assert.match(await said(aWish(parent, "resize", { args: { width: "3" } })), /^its args do not fit: width: /);
    assert.match(await said(aWish(deep, "resize", fine)), /^run \d+ is 16 calls below the first, which is the most/);
    const started = { ...fine, is_awaited: false };
    const wrong: ChildWish["options"][] = [{ priority: 1000 }, { runAt: "soon" }, { runAt: "0000-01-01T00:00:00Z" }, {
      node: 7,
    }, {
      serialKey: "",
    }];
    for (const options of wrong) {
      assert.match(
        await refusalOf(sql, aWish(parent, "resize", { ...started, options })),
        /^Cannot start "resize": .*(must be|give)/,
      );
    }
    const mixed = await make(
      sql,
      aWish(parent, "resize", { key: "call:a", args: { width: 1, text: "\u0000" } }),
      aWish(parent, "mail_all"),
      aWish(parent, "none", { key: "call:b" }),
    );
    const outcomes = mixed.map((child) => [child.key, "child_run_id" in child]).toSorted();
    assert.deepEqual(outcomes, [["call:a", false], ["call:b", false], ["call:mail_all", true]]);
  });
});

Deno.test("a run that would wait for the serial key of one that waits for it is refused, and so are no others", async () => {
  await withStores(async ({ sql }) => {
    await aDefinition(sql, { name: "step", serial_key: "tenant:{tenant}" });
    await aDefinition(sql, { name: "single", concurrency_policy: "forbid" });
    const root = await aParent(sql, { serial_key: "tenant:a" });
    const middle = await aParent(sql, { parent_run_id: root.id, parent_key: "call:middle", depth: 1 });
    const apart = await aParent(sql, { parent_run_id: root.id, depth: 1 });
    const tenant = (parent: Owned, name: string) => aWish(parent, "step", { args: { tenant: name } });
    assert.equal(
      await refusalOf(sql, tenant(middle, "a")),
      `Cannot call "step": it would wait for run ${root.id}, which has its serial key "tenant:a" and waits for it; give one of the two another serial key`,
    );
    idOf(await make(sql, { ...tenant(middle, "a"), key: "start:step", is_awaited: false }));
    idOf(await make(sql, tenant(middle, "b")));
    idOf(await make(sql, tenant(apart, "a")));
    const lone = await aParent(sql, { serial_key: "job:single" });
    assert.match(await refusalOf(sql, aWish(lone, "single")), /which has its serial key "job:single"/);
  });
});

Deno.test("the end of a child wakes its suspended parent, which gets its result, and no end is lost when both come at once", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await aDefinition(sql, { name: "resize" });
    const { id: job_definition_id } = await aDefinition(sql, { permissions: { call: true } });
    for (let round = 0; round < 100; round++) {
      const parent = await anOwnedRun(sql, { job_definition_id });
      const child_run_id = idOf(await make(sql, aWish(parent, "resize")));
      await write(sql, aWrite(parent, "call:resize", { child_run_id }));
      const worker = async () => {
        for (;;) {
          const [look] = await findArrivals(sql, [parent.id]);
          if (look!.arrivals.length > 0) return;
          const suspended = await suspendRuns(sql, WORKER, [{ ...parent, wakes: look!.wakes, wakes_in_ms: null }]);
          if (suspended.length > 0) return;
        }
      };
      const leader = async () => {
        for (let tick = 0; tick < 3; tick++) await applyWakeChecks(sql, term);
      };
      const end = async () => {
        for (let wait = round % 4; wait > 0; wait--) await sql`select 1`;
        await sql`
          update job_run set state = 'SUCCEEDED', finished_at = clock_timestamp(), result = ${
          sql.json({ round })
        } where id = ${child_run_id}`;
      };
      await Promise.all([worker(), leader(), end()]);
      await applyWakeChecks(sql, term);
      const [row] = await sql`select state, held from job_run where id = ${parent.id}`;
      assert.equal(row?.held, false, `round ${round}: ${row?.state}, and nobody will wake it`);
      const [found] = await findArrivals(sql, [parent.id]);
      assert.deepEqual(found?.arrivals, [{ key: "call:resize", outcome: "DONE", result: { round }, child_run_id }]);
    }
  });
});

Deno.test("children that are made while their parent ends are either not made, or canceled with it", async () => {
  await withStores(async ({ sql }) => {
    const term = await aTerm(sql);
    await aDefinition(sql, { name: "resize" });
    const { id: job_definition_id } = await aDefinition(sql, { permissions: { call: true } });
    const counts = { none: 0, canceled: 0 };
    for (let round = 0; round < 60; round++) {
      const parent = await anOwnedRun(sql, { job_definition_id });
      const end = async () => {
        for (let wait = round % 5; wait > 0; wait--) await sql`select 1`;
        await sql`update job_run set state = 'CANCELED', finished_at = clock_timestamp() where id = ${parent.id}`;
      };
      await Promise.all([make(sql, aWish(parent, "resize")), end()]);
      await applyWakeChecks(sql, term);
      const children =
        await sql`select cancel_requested_at is not null as asked from job_run where parent_run_id = ${parent.id}`;
      assert(children.every(({ asked }) => asked), `round ${round}: a child goes on`);
      counts[children.length === 0 ? "none" : "canceled"]++;
    }
    assert(counts.none > 0 && counts.canceled > 0, `both ways were gone: ${JSON.stringify(counts)}`);
  });
});

Deno.test("the run that goes on needs no permission, is no deeper, and gets what its forerunner has not read", async () => {
  await withStores(async ({ sql }) => {
    const { id: job_definition_id } = await aDefinition(sql, {
      name: "pages",
      permissions: {},
      messages: { m: { schema: null } },
    });
    const parent = await anOwnedRun(sql, {
      job_definition_id,
      depth: DEEPEST,
      priority: 77,
      serial_key: "own",
      node: "node-7",
    });
    await sql`
      insert into run_message (job_run_id, name, payload, sent_by, taken_by)
      values (${parent.id}, 'm', '1', 'ann', 'message:m'), (${parent.id}, 'm', '2', 'ann', null)`;
    const wish = aWish(parent, "pages", { key: "again", is_awaited: false, goes_on: true, args: { page: 2 } });
    const id = idOf(await make(sql, wish));
    assert.equal(idOf(await make(sql, wish)), id, "made once");
    const [row] = await sql`
      select args_json, depth, priority, serial_key, node, parent_key, held from job_run where id = ${id}`;
    assert.deepEqual({ ...row }, {
      ...{
        args_json: { page: 2 },
        depth: DEEPEST,
        priority: 77,
        serial_key: "own",
        node: "node-7",
        parent_key: null,
        held: true,
      },
    });
    assert.deepEqual(
      [...await sql`select job_run_id, payload from run_message order by id`],
      [{ job_run_id: parent.id, payload: 1 }, { job_run_id: id, payload: 2 }],
    );
    assert.match(await refusalOf(sql, { ...wish, key: "start:pages", goes_on: undefined }), /does not name it/);
  });
});
